// The processes of one exec, findable and killable however they hid themselves.
//
// Theory of operation. In the guest each exec has a cgroup (v2) of its own; its leader is born inside it, and
// its cgroup namespace is rooted there, so nothing the exec forks can leave. The hierarchy is mounted
// nowhere: init holds its only mount as a descriptor. Where cgroup v2 cannot be had (unit tests on some
// hosts) the leader is made a child subreaper instead: while it lives, its orphans stay below it; orphans
// that reach *us* belong to leaders that ended, and are killed.
//
// One thread. ProcessSets outlives its sets. Pids given to `adopt` are children of this process and not yet
// reaped.
//
// 1. kill() reaches every process of the set that existed when it was called, or says by !empty() that it
// must be repeated.
// 2. empty() is true only when no process of the set is alive; the leader counts until `leader_reaped`.
#pragma once

#include <sys/types.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "vmm/sys/fd.h"

namespace turnbox::guest {

class ProcessSet;

class ProcessSets {
 public:
  enum class Kind { cgroup, subreaper };

  // Probes: Kind::cgroup where a cgroup2 can be mounted and has cgroup.kill, else Kind::subreaper. `prefix`
  // names the cgroups made below the hierarchy's root.
  explicit ProcessSets(std::string prefix, bool try_cgroup = true);
  ~ProcessSets();
  ProcessSets(const ProcessSets&) = delete;
  ProcessSets& operator=(const ProcessSets&) = delete;

  Kind kind() const { return root_ ? Kind::cgroup : Kind::subreaper; }
  sys::Result<std::unique_ptr<ProcessSet>> make();

  // Children of ours that belong to no set (the flush helper).
  void adopt(pid_t pid) { ours_.insert(pid); }
  void reaped(pid_t pid) { ours_.erase(pid); }

 private:
  friend class ProcessSet;
  std::string prefix_;
  sys::Fd root_;          // detached cgroup2 mount
  std::set<pid_t> ours_;  // live leaders and helpers
  unsigned next_ = 0;
};

class ProcessSet {
 public:
  ProcessSet(ProcessSets& sets, std::string name, sys::Fd directory);
  ~ProcessSet();  // removes the cgroup; what still lives in it is killed first
  ProcessSet(const ProcessSet&) = delete;
  ProcessSet& operator=(const ProcessSet&) = delete;

  // Forks into the set. 0 in the child, which calls nothing but async-signal-safe functions.
  sys::Result<pid_t> fork_leader();
  void leader_reaped();

  void signal(int number);
  void kill();
  bool empty();
  int events_fd() const { return events_.get(); }  // POLLPRI when empty() may have changed; -1: poll by time

 private:
  std::vector<pid_t> members();
  ProcessSets& sets_;
  std::string name_;
  sys::Fd directory_;  // empty in Kind::subreaper
  sys::Fd events_;
  pid_t leader_ = -1;
};

}  // namespace turnbox::guest
