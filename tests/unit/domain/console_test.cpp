// The console: what is kept, what is shown, who may write.
#include "vmm/domain/console.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <thread>

#include "vmm/sys/socket.h"

using namespace turnbox;
using domain::printable_tail;

namespace {

struct Dir {
  std::string path = "/tmp/turnbox-console-XXXXXX";
  Dir() { BOOST_REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Dir() { std::filesystem::remove_all(path); }
};

// The console's thread takes its time; ends when `tail` is what is wanted, or fails after 10 s.
void check_tail(const domain::Console& console, size_t lines, const std::string& wanted) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (console.tail(lines) != wanted && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  BOOST_TEST(console.tail(lines) == wanted);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(console)

BOOST_AUTO_TEST_CASE(tail_takes_the_last_lines) {
  BOOST_TEST(printable_tail("a\nb\nc\n", 2) == "b\nc");
  BOOST_TEST(printable_tail("a\nb\nc", 2) == "b\nc");
  BOOST_TEST(printable_tail("a\nb", 5) == "a\nb");
  BOOST_TEST(printable_tail("\na", 1) == "a");
  BOOST_TEST(printable_tail("", 3) == "");
  BOOST_TEST(printable_tail("\n\n", 3) == "");
}

BOOST_AUTO_TEST_CASE(tail_is_safe_to_print) {
  BOOST_TEST(printable_tail("a\x1b[31mred\x1b[0m\rb\x07\x00z\n", 1) == "aredb");
  BOOST_TEST(printable_tail("x\x1b]0;title\x07y", 1) == "x]0;titley");
  BOOST_TEST(printable_tail("bad\xff\xc3", 1) == "bad??");
  BOOST_TEST(printable_tail("ü", 1) == "ü");
  BOOST_TEST(printable_tail("\x1b[", 1) == "");
}

BOOST_AUTO_TEST_CASE(keeps_the_end_of_a_flood) {
  const Dir dir;
  auto console = domain::Console::listen(dir.path + "/c", std::nullopt);
  BOOST_REQUIRE(console);
  auto peer = sys::connect_unix(dir.path + "/c");
  BOOST_REQUIRE(peer);
  const std::string block(64 * 1024, 'x');
  for (int i = 0; i < 64; ++i) BOOST_REQUIRE(sys::write_full(peer->get(), std::as_bytes(std::span(block))));
  const std::string last = "\nlast words\n";
  BOOST_REQUIRE(sys::write_full(peer->get(), std::as_bytes(std::span(last))));
  check_tail(**console, 1, "last words");
  BOOST_TEST((*console)->tail(100).size() <= 2 * 64 * 1024);
}

BOOST_AUTO_TEST_CASE(the_socket_is_private_and_goes) {
  const Dir dir;
  {
    auto console = domain::Console::listen(dir.path + "/c", std::nullopt);
    BOOST_REQUIRE(console);
    struct stat st;
    BOOST_REQUIRE(::stat((dir.path + "/c").c_str(), &st) == 0);
    BOOST_TEST((st.st_mode & 0777) == 0600);
  }
  BOOST_TEST(!std::filesystem::exists(dir.path + "/c"));
}

BOOST_AUTO_TEST_CASE(a_second_peer_is_not_heard) {
  const Dir dir;
  auto console = domain::Console::listen(dir.path + "/c", std::nullopt);
  BOOST_REQUIRE(console);
  auto first = sys::connect_unix(dir.path + "/c");
  const std::string hello = "first";
  BOOST_REQUIRE(sys::write_full(first->get(), std::as_bytes(std::span(hello))));
  check_tail(**console, 1, "first");
  auto second = sys::connect_unix(dir.path + "/c");
  const std::string noise = "second";
  BOOST_REQUIRE(sys::write_full(second->get(), std::as_bytes(std::span(noise))));
  const std::string more = " again";
  BOOST_REQUIRE(sys::write_full(first->get(), std::as_bytes(std::span(more))));
  check_tail(**console, 1, "first again");
}

BOOST_AUTO_TEST_CASE(a_peer_of_another_user_is_not_heard) {
  if (::geteuid() != 0) return;  // the peer's user can only differ as root
  const Dir dir;
  auto console = domain::Console::listen(dir.path + "/c", uid_t{65534});
  BOOST_REQUIRE(console);
  struct stat st;
  BOOST_REQUIRE(::stat((dir.path + "/c").c_str(), &st) == 0);
  BOOST_TEST(st.st_uid == 65534U);
}

BOOST_AUTO_TEST_SUITE_END()
