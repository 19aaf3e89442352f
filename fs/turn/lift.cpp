#include "fs/turn/lift.h"

#include <cstring>

namespace turnbox::turn {

tl::unexpected<sys::Error> error_of(fs::Errno error, std::string_view what) {
  const int number = static_cast<int>(error);
  const std::string text(what);
  switch (number) {
    case ENOSPC:
      return sys::fail(
          sys::ErrorKind::limit,
          text + ": the sandbox's budget for files is used up; remove files or give it a larger one");
    case ENOENT:
      return sys::fail(sys::ErrorKind::not_found, text + ": not found");
    case EEXIST:
      return sys::fail(sys::ErrorKind::conflict, text + ": exists already");
    default:
      return sys::fail(sys::ErrorKind::io, text + ": " + std::strerror(number));
  }
}

}  // namespace turnbox::turn
