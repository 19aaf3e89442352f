#include "vmm/guest/process_set.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

namespace turnbox::guest {
namespace {

using sys::ErrorKind;
using sys::fail_errno;
using sys::Fd;
using sys::Result;

int call(long result) {
  return static_cast<int>(result);
}

Fd at(const Fd& directory, const char* name, int flags) {
  return Fd(::openat(directory.get(), name, flags | O_CLOEXEC));
}

// A cgroup2 mount that no path leads to.
Fd detached_cgroup2() {
  const Fd context(call(::syscall(SYS_fsopen, "cgroup2", FSOPEN_CLOEXEC)));
  if (!context || ::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) < 0)
    return Fd();
  return Fd(call(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, 0)));
}

// Up to a few KiB of a small file; longer files are read in turns by `each_line`.
template <typename Each>
void each_line(const Fd& file, Each each) {
  std::string rest;
  std::array<char, 4096> chunk;
  ssize_t got;
  while ((got = ::read(file.get(), chunk.data(), chunk.size())) > 0) {
    rest.append(chunk.data(), static_cast<size_t>(got));
    size_t from = 0;
    for (size_t end; (end = rest.find('\n', from)) != std::string::npos; from = end + 1) {
      each(std::string_view(rest).substr(from, end - from));
    }
    rest.erase(0, from);
  }
}

std::optional<pid_t> pid_from(std::string_view text) {
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
  if (error != std::errc{} || end != text.data() + text.size() || pid <= 0) return std::nullopt;
  return pid;
}

// Walks a directory's names; dot and dot-dot left out.
template <typename Each>
void each_name(Fd directory, Each each) {
  DIR* stream = ::fdopendir(directory.get());
  if (stream == nullptr) return;
  (void)directory.release();
  while (const dirent* entry = ::readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") each(*entry);
  }
  ::closedir(stream);
}

// The pids of a cgroup and of all below it (an exec that is root may have made some).
void collect(const Fd& cgroup, std::vector<pid_t>& into, int depth) {
  const Fd procs = at(cgroup, "cgroup.procs", O_RDONLY);
  each_line(procs, [&](std::string_view line) {
    if (auto pid = pid_from(line)) into.push_back(*pid);
  });
  if (depth == 0) return;
  each_name(at(cgroup, ".", O_RDONLY | O_DIRECTORY), [&](const dirent& entry) {
    if (entry.d_type == DT_DIR) collect(at(cgroup, entry.d_name, O_RDONLY | O_DIRECTORY), into, depth - 1);
  });
}

void remove_below(const Fd& parent, const char* name, int depth) {
  if (depth > 0) {
    const Fd directory = at(parent, name, O_RDONLY | O_DIRECTORY);
    each_name(at(directory, ".", O_RDONLY | O_DIRECTORY), [&](const dirent& entry) {
      if (entry.d_type == DT_DIR) remove_below(directory, entry.d_name, depth - 1);
    });
  }
  ::unlinkat(parent.get(), name, AT_REMOVEDIR);
}

constexpr int kCgroupDepth = 16;

// Live processes of the machine by parent; zombies are left out.
std::multimap<pid_t, pid_t> live_children() {
  std::multimap<pid_t, pid_t> children;
  each_name(Fd(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), [&](const dirent& entry) {
    const auto pid = pid_from(entry.d_name);
    if (!pid) return;
    const std::string path = "/proc/" + std::to_string(*pid) + "/stat";
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 512> text{};
    const ssize_t got = ::read(file.get(), text.data(), text.size() - 1);
    // «pid (name) state ppid …»; a name may hold anything, so look for its last parenthesis.
    const char* after = got > 0 ? std::strrchr(text.data(), ')') : nullptr;
    char state = 0;
    int parent = 0;
    if (after == nullptr || std::sscanf(after + 1, " %c %d", &state, &parent) != 2) return;
    if (state != 'Z' && state != 'X') children.emplace(parent, *pid);
  });
  return children;
}

void descend(const std::multimap<pid_t, pid_t>& children, pid_t from, std::vector<pid_t>& into) {
  const auto [first, last] = children.equal_range(from);
  for (auto at = first; at != last; ++at) {
    into.push_back(at->second);
    descend(children, at->second, into);
  }
}

}  // namespace

