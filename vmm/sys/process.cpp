#include "vmm/sys/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace turnbox::sys {
namespace {

// Runs in the child between fork and exec: async-signal-safe calls only. Writes errno to `report` on failure.
[[noreturn]] void become(const Spawn& what, char* const* argv, char* const* env, int report, pid_t parent) {
  auto die = [&] {
    const int err = errno;
    (void)!::write(report, &err, sizeof err);
    ::_exit(127);
  };
  if (what.die_with_parent && (::prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || ::getppid() != parent)) die();
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int s = 1; s < NSIG; ++s) {
    if (s != SIGKILL && s != SIGSTOP) ::signal(s, SIG_DFL);
  }
  // Move the wanted descriptors above every target first, so that no dup2 overwrites one still needed.
  int highest = 3;
  for (const auto& [ours, target] : what.fds) highest = std::max({highest, target + 1, report + 1});
  int moved[64];
  if (what.fds.size() > std::size(moved)) {
    errno = E2BIG;
    die();
  }
  const int report_high = ::fcntl(report, F_DUPFD_CLOEXEC, highest);
  if (report_high < 0) die();
  report = report_high;
  for (size_t i = 0; i < what.fds.size(); ++i) {
    moved[i] = ::fcntl(what.fds[i].first, F_DUPFD_CLOEXEC, highest);
    if (moved[i] < 0) die();
  }
  bool given[2] = {false, false};
  for (size_t i = 0; i < what.fds.size(); ++i) {
    const int target = what.fds[i].second;
    if (::dup2(moved[i], target) < 0) die();
    if (target < 2) given[target] = true;
  }
  for (int fd = 0; fd < 2; ++fd) {
    if (given[fd]) continue;
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || (null != fd && ::dup2(null, fd) < 0)) die();
    if (null == fd) ::fcntl(fd, F_SETFD, 0);
  }
  // Everything else is close-on-exec already; this catches what a library opened without it.
  ::syscall(SYS_close_range, static_cast<unsigned>(highest), ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
  ::execve(what.program.c_str(), argv, env);
  die();
  ::_exit(127);
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const auto& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

}  // namespace

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(exit_, other.exit_);
  return *this;
}

Process::~Process() {
  if (pid_ <= 0 || exit_) return;
  (void)signal(SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Status Process::signal(int number) {
  if (!pidfd_) return fail(ErrorKind::conflict, "no process to signal");
  if (::syscall(SYS_pidfd_send_signal, pidfd_.get(), number, nullptr, 0) < 0 && errno != ESRCH) {
    return fail_errno("cannot signal a child");
  }
  return {};
}

std::optional<Exit> Process::poll() {
  if (exit_ || pid_ <= 0) return exit_;
  int status = 0;
  const pid_t got = ::waitpid(pid_, &status, WNOHANG);
  if (got != pid_) return std::nullopt;
  exit_ = WIFSIGNALED(status) ? Exit{true, WTERMSIG(status)} : Exit{false, WEXITSTATUS(status)};
  return exit_;
}

std::optional<Exit> Process::wait_for(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    if (auto ended = poll()) return ended;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 || pid_ <= 0) return std::nullopt;
    pollfd wait{pidfd_.get(), POLLIN, 0};
    ::poll(&wait, 1, static_cast<int>(std::min<int64_t>(left.count(), 60'000)));
  }
}

pid_t Process::release() {
  pidfd_.reset();
  return std::exchange(pid_, -1);
}

Result<Process> Process::spawn(const Spawn& what) {
  int report[2];
  if (::pipe2(report, O_CLOEXEC) < 0) return fail_errno("cannot create a pipe");
  Fd report_read(report[0]);
  Fd report_write(report[1]);
  const auto argv = pointers(what.argv);
  const auto env = pointers(what.env);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("cannot start " + what.program);
  if (pid == 0) become(what, argv.data(), env.data(), report_write.get(), parent);
  report_write.reset();
  Process process;
  process.pid_ = pid;
  process.pidfd_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.pidfd_) return fail_errno("cannot open a pidfd");
  int err = 0;
  auto got = read_full(report_read.get(), std::as_writable_bytes(std::span(&err, 1)));
  if (got && *got == sizeof err) return fail_errno("cannot start " + what.program, err);
  return process;
}

Result<std::string> sibling_program(const std::string& name) {
  namespace stdfs = std::filesystem;
  std::error_code ec;
  const stdfs::path self = stdfs::read_symlink("/proc/self/exe", ec);
  std::vector<stdfs::path> places;
  if (const char* dir = std::getenv("TURNBOX_LIBEXEC")) places.emplace_back(dir);
  // Beside us, as installed, and as a build tree has them.
  for (const char* place : {".", "../libexec/turnbox", "../../fs", "../../vmm/vsock", "../../vmm/guest"}) {
    places.push_back(self.parent_path() / place);
  }
  for (const stdfs::path& place : places) {
    const std::string path = (place / name).lexically_normal().string();
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return fail(ErrorKind::not_found, name + " is neither beside " + self.string() +
                                        " nor in ../libexec/turnbox; install turnbox whole, or set TURNBOX_LIBEXEC to "
                                        "its directory");
}

}  // namespace turnbox::sys
