// Finding and ending a dead owner's QEMU: the decision on command lines, and real processes that look like
// one.
#include "vmm/domain/leftover.h"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <initializer_list>

#include "vmm/sys/process.h"

using namespace turnbox;
using domain::is_qemu_below;

namespace {

std::string line(std::initializer_list<std::string_view> args) {
  std::string out;
  for (const auto arg : args) (out += arg) += '\0';
  return out;
}

// A program under QEMU's name that waits for its end: `tail -f FILE` copied, with the file standing for a
// socket path.
struct FakeQemu {
  std::string dir = "/tmp/turnbox-leftover-XXXXXX";
  std::string program;
  FakeQemu() {
    BOOST_REQUIRE(::mkdtemp(dir.data()) != nullptr);
    program = dir + "/qemu-system-x86_64";
    std::filesystem::copy_file("/usr/bin/tail", program);
    std::filesystem::create_directory(dir + "/01");
    std::filesystem::create_directory(dir + "/02");
    for (const char* file : {"/01/socket", "/02/socket"})
      BOOST_REQUIRE(sys::replace_file(dir + file, "", 0600));
  }
  ~FakeQemu() { std::filesystem::remove_all(dir); }
  sys::Process start(const std::string& below, bool detached = false) const {
    sys::Spawn spawn;
    spawn.program = detached ? "/usr/bin/setsid" : program;
    spawn.argv = {program, "-f", dir + below};
    if (detached) spawn.argv.insert(spawn.argv.begin(), "setsid");
    auto process = sys::Process::spawn(spawn);
    BOOST_REQUIRE(process);
    return std::move(*process);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(leftover)

BOOST_AUTO_TEST_CASE(a_path_of_the_directory_counts) {
  const std::string q = "/usr/bin/qemu-system-x86_64";
  BOOST_TEST(is_qemu_below(line({q, "-chardev", "socket,id=a,path=/run/turnbox/01/vs"}), "/run/turnbox/01"));
  BOOST_TEST(is_qemu_below(line({q, "-object", "{\"file\":\"/run/turnbox/01/lv/key\"}"}), "/run/turnbox/01"));
  BOOST_TEST(is_qemu_below(line({q, "-qmp", "unix:/run/turnbox/01/lv/lib/qemu/qmp-x/qmp.monitor"}),
                           "/run/turnbox/01"));
  BOOST_TEST(is_qemu_below(line({q, "-pidfile", "/run/turnbox/01/lv/p"}), "/run/turnbox/01"));
  BOOST_TEST(is_qemu_below(line({q, "-chardev", "socket,path=/run/a,,b/x"}), "/run/a,b"));
}

BOOST_AUTO_TEST_CASE(a_longer_or_a_nested_name_does_not) {
  const std::string q = "/usr/bin/qemu-system-x86_64";
  BOOST_TEST(!is_qemu_below(line({q, "path=/run/turnbox/010/vs"}), "/run/turnbox/01"));
  BOOST_TEST(!is_qemu_below(line({q, "path=/other/run/turnbox/01/vs"}), "/run/turnbox/01"));
  BOOST_TEST(!is_qemu_below(line({q, "path=/run/turnbox/01"}), "/run/turnbox/01"));
  BOOST_TEST(!is_qemu_below(line({q}), "/run/turnbox/01"));
  BOOST_TEST(!is_qemu_below("", "/run/turnbox/01"));
}

BOOST_AUTO_TEST_CASE(another_program_does_not) {
  BOOST_TEST(!is_qemu_below(line({"/usr/bin/vim", "/run/turnbox/01/x"}), "/run/turnbox/01"));
  BOOST_TEST(!is_qemu_below(line({"/bin/sh", "qemu-system-x86_64", "/run/turnbox/01/x"}), "/run/turnbox/01"));
}

BOOST_AUTO_TEST_CASE(a_machine_is_known_by_its_whole_name) {
  const std::string q = line({"/usr/bin/qemu-system-x86_64", "-name", "guest=run-1,debug-threads=on", "-S"});
  BOOST_TEST(domain::is_qemu_named(q, "run-1"));
  BOOST_TEST(!domain::is_qemu_named(q, "run-"));
  BOOST_TEST(!domain::is_qemu_named(q, "run-11"));
  BOOST_TEST(!domain::is_qemu_named(line({"qemu-system-x86_64", "guest=run-1,x"}), "run-1"));
}

BOOST_AUTO_TEST_CASE(only_the_directorys_own_are_found_and_ended) {
  const FakeQemu fake;
  auto mine = fake.start("/01/socket");
  auto others = fake.start("/02/socket");
  const auto found = domain::find_qemu_below(fake.dir + "/01");
  BOOST_REQUIRE(found);
  BOOST_REQUIRE(found->size() == 1U);
  BOOST_TEST(found->front().pid == mine.pid());
  BOOST_CHECK(*domain::kill_qemu_below(fake.dir + "/01") == 1U);
  BOOST_CHECK(mine.wait_for(std::chrono::seconds(10)));
  BOOST_CHECK(!others.poll());
  BOOST_CHECK(*domain::kill_qemu_below(fake.dir + "/01") == 0U);
}

BOOST_AUTO_TEST_CASE(a_users_processes_are_ended_whatever_they_call_themselves) {
  if (::geteuid() != 0) return;  // only root starts and ends another user's processes
  constexpr uid_t kUser = 1'879'044'097;
  sys::Spawn spawn;
  spawn.program = "/usr/bin/setpriv";
  spawn.argv = {"setpriv", "--reuid", std::to_string(kUser), "--clear-groups", "/bin/sleep", "60"};
  auto sleep = sys::Process::spawn(spawn);
  BOOST_REQUIRE(sleep);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  size_t killed = 0;
  while (killed == 0 && std::chrono::steady_clock::now() < deadline)
    killed = *domain::kill_processes_of(kUser);
  BOOST_TEST(killed == 1U);
  const auto exit = sleep->wait_for(std::chrono::seconds(10));
  BOOST_REQUIRE(exit);
  BOOST_TEST(exit->signalled);
  BOOST_CHECK(*domain::kill_processes_of(kUser) == 0U);
}

BOOST_AUTO_TEST_CASE(a_dead_detached_qemu_is_reaped) {
  const FakeQemu fake;
  auto qemu = fake.start("/01/socket", true);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (::getsid(qemu.pid()) == ::getsid(0) && std::chrono::steady_clock::now() < deadline) {
  }
  // Once setsid has run QEMU's name, the process is what is looked for.
  while (domain::find_qemu_below(fake.dir)->empty() && std::chrono::steady_clock::now() < deadline) {
  }
  (void)qemu.signal(9);
  const std::string proc = "/proc/" + std::to_string(qemu.release());
  size_t reaped = 0;
  while (std::filesystem::exists(proc) && std::chrono::steady_clock::now() < deadline) {
    reaped += domain::reap_dead_qemu();
  }
  BOOST_TEST(reaped >= 1U);
  BOOST_TEST(!std::filesystem::exists(proc));
}

BOOST_AUTO_TEST_CASE(children_with_an_owner_are_left_to_it) {
  // A QEMU of our session is libvirt's own child; anything else is no QEMU.
  const FakeQemu fake;
  auto qemu = fake.start("/01/socket");
  sys::Spawn other;
  other.program = "/usr/bin/setsid";
  other.argv = {"setsid", "/bin/sleep", "60"};
  auto sleep = sys::Process::spawn(other);
  BOOST_REQUIRE(sleep);
  for (sys::Process* process : {&qemu, &*sleep}) {
    (void)process->signal(9);
    siginfo_t info{};
    BOOST_REQUIRE(::waitid(P_PID, static_cast<id_t>(process->pid()), &info, WEXITED | WNOWAIT) == 0);
  }
  (void)domain::reap_dead_qemu();
  BOOST_CHECK(qemu.wait_for(std::chrono::seconds(1)));
  BOOST_CHECK(sleep->wait_for(std::chrono::seconds(1)));
}

BOOST_AUTO_TEST_SUITE_END()
