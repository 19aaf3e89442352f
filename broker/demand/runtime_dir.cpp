#include "broker/demand/runtime_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace turnbox::demand {
namespace {

sys::Result<sys::Fd> lock_of(const std::string& path) {
  const std::string name = path + "/owner.lock";
  TRY_ASSIGN(sys::Fd fd, sys::open_fd(name.c_str(), O_RDWR | O_CREAT, 0600));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) < 0) {
    if (errno == EWOULDBLOCK) return sys::fail(sys::ErrorKind::conflict, path + " has a living owner");
    return sys::fail_errno("cannot lock " + name);
  }
  return fd;
}

}  // namespace

sys::Result<RuntimeDir> RuntimeDir::make(const std::string& runtime, const std::string& id, gid_t group) {
  // Made under a name that reconciliation passes over, locked, then renamed: no moment without an owner.
  const std::string path = runtime + "/" + id;
  const std::string hidden = runtime + "/.new-" + id;
  if (::mkdir(hidden.c_str(), 0710) < 0) return sys::fail_errno("cannot make " + hidden);
  auto lock = lock_of(hidden);
  if (!lock || (group != 0 && ::chown(hidden.c_str(), static_cast<uid_t>(-1), group) < 0) ||
      ::rename(hidden.c_str(), path.c_str()) < 0) {
    auto failed = lock ? sys::fail_errno("cannot make " + path) : tl::unexpected(lock.error());
    std::error_code ec;
    std::filesystem::remove_all(hidden, ec);
    return failed;
  }
  return RuntimeDir(path, std::move(*lock));
}

sys::Result<RuntimeDir> RuntimeDir::take_over(const std::string& path) {
  TRY_ASSIGN(sys::Fd lock, lock_of(path));
  return RuntimeDir(path, std::move(lock));
}

bool RuntimeDir::is_free(const std::string& path) {
  return lock_of(path).has_value();
}

RuntimeDir::~RuntimeDir() {
  (void)remove();
}

sys::Status RuntimeDir::remove() {
  if (!lock_) return {};
  std::error_code ec;
  std::filesystem::remove_all(path_, ec);
  lock_.reset();
  if (ec) return sys::fail(sys::ErrorKind::io, "cannot remove " + path_ + ": " + ec.message());
  return {};
}

}  // namespace turnbox::demand
