#include "vmm/domain/leftover.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>

namespace turnbox::domain {
namespace {

using sys::ErrorKind;

// Does `text` hold `dir` followed by a slash, as a whole path (not as the tail of a longer one)?
bool names_path_below(std::string_view text, std::string_view dir) {
  for (size_t at = text.find(dir); at != text.npos; at = text.find(dir, at + 1)) {
    const size_t after = at + dir.size();
    const bool starts = at == 0 || text[at - 1] == '=' || text[at - 1] == ':' || text[at - 1] == '"';
    if (starts && after < text.size() && text[after] == '/') return true;
  }
  return false;
}

// Arguments of QEMU double the commas of a path.
std::string doubled_commas(std::string_view text) {
  std::string out;
  for (const char c : text) out.append(c == ',' ? 2 : 1, c);
  return out;
}

std::string cmdline_of(pid_t pid) {
  auto text = sys::read_file("/proc/" + std::to_string(pid) + "/cmdline", 1 << 20);
  return text ? std::move(*text) : std::string();
}

bool is_qemu_program(std::string_view name) {
  return name.starts_with("qemu-system-") || name == "qemu-kvm";
}

// A zombie that is a detached QEMU: /proc/PID/stat reads «PID (comm) Z PPID PGRP SESSION …». Detaching made
// it a session of its own. One of our session is libvirt's own child (the first process of a capability
// probe, which detaches itself), and libvirt waits for it.
bool is_dead_detached_qemu(pid_t pid) {
  auto stat = sys::read_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!stat) return false;
  const size_t open = stat->find('(');
  const size_t close = stat->rfind(')');
  if (open == stat->npos || close == stat->npos || close < open) return false;
  char state = 0;
  long parent = 0, group = 0, session = 0;
  if (std::sscanf(stat->c_str() + close, ") %c %ld %ld %ld", &state, &parent, &group, &session) != 4)
    return false;
  return is_qemu_program(std::string_view(*stat).substr(open + 1, close - open - 1)) && state == 'Z' &&
         session != ::getsid(0);
}

// The real user of a live process: /proc/PID/status has «Uid:\tREAL\t…». Zombies have no memory line, and do
// not count.
std::optional<uid_t> real_user_of(pid_t pid) {
  auto status = sys::read_file("/proc/" + std::to_string(pid) + "/status", 64 << 10);
  if (!status || status->find("\nVmSize:") == status->npos) return std::nullopt;
  const size_t at = status->find("\nUid:\t");
  uid_t uid = 0;
  if (at == status->npos) return std::nullopt;
  const auto [end, error] = std::from_chars(status->data() + at + 6, status->data() + status->size(), uid);
  return error == std::errc{} ? std::optional(uid) : std::nullopt;
}

template <typename Wanted>
sys::Result<std::vector<QemuProcess>> find_processes(Wanted wanted) {
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), ::closedir);
  if (!proc) return sys::fail_errno("cannot list /proc");
  std::vector<QemuProcess> found;
  while (const dirent* entry = ::readdir(proc.get())) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc{} || end != name.data() + name.size() || !wanted(pid)) continue;
    // The pidfd first, the question again after it: now both are of one process.
    sys::Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (pidfd && wanted(pid)) found.push_back({pid, std::move(pidfd)});
  }
  return found;
}

sys::Result<size_t> end_all(const std::vector<QemuProcess>& found, std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + timeout;
  for (const auto& process : found) {
    if (::syscall(SYS_pidfd_send_signal, process.pidfd.get(), SIGKILL, nullptr, 0) < 0 && errno != ESRCH) {
      return sys::fail_errno("cannot end process " + std::to_string(process.pid));
    }
  }
  for (const auto& process : found) {
    pollfd wait{process.pidfd.get(), POLLIN, 0};
    int got = 0;
    do {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      got = ::poll(&wait, 1, left > 0 ? static_cast<int>(left) : 0);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
      return sys::fail(ErrorKind::unavailable, "process " + std::to_string(process.pid) + " does not end");
    }
  }
  return found.size();
}

}  // namespace

bool is_qemu_below(std::string_view cmdline, std::string_view dir) {
  const std::string_view program = cmdline.substr(0, cmdline.find('\0'));
  const size_t slash = program.rfind('/');
  const std::string_view name = slash == program.npos ? program : program.substr(slash + 1);
  if (!is_qemu_program(name)) return false;
  const std::string doubled = doubled_commas(dir);
  for (size_t at = cmdline.find('\0'); at != cmdline.npos;) {
    const size_t end = cmdline.find('\0', at + 1);
    const std::string_view arg = cmdline.substr(at + 1, end == cmdline.npos ? end : end - at - 1);
    if (names_path_below(arg, dir) || names_path_below(arg, doubled)) return true;
    at = end;
  }
  return false;
}

bool is_qemu_named(std::string_view cmdline, std::string_view name) {
  // «-name guest=NAME,debug-threads=on»
  const std::string wanted = std::string("\0-name\0guest=", 13) + std::string(name) + ",";
  return cmdline.find(wanted) != cmdline.npos;
}

sys::Result<std::vector<QemuProcess>> find_qemu_below(const std::string& dir) {
  TURNBOX_ASSERT(dir.size() > 1 && dir.front() == '/' && dir.back() != '/');
  return find_processes([&](pid_t pid) { return is_qemu_below(cmdline_of(pid), dir); });
}

sys::Result<size_t> kill_qemu_below(const std::string& dir, std::chrono::milliseconds timeout) {
  TRY_ASSIGN(const auto found, find_qemu_below(dir));
  return end_all(found, timeout);
}

sys::Result<size_t> kill_qemu_named(const std::string& dir, const std::string& name,
                                    std::chrono::milliseconds timeout) {
  TRY_ASSIGN(const auto found, find_processes([&](pid_t pid) {
               const std::string cmdline = cmdline_of(pid);
               return is_qemu_below(cmdline, dir) && is_qemu_named(cmdline, name);
             }));
  return end_all(found, timeout);
}

sys::Result<size_t> kill_processes_of(uid_t uid, std::chrono::milliseconds timeout) {
  TURNBOX_ASSERT(uid != 0 && uid != ::geteuid());
  TRY_ASSIGN(const auto found, find_processes([&](pid_t pid) { return real_user_of(pid) == uid; }));
  return end_all(found, timeout);
}

size_t reap_dead_qemu() {
  // Reparented children hang on the first thread.
  const std::string self = std::to_string(::getpid());
  auto children = sys::read_file("/proc/self/task/" + self + "/children", 1 << 20);
  if (!children) return 0;
  size_t reaped = 0;
  const char* at = children->data();
  const char* const end = at + children->size();
  while (at < end) {
    pid_t pid = 0;
    const auto [next, error] = std::from_chars(at, end, pid);
    if (error != std::errc{}) break;
    at = next + 1;
    if (is_dead_detached_qemu(pid) && ::waitpid(pid, nullptr, WNOHANG) == pid) ++reaped;
  }
  return reaped;
}

}  // namespace turnbox::domain
