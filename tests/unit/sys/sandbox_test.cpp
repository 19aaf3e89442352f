// confine() seen from outside: a forked child confines itself and reports; the parent reads /proc about it.
#include "vmm/sys/sandbox.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "vmm/sys/fd.h"

namespace turnbox::sys {
namespace {

constexpr uid_t kNobody = 65534;

// What the child saw, one byte each.
struct Report {
  bool confined = false, own_user = false, empty_root = false;
  bool root_is_empty = false, no_file_opens = false, no_socket = false, no_fork = false, no_namespace = false;
  bool thread_runs = false, death_signal_kept = false;
};

Report confine_and_look(const Confine& what) {
  Report report;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  const auto reached = confine(what);
  if (!reached) {
    std::fprintf(stderr, "confine: %s\n", reached.error().text.c_str());
    return report;
  }
  report.confined = true;
  report.own_user = reached->own_user;
  report.empty_root = reached->empty_root;
  report.root_is_empty = std::filesystem::is_empty("/");
  report.no_file_opens = ::access("/proc/self", F_OK) < 0 && ::access("/etc", F_OK) < 0 &&
                         ::open("/x", O_RDWR | O_CREAT, 0600) < 0;
  report.no_socket = ::socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM;
  const pid_t forked = ::fork();
  if (forked == 0) ::_exit(0);
  report.no_fork = forked < 0 && errno == EPERM;
  report.no_namespace = ::unshare(CLONE_NEWUSER) < 0 && errno == EPERM;
  std::thread([&] { report.thread_runs = true; }).join();
  int signal = 0;
  ::prctl(PR_GET_PDEATHSIG, &signal, 0, 0, 0);
  report.death_signal_kept = signal == SIGKILL;
  return report;
}

std::string field(const std::string& status, const std::string& name) {
  const size_t at = status.find("\n" + name + ":\t");
  if (at == std::string::npos) return {};
  const size_t from = at + name.size() + 3;
  return status.substr(from, status.find('\n', from) - from);
}

struct Child {
  pid_t pid = -1;
  Report report;
  Fd keep;  // the child ends when this closes

  Child(const std::function<Report()>& run) {
    int told[2], held[2];
    BOOST_REQUIRE(::pipe2(told, O_CLOEXEC) == 0 && ::pipe2(held, O_CLOEXEC) == 0);
    Fd told_read(told[0]), told_write(told[1]), held_read(held[0]);
    keep = Fd(held[1]);
    pid = ::fork();
    if (pid == 0) {
      keep.reset();
      const Report mine = run();
      (void)write_full(told_write.get(), std::as_bytes(std::span(&mine, 1)));
      std::byte end;
      (void)read_full(held_read.get(), std::span(&end, 1));
      ::_exit(0);
    }
    told_write.reset();
    const auto got = read_full(told_read.get(), std::as_writable_bytes(std::span(&report, 1)));
    BOOST_REQUIRE(got && *got == sizeof report);
  }
  ~Child() {
    keep.reset();
    ::waitpid(pid, nullptr, 0);
  }
  std::string proc(const std::string& name) const {
    return *read_file("/proc/" + std::to_string(pid) + "/" + name, 1 << 20);
  }
  std::string link(const std::string& name) const {
    return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/" + name).string();
  }
};

void check_what_every_confined_process_has(const Child& child) {
  BOOST_REQUIRE(child.report.confined);
  BOOST_TEST(child.report.no_socket);
  BOOST_TEST(child.report.no_fork);
  BOOST_TEST(child.report.no_namespace);
  BOOST_TEST(child.report.thread_runs);
  BOOST_TEST(child.report.death_signal_kept);
  const std::string status = child.proc("status");
  BOOST_TEST(field(status, "NoNewPrivs") == "1");
  BOOST_TEST(field(status, "Seccomp") == "2");
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
    BOOST_TEST(field(status, set) == "0000000000000000", set);
  }
}

void check_empty_root(const Child& child) {
  BOOST_TEST(child.report.empty_root);
  BOOST_TEST(child.report.root_is_empty);
  BOOST_TEST(child.report.no_file_opens);
  const std::string mounts = child.proc("mountinfo");
  BOOST_TEST(std::count(mounts.begin(), mounts.end(), '\n') == 1);
  BOOST_TEST(mounts.find(" / / ro,nosuid,nodev,noexec") != std::string::npos, mounts);
  for (const char* space : {"ns/mnt", "ns/net", "ns/ipc", "ns/uts"}) {
    BOOST_TEST(
        child.link(space) != std::filesystem::read_symlink(std::string("/proc/self/") + space).string(),
        space);
  }
}

// Dumpable, as a process that was started by exec is: else its own /proc/self/uid_map belongs to root.
bool become_nobody() {
  if (::geteuid() != 0) return true;
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0 && ::prctl(PR_SET_DUMPABLE, 1) == 0;
}

// A host may forbid user namespaces to the unprivileged in more than one way, so one is tried.
bool user_namespaces_work() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(become_nobody() && ::unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid && status == 0;
}

struct NeedsRoot {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    return ::geteuid() == 0;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(sandbox)

BOOST_AUTO_TEST_CASE(root_ends_as_its_own_user_in_an_empty_root,
                     *boost::unit_test::precondition(NeedsRoot{})) {
  Child child([] { return confine_and_look({.uid = kNobody, .gid = kNobody}); });
  check_what_every_confined_process_has(child);
  check_empty_root(child);
  BOOST_TEST(child.report.own_user);
  const std::string status = child.proc("status");
  BOOST_TEST(field(status, "Uid") == "65534\t65534\t65534\t65534");
  BOOST_TEST(field(status, "Gid") == "65534\t65534\t65534\t65534");
  BOOST_TEST(field(status, "Groups") == " ");
  BOOST_TEST(field(status, "CapBnd") == "0000000000000000");
}

BOOST_AUTO_TEST_CASE(root_without_a_user_of_its_own_says_so, *boost::unit_test::precondition(NeedsRoot{})) {
  Child child([] { return confine_and_look({}); });
  check_what_every_confined_process_has(child);
  check_empty_root(child);
  BOOST_TEST(!child.report.own_user);
}

BOOST_AUTO_TEST_CASE(an_unprivileged_caller_gets_an_empty_root_or_is_told) {
  Child child([] {
    if (!become_nobody()) return Report{};
    return confine_and_look({});
  });
  check_what_every_confined_process_has(child);
  BOOST_TEST(!child.report.own_user);
  if (user_namespaces_work()) {
    check_empty_root(child);
  } else {
    BOOST_TEST(!child.report.empty_root);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::sys
