// Anonymous memory files and mappings: how bulk bytes travel between turnbox's processes.
//
// A writer fills a Memfd, seals it and passes the descriptor beside a message. A reader takes only a file
// that is sealed against writing and shrinking, so what it maps cannot change or vanish under it.
#pragma once

#include <span>
#include <string>

#include "vmm/sys/bytes.h"
#include "vmm/sys/fd.h"

namespace turnbox::sys {

// One mmap'ed range, unmapped on destruction.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::span<std::byte> bytes() const { return {at_, size_}; }

  // prot and flags as mmap(2); size 0 gives an empty mapping.
  static Result<Mapping> map(int fd, size_t size, int prot, int flags, size_t offset = 0);

 private:
  std::byte* at_ = nullptr;
  size_t size_ = 0;
};

Result<Fd> make_memfd(const char* name, size_t size = 0);
// Against writing, shrinking, growing and further seals. No writable mapping may exist.
Status seal_memfd(int fd);
// A new sealed memfd that holds `bytes`.
Result<Fd> memfd_with(const char* name, ByteSpan bytes);
// Read-only mapping of a peer's memfd; kind protocol unless it carries F_SEAL_WRITE and F_SEAL_SHRINK, kind
// limit when it is larger than `most` bytes.
Result<Mapping> map_sealed(int fd, size_t most);
Result<size_t> file_size(int fd);

}  // namespace turnbox::sys
