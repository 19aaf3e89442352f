#include "vmm/sys/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace turnbox::sys {

Mapping::Mapping(Mapping&& other) noexcept
    : at_(std::exchange(other.at_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    if (at_ != nullptr) ::munmap(at_, size_);
    at_ = std::exchange(other.at_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Mapping::~Mapping() {
  if (at_ != nullptr) ::munmap(at_, size_);
}

Result<Mapping> Mapping::map(int fd, size_t size, int prot, int flags, size_t offset) {
  Mapping mapping;
  if (size == 0) return mapping;
  void* at = ::mmap(nullptr, size, prot, flags, fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED) return fail_errno("cannot map memory");
  mapping.at_ = static_cast<std::byte*>(at);
  mapping.size_ = size;
  return mapping;
}

Result<Fd> make_memfd(const char* name, size_t size) {
  Fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail_errno("cannot create a memory file");
  if (size > 0 && ::ftruncate(fd.get(), static_cast<off_t>(size)) < 0) {
    return fail_errno("cannot size a memory file");
  }
  return fd;
}

Status seal_memfd(int fd) {
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
    return fail_errno("cannot seal a memory file");
  }
  return {};
}

Result<Fd> memfd_with(const char* name, ByteSpan bytes) {
  TRY_ASSIGN(Fd fd, make_memfd(name));
  TRY(write_full(fd.get(), bytes));
  TRY(seal_memfd(fd.get()));
  return fd;
}

Result<size_t> file_size(int fd) {
  struct stat st;
  if (::fstat(fd, &st) < 0) return fail_errno("cannot stat a descriptor");
  return static_cast<size_t>(st.st_size);
}

Result<Mapping> map_sealed(int fd, size_t most) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  constexpr int kNeeded = F_SEAL_WRITE | F_SEAL_SHRINK;
  if (seals < 0 || (seals & kNeeded) != kNeeded) {
    return fail(ErrorKind::protocol, "the peer's memory file is not sealed against writing and shrinking");
  }
  TRY_ASSIGN(const size_t size, file_size(fd));
  if (size > most) {
    return fail(ErrorKind::limit, "the peer's memory file has " + std::to_string(size) +
                                      " bytes, more than " + std::to_string(most));
  }
  return Mapping::map(fd, size, PROT_READ, MAP_SHARED);
}

}  // namespace turnbox::sys
