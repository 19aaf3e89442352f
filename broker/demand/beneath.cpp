#include "broker/demand/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

namespace turnbox::demand {

sys::Result<Beneath> Beneath::open(const std::string& directory) {
  TRY_ASSIGN(sys::Fd root, sys::open_fd(directory.c_str(), O_RDONLY | O_DIRECTORY));
  return Beneath(directory, std::move(root));
}

std::optional<sys::Fd> Beneath::directory(const std::string& path) const {
  open_how how{};
  how.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  sys::Fd fd(static_cast<int>(
      ::syscall(SYS_openat2, root_.get(), path.empty() ? "." : path.c_str(), &how, sizeof how)));
  if (!fd) return std::nullopt;
  return fd;
}

std::optional<struct stat> Beneath::look(const std::string& path) const {
  const auto parent = directory(parent_of(path));
  if (!parent) return std::nullopt;
  struct stat st;
  if (::fstatat(parent->get(), path.empty() ? "." : last_of(path).c_str(), &st, AT_SYMLINK_NOFOLLOW) < 0)
    return std::nullopt;
  return st;
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? std::string() : path.substr(0, slash);
}

std::string last_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

std::optional<std::vector<std::string>> names_in(int directory) {
  // Opened anew: a duplicate would share the position with the caller's descriptor.
  const int again = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> list(again < 0 ? nullptr : ::fdopendir(again), ::closedir);
  if (!list) return std::nullopt;
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(list.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool remove_tree(int directory, const std::string& name) {
  if (::unlinkat(directory, name.c_str(), 0) == 0) return true;
  if (errno != EISDIR && errno != EPERM) return false;
  const sys::Fd inside(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!inside) return false;
  const auto names = names_in(inside.get());
  if (!names) return false;
  for (const std::string& entry : *names) {
    if (!remove_tree(inside.get(), entry)) return false;
  }
  return ::unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0;
}

}  // namespace turnbox::demand
