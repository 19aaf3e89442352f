// The guest's half of a FUSE session, without a kernel: packs requests, good and bad, and takes replies apart.
//
// A FusePeer stands for one device. How a message reaches the server is its subclass's affair: a chain of descriptors
// made by hand (unit tests), or a real ring of a fake front end (tests/guest).
#pragma once

#include <linux/fuse.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vmm/sys/bytes.h"

namespace turnbox::support {

// Bytes of one request part: structures as they lie in memory, strings with their NUL.
inline sys::Bytes part(const sys::Bytes& bytes) { return bytes; }
inline sys::Bytes part(std::string_view name) {
  sys::Bytes bytes(name.size() + 1);
  std::memcpy(bytes.data(), name.data(), name.size());
  return bytes;
}
inline sys::Bytes part(const char* name) { return part(std::string_view(name)); }
inline sys::Bytes part(const std::string& name) { return part(std::string_view(name)); }
template <typename T>
sys::Bytes part(const T& value) {
  sys::Bytes bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
template <typename... Parts>
sys::Bytes pack(const Parts&... parts) {
  sys::Bytes all;
  (sys::append(all, part(parts)), ...);
  return all;
}

struct FuseReply {
  uint32_t used = 0;  // used.len
  int error = 0;      // positive errno; meaningless when used is 0
  uint64_t unique = 0;
  uint32_t length = 0;  // of the header
  sys::Bytes body;

  template <typename T>
  T as() const {
    T value{};
    if (body.size() >= sizeof(T)) value = sys::load_le<T>(body.data());
    return value;
  }
  std::string text() const { return std::string(sys::as_text(body)); }
};

struct DirEntry {
  uint64_t ino = 0, cookie = 0;
  uint32_t type = 0;
  std::string name;
  fuse_entry_out plus{};  // READDIRPLUS only
};

class FusePeer {
 public:
  static constexpr unsigned kHiprio = 0, kRequests = 1;
  static constexpr size_t kRoom = 8192;
  static constexpr uint64_t kRoot = 1;

  virtual ~FusePeer() = default;
  // One chain: the bytes the device may read, and so many bytes that it may write. Returns what it wrote.
  virtual sys::Bytes exchange(std::span<const std::byte> readable, size_t room, unsigned queue) = 0;

  // A message exactly as given; the reply's header is taken apart where there is one.
  FuseReply send(std::span<const std::byte> message, size_t room = kRoom, unsigned queue = kRequests);
  // A message with a correct header around `arguments`. `change` may spoil the header.
  FuseReply call(uint32_t opcode, uint64_t node, const sys::Bytes& arguments, size_t room = kRoom,
                 const std::function<void(fuse_in_header&)>& change = {});
  sys::Bytes message(uint32_t opcode, uint64_t node, const sys::Bytes& arguments,
                     const std::function<void(fuse_in_header&)>& change = {});

  // The kernel's ways, for cases that are about something else. All but init() need a session.
  FuseReply init(uint64_t flags = ~uint64_t{0}, uint32_t major = 7, uint32_t minor = 36);
  FuseReply lookup(uint64_t dir, std::string_view name);
  uint64_t walk(std::string_view path);  // node id of a path of '/'-separated names from the root; 0 if none
  FuseReply getattr(uint64_t node);
  FuseReply setattr(uint64_t node, const fuse_setattr_in& in);
  FuseReply mkdir(uint64_t dir, std::string_view name, uint32_t mode = 0755);
  FuseReply create(uint64_t dir, std::string_view name, uint32_t flags = 2, uint32_t mode = 0100644);
  FuseReply open(uint64_t node, uint32_t flags);
  FuseReply release(uint64_t node, uint64_t handle);
  FuseReply read(uint64_t node, uint64_t handle, uint64_t offset, uint32_t size);
  FuseReply write(uint64_t node, uint64_t handle, uint64_t offset, std::string_view bytes, uint32_t flags = 0);
  FuseReply unlink(uint64_t dir, std::string_view name);
  FuseReply rename(uint64_t from, std::string_view old_name, uint64_t to, std::string_view new_name,
                   uint32_t flags = 0);
  FuseReply opendir(uint64_t node);
  FuseReply readdir(uint64_t node, uint64_t handle, uint64_t cookie, uint32_t size, bool plus = false);
  void forget(uint64_t node, uint64_t count, unsigned queue = kHiprio);

  static std::vector<DirEntry> entries(const FuseReply& reply, bool plus = false);
  uint64_t last_unique() const { return unique_; }

  uint32_t uid = 0, gid = 0;

 private:
  uint64_t unique_ = 0;
};

}  // namespace turnbox::support
