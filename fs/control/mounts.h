// The operators' mounts that this daemon serves, by number.
//
// Belongs to the thread that owns the tree.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "fs/fuse/door.h"
#include "vmm/sys/fd.h"
#include "vmm/sys/result.h"

namespace turnbox::control {

class Mounts {
 public:
  static constexpr size_t kMost = 64;

  explicit Mounts(boost::asio::io_context& io) : io_(io) {}
  Mounts(const Mounts&) = delete;
  Mounts& operator=(const Mounts&) = delete;

  // A tree has one door that writes at most: kind conflict. Kind limit when kMost are served. The mount is
  // the session's, and goes with it; `gone` is told when it went away by itself.
  sys::Result<uint64_t> attach(uint64_t session, fuse::Options what, sys::Fd device,
                               std::function<void(uint64_t mount)> gone);
  sys::Status detach(uint64_t session, uint64_t mount);
  void left(uint64_t session);

 private:
  struct Mount {
    uint64_t session;
    const fs::Tree* written;  // null: read-only
    std::unique_ptr<fuse::Door> door;
  };

  boost::asio::io_context& io_;
  uint64_t next_ = 1;
  std::map<uint64_t, Mount> mounts_;
};

}  // namespace turnbox::control
