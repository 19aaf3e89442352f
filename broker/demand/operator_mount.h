// One mount of an operator: made, handed to turnbox-fsd, watched, and taken away whatever happens to this
// process.
//
// A guard, a process of its own in a session of its own, waits for our end and then removes what we left:
// `kill -9` of the command leaves no dead mount. One thread.
#pragma once

#include <string>

#include "fs/control/client.h"
#include "vmm/sys/fuse_mount.h"
#include "vmm/sys/process.h"

namespace turnbox::demand {

enum class MountEnd { asked, unmounted, server_gone };

class OperatorMount {
 public:
  // On `dir`, an empty directory. `guard_words`: how this program is told to be the guard.
  static sys::Result<OperatorMount> make(const std::string& dir, bool write, const std::string& guard_word);

  // `of`: the version's name at that fsd. From then on the mount answers.
  sys::Status attach(control::Client& files, const std::string& of, bool write);
  // Until `stop_fd` is readable, the mount was taken away, or fsd ended.
  sys::Result<MountEnd> wait(control::Client& files, int stop_fd);
  void unmount();

  const std::string& dir() const { return mount_.dir(); }

 private:
  OperatorMount(sys::Fd pipe, sys::Process guard, sys::FuseMount mount)
      : pipe_(std::move(pipe)), guard_(std::move(guard)), mount_(std::move(mount)) {}
  // In this order: the mount goes first, then the guard, which had nothing to do.
  sys::Fd pipe_;
  sys::Process guard_;
  sys::FuseMount mount_;
  uint64_t number_ = 0;
};

// The guard's whole life: it reads the mount's number from `pipe`, waits for its end, and unmounts. `before`
// is what stood at `dir` before the mount was made, for an owner that died while it made it.
void guard_mount(int pipe, const std::string& dir, const std::string& before);

}  // namespace turnbox::demand
