// The daemon as a process: its command line, its confinement seen from outside, its life and death.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/guest/control/fsd_process.h"
#include "tests/support/print.h"
#include "vmm/sys/socket.h"

namespace turnbox::control {
namespace {

struct NeedsRoot {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    return ::geteuid() == 0;
  }
};

struct Said {
  int code;
  std::string out, err;
};

Said run(std::vector<std::string> args, std::vector<std::pair<int, int>> fds = {}) {
  int out[2], err[2];
  BOOST_REQUIRE(::pipe2(out, O_CLOEXEC) == 0 && ::pipe2(err, O_CLOEXEC) == 0);
  sys::Fd out_read(out[0]), out_write(out[1]), err_read(err[0]), err_write(err[1]);
  args.insert(args.begin(), "turnbox-fsd");
  fds.emplace_back(out_write.get(), 1);
  fds.emplace_back(err_write.get(), 2);
  auto process =
      sys::Process::spawn(
          {.program = sys::sibling_program("turnbox-fsd").value(), .argv = args, .env = {}, .fds = fds})
          .value();
  out_write.reset();
  err_write.reset();
  Said said{-1, std::string(65536, '\0'), std::string(65536, '\0')};
  said.out.resize(*sys::read_full(out_read.get(), std::as_writable_bytes(std::span(said.out))));
  said.err.resize(*sys::read_full(err_read.get(), std::as_writable_bytes(std::span(said.err))));
  said.code = process.wait_for(std::chrono::seconds(30)).value().code;
  return said;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(process)

BOOST_AUTO_TEST_CASE(help_and_version_go_to_stdout) {
  BOOST_TEST(run({"--help"}).code == 0);
  BOOST_TEST(run({"--help"}).out.find("--control-fd") != std::string::npos);
  BOOST_TEST(run({"--version"}).out.starts_with("turnbox-fsd "));
}

BOOST_AUTO_TEST_CASE(wrong_words_are_named_and_end_with_2) {
  const auto refused = [](const Said& said, std::string_view names) {
    BOOST_TEST(said.code == 2);
    BOOST_TEST(said.out.empty());
    BOOST_TEST(said.err.find(names) != std::string::npos, said.err);
    BOOST_TEST(std::count(said.err.begin(), said.err.end(), '\n') == 1, said.err);
  };
  refused(run({}), "--control-fd");
  refused(run({"--workspace-fd", "3", "--turn-fd", "4", "--control-fd", "5", "--frobnicate"}),
          "--frobnicate");
  refused(run({"--workspace-fd", "3", "--turn-fd", "4", "--control-fd", "5"}), "--workspace-fd");
  auto [one, other] = sys::socket_pair(SOCK_STREAM).value();
  refused(run({"--workspace-fd", "3", "--turn-fd", "3", "--control-fd", "3"}, {{one.get(), 3}}), "listening");
  refused(run({"--workspace-fd", "x", "--turn-fd", "4", "--control-fd", "5"}), "--workspace-fd");
  refused(run({"--workspace-fd", "3", "--turn-fd", "4", "--control-fd", "5", "--bytes", "0"}), "--bytes");
}

BOOST_AUTO_TEST_CASE(confined_from_the_first_answer_on, *boost::unit_test::precondition(NeedsRoot{})) {
  Daemon daemon({"--uid", "65534", "--gid", "65534"});
  Client client = daemon.client();
  const auto info = client.info();
  BOOST_REQUIRE_MESSAGE(info, info.error().text);
  BOOST_TEST(info->own_user);
  BOOST_TEST(info->empty_root);
  BOOST_TEST(daemon.status("Uid") == "65534\t65534\t65534\t65534");
  BOOST_TEST(daemon.status("Gid") == "65534\t65534\t65534\t65534");
  BOOST_TEST(daemon.status("NoNewPrivs") == "1");
  BOOST_TEST(daemon.status("Seccomp") == "2");
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"}) {
    BOOST_TEST(daemon.status(set) == "0000000000000000", set);
  }
  const std::string proc = "/proc/" + std::to_string(daemon.process.pid());
  BOOST_TEST(std::filesystem::is_empty(proc + "/root/"));
  BOOST_TEST(std::filesystem::read_symlink(proc + "/cwd").string() == "/");
  const std::string mounts = daemon.proc("mountinfo");
  BOOST_TEST(std::count(mounts.begin(), mounts.end(), '\n') == 1, mounts);
  for (const char* space : {"mnt", "net", "ipc", "uts"}) {
    BOOST_TEST(std::filesystem::read_symlink(proc + "/ns/" + space) !=
                   std::filesystem::read_symlink(std::string("/proc/self/ns/") + space),
               space);
  }
  // Every thread, the hasher too.
  for (const auto& task : std::filesystem::directory_iterator(proc + "/task")) {
    const std::string status = *sys::read_file(task.path() / "status", 1 << 16);
    BOOST_TEST(status.find("\nSeccomp:\t2\n") != std::string::npos);
    BOOST_TEST(status.find("\nCapEff:\t0000000000000000\n") != std::string::npos);
  }
  // Descriptors only: sockets, and what the event loop made for itself.
  for (const auto& fd : std::filesystem::directory_iterator(proc + "/fd")) {
    const int number = std::stoi(fd.path().filename());
    const std::string to = std::filesystem::read_symlink(fd.path()).string();
    BOOST_TEST((number <= 2 || to.starts_with("socket:") || to.starts_with("anon_inode:")), to);
  }
}

BOOST_AUTO_TEST_CASE(without_a_user_of_its_own_it_says_so) {
  Daemon daemon;
  BOOST_TEST(!daemon.client().info()->own_user);
}

BOOST_AUTO_TEST_CASE(signals_of_the_terminal_do_not_end_it) {
  Daemon daemon;
  Client client = daemon.client();
  BOOST_REQUIRE(client.info());
  for (const int number : {SIGINT, SIGQUIT, SIGHUP, SIGPIPE}) BOOST_REQUIRE(daemon.process.signal(number));
  BOOST_TEST(client.info().has_value());
  BOOST_REQUIRE(daemon.process.signal(SIGTERM));
  BOOST_TEST(daemon.process.wait_for(std::chrono::seconds(30)).value().code == SIGTERM);
  const auto after = client.info();
  BOOST_TEST(after.error().kind == sys::ErrorKind::unavailable);
}

// The parent-death signal must survive the change of ids.
BOOST_AUTO_TEST_CASE(dies_with_its_parent, *boost::unit_test::precondition(NeedsRoot{})) {
  int told[2];
  BOOST_REQUIRE(::pipe2(told, O_CLOEXEC) == 0);
  sys::Fd read_end(told[0]), write_end(told[1]);
  sys::Fd kept_control;
  auto [ours, theirs] = sys::socket_pair(SOCK_STREAM).value();
  const pid_t parent = ::fork();
  if (parent == 0) {
    Daemon daemon({"--uid", "65534", "--gid", "65534"});
    // This end goes to the grandparent, so that it is not the control socket's end that ends the daemon.
    const int control = daemon.socket.get();
    pid_t pid = daemon.process.pid();
    Client client(sys::duplicate(control).value());
    const bool answered = client.info().has_value();
    if (!answered) pid = -1;
    std::filesystem::remove_all(daemon.dir);  // no destructor will run
    (void)sys::send_with_fds(theirs.get(), sys::as_bytes("x"), std::span(&control, 1));
    (void)sys::write_full(write_end.get(), std::as_bytes(std::span(&pid, 1)));
    ::pause();
  }
  pid_t pid = 0;
  BOOST_REQUIRE(*sys::read_full(read_end.get(), std::as_writable_bytes(std::span(&pid, 1))) == sizeof pid);
  BOOST_REQUIRE(pid > 0);
  std::byte one[1];
  auto received = sys::receive_with_fds(ours.get(), one);
  BOOST_REQUIRE(received && received->fds.size() == 1);
  const sys::Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  BOOST_REQUIRE(pidfd);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  pollfd ended{pidfd.get(), POLLIN, 0};
  BOOST_TEST(::poll(&ended, 1, 30'000) == 1);
}

std::string next_gone(Client& client) {
  for (int tries = 0; tries < 1000; ++tries) {
    pollfd wait{client.fd(), POLLIN, 0};
    (void)::poll(&wait, 1, 30'000);
    const auto told = client.take_gone();
    BOOST_REQUIRE(told);
    if (!told->empty()) {
      BOOST_TEST(told->size() == 1u);
      return told->front();
    }
  }
  return "nothing";
}

// With both devices gone and an answer in the making the event loop waits for no descriptor: it must go on.
BOOST_AUTO_TEST_CASE(the_loss_of_devices_is_told_and_survived) {
  Daemon daemon;
  Client client = daemon.client();
  BOOST_REQUIRE(client.info());
  { const sys::Fd front_end = sys::connect_unix(daemon.turn_socket()).value(); }
  BOOST_TEST(next_gone(client) == "turn");
  BOOST_TEST(client.take_gone()->empty());
  { const sys::Fd front_end = sys::connect_unix(daemon.workspace_socket()).value(); }
  BOOST_TEST(next_gone(client) == "workspace");
  const std::string turn = "01JDRY0000000000000000000A";
  BOOST_REQUIRE(client.turn_begin(
      {.turn = turn, .demand = "d", .thread = "main", .thread_seq = 1, .tier = "emulated", .inputs = {}}));
  const auto end = client.turn_end(turn, "failed");
  BOOST_REQUIRE_MESSAGE(end, end.error().text);
  BOOST_TEST(client.digest(end->snapshot, "workspace").has_value());
}

// A machine's end is told to the broker, which may have gone in the same moment: nothing to complain about.
BOOST_AUTO_TEST_CASE(a_broker_that_hears_nothing_any_more_is_a_good_end) {
  Daemon daemon;
  BOOST_REQUIRE(::shutdown(daemon.socket.get(), SHUT_RD) == 0);  // what fsd says breaks its pipe
  { const sys::Fd front_end = sys::connect_unix(daemon.turn_socket()).value(); }
  const auto exit = daemon.process.wait_for(std::chrono::seconds(30));
  BOOST_REQUIRE(exit);
  BOOST_TEST(!exit->signalled);
  BOOST_TEST(exit->code == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::control
