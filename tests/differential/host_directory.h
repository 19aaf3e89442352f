// A directory of this machine, driven by system calls: the tmpfs that says what is right, or a mount of
// turnbox.
//
// The calling process changes its root directory to the entered directory before each call, so that no chain
// of symlinks can lead out, and its file-system ids to those of the step. It must be root, and of one thread.
#pragma once

#include "tests/differential/file_system.h"
#include "vmm/sys/fd.h"

namespace turnbox::differential {

class HostDirectory final : public FileSystem {
 public:
  // `lacks_zero_range`: FALLOC_FL_ZERO_RANGE is made of a hole and an allocation, for tmpfs knows none.
  HostDirectory(std::string name, const std::string& directory, bool lacks_zero_range = false);
  ~HostDirectory() override;

  std::string name() const override { return name_; }
  bool has_kernel() const override { return true; }
  void enter() override;
  void become(const Who& who) override { who_ = who; }

  Answer open(int slot, const std::string& path, uint32_t flags, uint32_t mode) override;
  Answer close(int slot) override;
  Answer read(int slot, uint64_t offset, uint32_t size, std::string& bytes) override;
  Answer write(int slot, uint64_t offset, const std::string& bytes) override;
  Answer seek(int slot, uint64_t offset, int whence) override;
  Answer allocate(int slot, uint32_t mode, uint64_t offset, uint64_t size) override;
  Answer copy_range(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t size) override;

  Answer mkdir(const std::string& path, uint32_t mode) override;
  Answer rmdir(const std::string& path) override;
  Answer mknod(const std::string& path, uint32_t mode, uint32_t major, uint32_t minor) override;
  Answer symlink(const std::string& target, const std::string& path) override;
  Answer readlink(const std::string& path, std::string& target) override;
  Answer link(const At& from, const std::string& path) override;
  Answer unlink(const std::string& path) override;
  Answer rename(const std::string& from, const std::string& to, uint32_t flags) override;

  Answer stat(const At& at, Stat& stat) override;
  Answer chmod(const At& at, uint32_t mode) override;
  Answer chown(const At& at, uint32_t uid, uint32_t gid) override;
  Answer utimens(const At& at, const std::array<timespec, 2>& times) override;
  Answer truncate(const At& at, uint64_t size) override;
  Answer setxattr(const At& at, const std::string& name, const std::string& value, int flags) override;
  Answer getxattr(const At& at, const std::string& name, uint32_t room, std::string& value) override;
  Answer listxattr(const At& at, uint32_t room, std::vector<std::string>& names) override;
  Answer removexattr(const At& at, const std::string& name) override;

  Answer list(const std::string& path, std::vector<Entry>& entries) override;
  Answer statfs(Space& space) override;

 private:
  void be_there();  // root directory, ids and umask as the next call must find them
  int fd(int slot) const { return slots_[static_cast<size_t>(slot)].get(); }
  Answer punch_and_allocate(int slot, uint32_t mode, uint64_t offset, uint64_t size);
  void sweep();  // removes what the last enter() made

  std::string name_;
  bool lacks_zero_range_;
  sys::Fd directory_, root_, proc_fds_;
  unsigned entered_ = 0;
  std::array<sys::Fd, kSlots> slots_;
  Who who_;
};

}  // namespace turnbox::differential
