// A directory of the host whose inside is reached by openat2 below it only, through no symlink.
#pragma once

#include <dirent.h>
#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "vmm/sys/fd.h"

namespace turnbox::demand {

class Beneath {
 public:
  static sys::Result<Beneath> open(const std::string& directory);

  const std::string& name() const { return name_; }
  std::string shown(const std::string& path) const { return path.empty() ? name_ : name_ + "/" + path; }
  int root() const { return root_.get(); }

  // A directory inside; errno stays set where it fails. ELOOP or ENOTDIR: a component is something else.
  std::optional<sys::Fd> directory(const std::string& path) const;

  // What stands at `path`, not followed; empty with errno where nothing does.
  std::optional<struct stat> look(const std::string& path) const;

 private:
  Beneath(std::string name, sys::Fd root) : name_(std::move(name)), root_(std::move(root)) {}
  std::string name_;
  sys::Fd root_;
};

std::string parent_of(const std::string& path);  // "" for an entry of the root
std::string last_of(const std::string& path);

// Names in an open directory, sorted, without "." and "..".
std::optional<std::vector<std::string>> names_in(int directory);

// Removes whatever stands there, and everything below; follows nothing. False with errno.
bool remove_tree(int directory, const std::string& name);

}  // namespace turnbox::demand
