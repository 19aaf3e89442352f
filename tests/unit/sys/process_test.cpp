#include "vmm/sys/process.h"
#include <fcntl.h>
#include <signal.h>

#include <unistd.h>

#include <boost/test/unit_test.hpp>

namespace turnbox::sys {

BOOST_AUTO_TEST_SUITE(process)

BOOST_AUTO_TEST_CASE(child_gets_exactly_the_descriptors_it_is_given) {
  int ends[2];
  BOOST_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  auto child = Process::spawn({.program = "/bin/sh",
                               .argv = {"sh", "-c", "echo /proc/self/fd/*"},
                               .env = {},
                               .fds = {{write_end.get(), 1}, {write_end.get(), 7}}});
  BOOST_REQUIRE(child.has_value());
  write_end.reset();
  std::string text(256, '\0');
  text.resize(*read_full(read_end.get(), std::as_writable_bytes(std::span(text))));
  BOOST_TEST(text.starts_with("/proc/self/fd/0 /proc/self/fd/1 "));
  BOOST_TEST(text.find("/proc/self/fd/7") != std::string::npos);
  BOOST_TEST(text.find("/proc/self/fd/8") == std::string::npos);
  const auto ended = child->wait_for(std::chrono::seconds(10));
  BOOST_REQUIRE(ended.has_value());
  BOOST_TEST(ended->code == 0);
}

BOOST_AUTO_TEST_CASE(missing_program_is_named) {
  auto child = Process::spawn({.program = "/nonexistent/program", .argv = {"x"}, .env = {}, .fds = {}});
  BOOST_REQUIRE(!child.has_value());
  BOOST_TEST(child.error().text.find("/nonexistent/program") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(destruction_kills_and_reaps) {
  pid_t pid = 0;
  {
    auto child = Process::spawn({.program = "/bin/sleep", .argv = {"sleep", "60"}, .env = {}, .fds = {}});
    BOOST_REQUIRE(child.has_value());
    pid = child->pid();
    BOOST_TEST(!child->poll());
  }
  BOOST_TEST(::kill(pid, 0) == -1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::sys
