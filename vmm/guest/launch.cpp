#include "vmm/guest/launch.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "vmm/guest/exec_format.h"

namespace turnbox::guest {
namespace {

using sys::Fd;
using sys::Result;
using Step = LaunchFailure::Step;

constexpr int kPipeSize = 256 * 1024;

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) return sys::fail_errno("cannot create a pipe");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const auto& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

// Everything the child needs, made before the fork: the child only makes system calls.
struct Plan {
  const char* cwd;
  uid_t uid;
  gid_t gid;
  std::vector<std::string> paths;
  std::vector<char*> argv;
  std::vector<char*> env;
  int in, out, err, report;
};

[[noreturn]] void give_up(int report, Step step, int err) {
  const LaunchFailure failure{step, err};
  (void)!::write(report, &failure, sizeof failure);
  ::_exit(127);
}

void reset_signals() {
  for (int s = 1; s < NSIG; ++s) {
    if (s != SIGKILL && s != SIGSTOP) ::signal(s, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// As a shell does: the first candidate that runs; of the errors, «permission denied» wins over «not found».
[[noreturn]] void try_all(const Plan& plan, int report) {
  int kept = ENOENT;
  for (const std::string& path : plan.paths) {
    ::execve(path.c_str(), plan.argv.data(), plan.env.data());
    const int err = errno;
    if (err == ENOENT && ::access(path.c_str(), F_OK) == 0) give_up(report, Step::interpreter, err);
    if (err == EACCES) {
      // A directory of that name is not what was meant, unless nothing else is found.
      kept = EACCES;
    } else if (err != ENOENT && err != ENOTDIR) {
      give_up(report, Step::program, err);
    }
  }
  give_up(report, Step::program, kept);
}

[[noreturn]] void become(const Plan& plan) {
  int report = plan.report;
  ::setsid();
  reset_signals();
  // Above the standard numbers first, so that no dup2 overwrites one still needed.
  report = ::fcntl(report, F_DUPFD_CLOEXEC, 3);
  const int from[3] = {::fcntl(plan.in, F_DUPFD_CLOEXEC, 3), ::fcntl(plan.out, F_DUPFD_CLOEXEC, 3),
                       ::fcntl(plan.err, F_DUPFD_CLOEXEC, 3)};
  for (int target = 0; target < 3; ++target) {
    if (from[target] < 0 || ::dup2(from[target], target) < 0) give_up(report, Step::prepare, errno);
  }
  ::syscall(SYS_close_range, 3U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
  ::umask(022);
  if (::geteuid() == 0 || plan.uid != ::geteuid() || plan.gid != ::getegid()) {
    if (::setgroups(0, nullptr) < 0 || ::setresgid(plan.gid, plan.gid, plan.gid) < 0 ||
        ::setresuid(plan.uid, plan.uid, plan.uid) < 0) {
      give_up(report, Step::identity, errno);
    }
  }
  if (::chdir(plan.cwd) < 0) give_up(report, Step::directory, errno);
  try_all(plan, report);
}

}  // namespace

std::vector<std::string> candidates(const std::string& name, const std::vector<std::string>& env) {
  if (name.empty()) return {};
  if (name.find('/') != std::string::npos) return {name};
  std::string_view path = kDefaultPath;
  for (const std::string& entry : env) {
    if (entry.starts_with("PATH=")) path = std::string_view(entry).substr(5);
  }
  std::vector<std::string> out;
  while (true) {
    const size_t colon = path.find(':');
    const std::string_view directory = path.substr(0, colon);
    out.push_back(directory.empty() ? "./" + name : std::string(directory) + "/" + name);
    if (colon == std::string_view::npos) return out;
    path.remove_prefix(colon + 1);
  }
}

Refusal explain(const LaunchFailure& failure, const Exec& exec) {
  const std::string why = std::strerror(failure.err);
  switch (failure.step) {
    case Step::prepare:
      return {kErrorIo, "cannot prepare the command: " + why};
    case Step::directory:
      return {kErrorInvalid, "cannot enter the working directory " + exec.cwd + ": " + why};
    case Step::identity:
      return {kErrorIo, "cannot become user " + std::to_string(exec.uid) + ", group " +
                            std::to_string(exec.gid) + ": " + why};
    case Step::interpreter:
      return {kErrorNotExecutable, exec.argv[0] + ": its interpreter is not there"};
    case Step::program:
      break;
  }
  switch (failure.err) {
    case ENOENT:
    case ENOTDIR:
      return {kErrorNotFound, exec.argv[0] + ": command not found"};
    case ENOEXEC:
      return {kErrorNotExecutable, exec.argv[0] + ": neither a program nor a script with #!"};
    case ENOMEM:
    case EAGAIN:
    case EIO:
    case EMFILE:
    case ENFILE:
      return {kErrorIo, exec.argv[0] + ": " + why};
    default:
      return {kErrorNotExecutable, exec.argv[0] + ": " + why};
  }
}

Result<Launched> launch(const Exec& exec, ProcessSet& set) {
  TRY_ASSIGN(Pipe in, make_pipe());
  TRY_ASSIGN(Pipe out, make_pipe());
  TRY_ASSIGN(Pipe err, make_pipe());
  TRY_ASSIGN(Pipe report, make_pipe());
  ::fcntl(out.read.get(), F_SETPIPE_SZ,
          kPipeSize);  // fewer wake-ups for much output; the default does as well
  for (const Fd* ours : {&in.write, &out.read, &err.read, &report.read})
    TRY(sys::set_nonblocking(ours->get()));
  const Plan plan{.cwd = exec.cwd.c_str(),
                  .uid = exec.uid,
                  .gid = exec.gid,
                  .paths = candidates(exec.argv[0], exec.env),
                  .argv = pointers(exec.argv),
                  .env = pointers(exec.env),
                  .in = in.read.get(),
                  .out = out.write.get(),
                  .err = err.write.get(),
                  .report = report.write.get()};
  TRY_ASSIGN(const pid_t pid, set.fork_leader());
  if (pid == 0) become(plan);
  return Launched{pid, std::move(in.write), std::move(out.read), std::move(err.read), std::move(report.read)};
}

}  // namespace turnbox::guest
