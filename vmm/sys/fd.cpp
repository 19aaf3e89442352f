#include "vmm/sys/fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace turnbox::sys {

void Fd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Result<Fd> open_fd(const char* path, int flags, unsigned mode) {
  const int fd = ::open(path, flags | O_CLOEXEC, mode);
  if (fd < 0) return fail_errno(std::string("cannot open ") + path);
  return Fd(fd);
}

Result<Fd> duplicate(int fd) {
  const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return fail_errno("cannot duplicate a descriptor");
  return Fd(copy);
}

Status set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
    return fail_errno("cannot make a descriptor non-blocking");
  }
  return {};
}

Status write_full(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail_errno("cannot write");
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<size_t> read_full(int fd, std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t n = ::read(fd, into.data() + done, into.size() - done);
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail_errno("cannot read");
    }
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

Result<size_t> pread_full(int fd, std::span<std::byte> into, size_t offset) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t n = ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail_errno("cannot read");
    }
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

Result<std::string> read_file(const std::string& path, size_t most) {
  TRY_ASSIGN(Fd fd, open_fd(path.c_str(), O_RDONLY));
  // Grows with what is really there: `most` may be generous.
  std::string content;
  size_t piece = 4096;
  while (content.size() <= most) {
    const size_t had = content.size();
    const size_t want = std::min(piece, most + 1 - had);
    content.resize(had + want);
    auto got = read_full(fd.get(), std::as_writable_bytes(std::span(content)).subspan(had));
    if (!got) return context("cannot read " + path, std::move(got).error());
    content.resize(had + *got);
    if (*got < want) return content;
    piece = content.size();
  }
  return fail(ErrorKind::limit, path + " is larger than " + std::to_string(most) + " bytes");
}

Status replace_file(const std::string& path, std::string_view content, unsigned mode) {
  std::string beside = path + ".XXXXXX";
  Fd fd(::mkostemp(beside.data(), O_CLOEXEC));
  if (!fd) return fail_errno("cannot create a file beside " + path);
  auto write_all = [&]() -> Status {
    TRY(write_full(fd.get(), std::as_bytes(std::span(content))));
    if (::fchmod(fd.get(), mode) < 0 || ::fsync(fd.get()) < 0 || ::rename(beside.c_str(), path.c_str()) < 0) {
      return fail_errno("cannot write " + path);
    }
    return {};
  };
  auto written = write_all();
  if (!written) ::unlink(beside.c_str());
  return written;
}

}  // namespace turnbox::sys
