#include "broker/demand/user_slot.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace turnbox::demand {

sys::Result<std::optional<UserSlot>> UserSlot::take(const std::string& directory) {
  if (::geteuid() != 0) return std::optional<UserSlot>();
  if (::mkdir(directory.c_str(), 0700) < 0 && errno != EEXIST)
    return sys::fail_errno("cannot make " + directory);
  for (unsigned slot = 0; slot < kSlots; ++slot) {
    const std::string path = directory + "/" + std::to_string(slot);
    TRY_ASSIGN(sys::Fd fd, sys::open_fd(path.c_str(), O_RDWR | O_CREAT, 0600));
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0)
      return std::optional<UserSlot>(UserSlot(slot, std::move(fd)));
    if (errno != EWOULDBLOCK) return sys::fail_errno("cannot lock " + path);
  }
  return sys::fail(sys::ErrorKind::limit,
                   "all " + std::to_string(kSlots) + " sandbox users are taken; end some sandboxes");
}

}  // namespace turnbox::demand
