#include "vmm/image/tool.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "fake_image.h"
#include "vmm/sys/fd.h"

using namespace turnbox::image;
using turnbox::image::test::Scratch;

BOOST_AUTO_TEST_SUITE(tool)

BOOST_AUTO_TEST_CASE(returns_what_was_printed) {
  const Scratch scratch;
  const Tools tools(scratch.path(), true);
  BOOST_TEST(tools.run("x", {.argv = {"sh", "-c", "echo out; echo err >&2; echo $TMPDIR $LC_ALL"}}).value() ==
             "out\n" + scratch.path() + " C.UTF-8\n");
}

BOOST_AUTO_TEST_CASE(input_and_output_files) {
  const Scratch scratch;
  const Tools tools(scratch.path(), false);
  BOOST_REQUIRE(turnbox::sys::replace_file(scratch.path() + "/in", "hello", 0600));
  BOOST_REQUIRE(
      tools.run("x", {.argv = {"cat"}, .input = scratch.path() + "/in", .output = scratch.path() + "/out"}));
  BOOST_TEST(turnbox::sys::read_file(scratch.path() + "/out", 100).value() == "hello");
}

BOOST_AUTO_TEST_CASE(a_failure_shows_the_last_lines) {
  const Scratch scratch;
  const Tools tools(scratch.path(), false);
  auto failed = tools.run("cannot pack", {.argv = {"sh", "-c", "seq 1 9 >&2; echo out; exit 3"}});
  BOOST_REQUIRE(!failed);
  BOOST_TEST(failed.error().text == "cannot pack: sh failed with status 3:\n5\n6\n7\n8\n9");
  failed = tools.run("cannot pack", {.argv = {"sh", "-c", "echo only; exit 1"}});
  BOOST_TEST(failed.error().text == "cannot pack: sh failed with status 1:\nonly");
  failed = tools.run("cannot pack", {.argv = {"sh", "-c", "kill -9 $$"}});
  BOOST_TEST(failed.error().text == "cannot pack: sh was killed by signal 9");
}

BOOST_AUTO_TEST_CASE(missing_programs_are_named_together) {
  const Scratch scratch;
  BOOST_TEST(need_tools({{"sh", "dash"}, {"no-such-a", "pack-a"}, {"no-such-b", "pack-b"}}).error().text ==
             "building an image needs no-such-a, no-such-b; run: apt-get install pack-a pack-b");
  BOOST_TEST(need_tools({{"sh", "dash"}}).has_value());
  BOOST_TEST(Tools(scratch.path(), false).run("cannot x", {.argv = {"no-such-a"}}).error().text ==
             "cannot x: the program no-such-a is not installed");
}

BOOST_AUTO_TEST_SUITE_END()
