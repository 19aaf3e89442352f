#include "vmm/sys/result.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace turnbox::sys {

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return "usage";
    case ErrorKind::invalid:
      return "invalid";
    case ErrorKind::not_found:
      return "not_found";
    case ErrorKind::conflict:
      return "conflict";
    case ErrorKind::refused:
      return "refused";
    case ErrorKind::limit:
      return "limit";
    case ErrorKind::unavailable:
      return "unavailable";
    case ErrorKind::protocol:
      return "protocol";
    case ErrorKind::io:
      return "io";
  }
  return "unknown";
}

tl::unexpected<Error> fail_errno(std::string_view what, int err) {
  std::string text(what);
  text += ": ";
  text += std::strerror(err);
  return fail(err == ENOENT ? ErrorKind::not_found : ErrorKind::io, std::move(text));
}

void bug(const char* file, int line, const char* what) {
  std::fprintf(stderr, "turnbox: bug at %s:%d: %s does not hold\n", file, line, what);
  std::abort();
}

}  // namespace turnbox::sys