ProcessSets::ProcessSets(std::string prefix, bool try_cgroup) : prefix_(std::move(prefix)) {
  if (try_cgroup) root_ = detached_cgroup2();
  if (!root_) return;
  const std::string probe = prefix_ + "probe";
  ::mkdirat(root_.get(), probe.c_str(), 0755);
  const Fd directory = at(root_, probe.c_str(), O_RDONLY | O_DIRECTORY);
  const bool usable = directory && ::faccessat(directory.get(), "cgroup.kill", W_OK, 0) == 0;
  ::unlinkat(root_.get(), probe.c_str(), AT_REMOVEDIR);
  if (!usable) root_.reset();
}

ProcessSets::~ProcessSets() = default;

Result<std::unique_ptr<ProcessSet>> ProcessSets::make() {
  if (!root_) return std::make_unique<ProcessSet>(*this, "", Fd());
  std::string name = prefix_ + std::to_string(++next_);
  if (::mkdirat(root_.get(), name.c_str(), 0755) < 0) return fail_errno("cannot make cgroup " + name);
  Fd directory = at(root_, name.c_str(), O_RDONLY | O_DIRECTORY);
  if (!directory) return fail_errno("cannot open cgroup " + name);
  return std::make_unique<ProcessSet>(*this, std::move(name), std::move(directory));
}

ProcessSet::ProcessSet(ProcessSets& sets, std::string name, Fd directory)
    : sets_(sets), name_(std::move(name)), directory_(std::move(directory)) {
  if (directory_) events_ = at(directory_, "cgroup.events", O_RDONLY);
}

ProcessSet::~ProcessSet() {
  kill();
  events_.reset();
  if (directory_) remove_below(sets_.root_, name_.c_str(), kCgroupDepth);
}

Result<pid_t> ProcessSet::fork_leader() {
  clone_args args{};
  args.exit_signal = SIGCHLD;
  if (directory_) {
    args.flags = CLONE_INTO_CGROUP;
    args.cgroup = static_cast<uint64_t>(directory_.get());
  }
  const pid_t pid = call(::syscall(SYS_clone3, &args, sizeof args));
  if (pid < 0) return fail_errno("cannot fork");
  if (pid == 0) {
    if (directory_) {
      // Best effort: without it a root command could still move itself to another cgroup.
      (void)::unshare(CLONE_NEWCGROUP);
    } else {
      ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    }
    return 0;
  }
  leader_ = pid;
  sets_.adopt(pid);
  return pid;
}

void ProcessSet::leader_reaped() {
  sets_.reaped(leader_);
  leader_ = -1;
}

std::vector<pid_t> ProcessSet::members() {
  std::vector<pid_t> pids;
  if (directory_) {
    collect(directory_, pids, kCgroupDepth);
    return pids;
  }
  const auto children = live_children();
  if (leader_ > 0) {
    pids.push_back(leader_);
    descend(children, leader_, pids);
    return pids;
  }
  const auto [first, last] = children.equal_range(::getpid());
  for (auto at = first; at != last; ++at) {
    if (sets_.ours_.contains(at->second)) continue;
    pids.push_back(at->second);
    descend(children, at->second, pids);
  }
  return pids;
}

void ProcessSet::signal(int number) {
  if (number == SIGKILL) return kill();
  for (const pid_t pid : members()) ::kill(pid, number);
}

void ProcessSet::kill() {
  if (directory_) {
    const Fd file = at(directory_, "cgroup.kill", O_WRONLY);
    (void)!::write(file.get(), "1", 1);
    return;
  }
  // The leader goes last, lest its orphans lose their place below it; stopped, lest it sees them die and ends
  // by itself.
  if (leader_ > 0) ::kill(leader_, SIGSTOP);
  std::vector<pid_t> pids = members();
  std::ranges::reverse(pids);
  for (const pid_t pid : pids) ::kill(pid, SIGKILL);
}

bool ProcessSet::empty() {
  if (leader_ > 0) return false;
  if (!directory_) return members().empty();
  bool populated = false;
  ::lseek(events_.get(), 0, SEEK_SET);
  each_line(events_, [&](std::string_view line) { populated = populated || line == "populated 1"; });
  return !populated;
}

}  // namespace turnbox::guest
