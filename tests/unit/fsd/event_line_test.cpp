#include "fs/turn/event_line.h"

#include <boost/test/unit_test.hpp>
#include <ostream>
#include <string>

namespace turnbox::turn {

std::ostream& operator<<(std::ostream& to, EventLine line) {
  return to << static_cast<int>(line);
}

BOOST_AUTO_TEST_SUITE(event_line)

BOOST_AUTO_TEST_CASE(an_object_passes_whatever_it_holds) {
  for (const char* line :
       {"{}", " {\"a\":1} ", "{\"a\":[1,-2.5e3,null,true,{\"b\":\"\\u00e9\"}]}", "{\"a\":1,\"a\":2}",
        "{\"\xc3\xa9\":\"\xf0\x9f\x98\x80\"}", "{\"n\":123456789012345678901234567890}"}) {
    BOOST_TEST(check_event_line(line) == EventLine::object, line);
  }
}

BOOST_AUTO_TEST_CASE(everything_else_is_refused) {
  using std::string_literals::operator""s;
  for (const std::string& line : {""s, " "s, "1"s, "null"s, "[]"s, "\"text\""s, "{"s, "{}}"s, "{} {}"s,
                                  "{\"a\"}"s, "{'a':1}"s, "{\"a\":1,}"s, "{\"a\":01}"s, "{\"a\":\"\xff\"}"s,
                                  "{\"a\":\"\t\"}"s, "{}\0"s, "// c\n{}"s, "{\"a\":NaN}"s}) {
    BOOST_TEST(check_event_line(line) == EventLine::refused, line);
  }
}

BOOST_AUTO_TEST_CASE(nesting_stops_at_the_limit) {
  const auto nested = [](unsigned depth) {
    return "{\"a\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  BOOST_TEST(check_event_line(nested(kMaxEventDepth)) == EventLine::object);
  BOOST_TEST(check_event_line(nested(kMaxEventDepth + 1)) == EventLine::refused);
  BOOST_TEST(check_event_line("{\"a\":" + std::string(60000, '[')) == EventLine::refused);
}

BOOST_AUTO_TEST_CASE(the_daemons_mark_is_seen_at_the_top_however_it_is_spelt) {
  BOOST_TEST(check_event_line("{\"turnbox\":1}") == EventLine::own);
  BOOST_TEST(check_event_line("{\"a\":{},\"turnbox\":1}") == EventLine::own);
  BOOST_TEST(check_event_line("{\"\\u0074urnb\\u006fx\":1}") == EventLine::own);
  BOOST_TEST(check_event_line("{\"a\":{\"turnbox\":1}}") == EventLine::object);
  BOOST_TEST(check_event_line("{\"a\":\"turnbox\"}") == EventLine::object);
  for (const char* key : {"turnbo", "turnboxx", "Turnbox", "xturnbox", "turnbox\\u0000", "\\u0074urnbo"}) {
    BOOST_TEST(check_event_line("{\"" + std::string(key) + "\":1}") == EventLine::object, key);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::turn
