#include "broker/cli/whole_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "vmm/sys/fd.h"

namespace turnbox::cli {

sys::Status write_whole_file(const std::string& file, const std::function<sys::Status(int fd)>& fill) {
  std::string beside = file + ".XXXXXX";
  const sys::Fd fd(::mkostemp(beside.data(), O_CLOEXEC));
  if (!fd) return sys::fail_errno("cannot write beside " + file);
  auto written = fill(fd.get());
  if (written && (::fchmod(fd.get(), 0644) < 0 || ::rename(beside.c_str(), file.c_str()) < 0)) {
    written = sys::fail_errno("cannot write " + file);
  }
  if (!written) ::unlink(beside.c_str());
  return written;
}

}  // namespace turnbox::cli
