// Fd: the one owner of a file descriptor. Move-only, closes on destruction; -1 means empty.
//
// Every descriptor of turnbox is close-on-exec from birth; process.h passes chosen ones on by number.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "vmm/sys/result.h"

namespace turnbox::sys {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset();

 private:
  int fd_ = -1;
};

Result<Fd> open_fd(const char* path, int flags, unsigned mode = 0);  // O_CLOEXEC is added
Result<Fd> duplicate(int fd);                                        // close-on-exec copy
Status set_nonblocking(int fd);

// Whole transfers: loop over short counts and EINTR. read_full returns the bytes read, fewer only at end of
// file.
Status write_full(int fd, std::span<const std::byte> bytes);
Result<size_t> read_full(int fd, std::span<std::byte> into);
Result<size_t> pread_full(int fd, std::span<std::byte> into, size_t offset);

// The whole content of a file, refused with kind limit when it is larger than `most` bytes.
Result<std::string> read_file(const std::string& path, size_t most);
// Write beside, fsync, rename over: readers see the old content or the new one.
Status replace_file(const std::string& path, std::string_view content, unsigned mode);

}  // namespace turnbox::sys
