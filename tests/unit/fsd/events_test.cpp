#include "fs/turn/events.h"

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <string>

#include "tests/support/print.h"
#include "tests/unit/fsd/world.h"

namespace turnbox::turn {
namespace {

struct Log : World {
  fs::Ino file;
  explicit Log(EventLimits limits = {})
      : World({}, limits), file(events.make(workspace.device_root()).value()) {}

  int append(uint64_t handle, std::string_view text) {
    const auto done = events.append(file, handle, sys::as_bytes(text));
    if (!done) return static_cast<int>(done.error());
    BOOST_TEST(*done == text.size());
    return 0;
  }
  std::string text() { return content(file); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(events)

BOOST_AUTO_TEST_CASE(whole_lines_of_any_writer_stand_in_order_of_arrival) {
  Log log;
  BOOST_TEST(log.append(1, "{\"a\":1}\n{\"a\":2}\n") == 0);
  BOOST_REQUIRE(log.events.append_own(log.file, "{\"k\":0}"));
  BOOST_TEST(log.append(2, "{\"b\":1}\n") == 0);
  BOOST_TEST(log.text() == "{\"a\":1}\n{\"a\":2}\n{\"turnbox\":{\"k\":0}}\n{\"b\":1}\n");
  BOOST_TEST(log.events.lines(log.file) == 4u);
  BOOST_TEST(log.events.read(log.file).value() == log.text());
}

BOOST_AUTO_TEST_CASE(unfinished_lines_wait_for_their_own_handle) {
  Log log;
  BOOST_TEST(log.append(1, "{\"a\":") == 0);
  BOOST_TEST(log.append(2, "{\"b\":") == 0);
  BOOST_TEST(log.text() == "");
  BOOST_TEST(log.append(2, "2}\n{\"b\"") == 0);
  BOOST_TEST(log.append(1, "1}\n") == 0);
  BOOST_TEST(log.text() == "{\"b\":2}\n{\"a\":1}\n");
  log.events.closed(log.file, 2);
  BOOST_TEST(log.append(2, "{\"c\":3}\n") == 0);
  BOOST_TEST(log.text() == "{\"b\":2}\n{\"a\":1}\n{\"c\":3}\n");
}

BOOST_AUTO_TEST_CASE(nothing_is_kept_of_a_write_with_one_bad_line) {
  Log log;
  BOOST_TEST(log.append(1, "{\"a\":1}\nnonsense\n{\"a\":2}\n") == EINVAL);
  BOOST_TEST(log.append(1, "{\"turnbox\":{}}\n") == EINVAL);
  BOOST_TEST(log.append(1, "\n") == EINVAL);
  BOOST_TEST(log.text() == "");
  // The unfinished line goes with the write that spoilt it, so the next line starts afresh.
  BOOST_TEST(log.append(1, "{\"half\":") == 0);
  BOOST_TEST(log.append(1, "oops}\n") == EINVAL);
  BOOST_TEST(log.append(1, "{\"a\":3}\n") == 0);
  BOOST_TEST(log.text() == "{\"a\":3}\n");
}

BOOST_AUTO_TEST_CASE(a_line_of_64_kib_passes_and_one_byte_more_does_not) {
  Log log;
  const auto line = [](size_t size) { return "{\"a\":\"" + std::string(size - 9, 'x') + "\"}\n"; };
  BOOST_TEST(line(65536).size() == 65536u);
  BOOST_TEST(log.append(1, line(65536)) == 0);
  BOOST_TEST(log.append(1, line(65537)) == EINVAL);
  BOOST_TEST(log.append(1, std::string(65535, ' ')) == 0);
  BOOST_TEST(log.append(1, " ") == EINVAL);  // no newline could make it short enough
  BOOST_TEST(log.events.append_own(log.file, "\"" + std::string(65536, 'x') + "\"").error().kind ==
             sys::ErrorKind::limit);
  BOOST_TEST(log.text().size() == 65536u);
}

BOOST_AUTO_TEST_CASE(a_guest_at_its_limit_does_not_stop_the_daemon) {
  Log log({.line = 64, .guest_bytes = 20, .own_bytes = 40, .unfinished_bytes = 10});
  BOOST_TEST(log.append(1, "{\"a\":1}\n{\"a\":2}\n") == 0);
  BOOST_TEST(log.append(1, "{\"a\":3}\n") == ENOSPC);
  BOOST_TEST(log.append(1, "{\"a\":") == 0);
  BOOST_TEST(log.append(2, "{\"b\": ") == ENOSPC);  // unfinished lines of all handles together
  log.events.closed(log.file, 1);
  BOOST_TEST(log.append(2, "{\"b\": ") == 0);
  BOOST_TEST(log.events.append_own(log.file, "{}").has_value());
  BOOST_TEST(log.events.append_own(log.file, "{}").has_value());
  BOOST_TEST(log.events.append_own(log.file, "{\"too\":\"much\"}").error().kind == sys::ErrorKind::limit);
  BOOST_TEST(log.text() == "{\"a\":1}\n{\"a\":2}\n{\"turnbox\":{}}\n{\"turnbox\":{}}\n");
}

BOOST_AUTO_TEST_CASE(a_sealed_log_takes_no_line) {
  Log log;
  BOOST_TEST(log.append(1, "{\"half\":") == 0);
  log.events.seal(log.file);
  BOOST_TEST(log.append(1, "1}\n") == EROFS);
  BOOST_TEST(log.events.append_own(log.file, "{}").error().kind == sys::ErrorKind::conflict);
  BOOST_TEST(log.text() == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::turn
