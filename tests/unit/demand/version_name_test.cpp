#include "broker/demand/version_name.h"

#include <boost/test/unit_test.hpp>

namespace turnbox::demand {

BOOST_AUTO_TEST_SUITE(version_name)

BOOST_AUTO_TEST_CASE(every_form_is_known) {
  using Kind = VersionName::Kind;
  struct Case {
    const char* text;
    Kind kind;
    const char *word, *name, *place;
  };
  for (const Case& known :
       {Case{"run-66dyz0c1", Kind::word, "run-66dyz0c1", "", ""}, Case{"fresh", Kind::word, "fresh", "", ""},
        Case{"0-demand", Kind::word, "0-demand", "", ""},
        Case{"run-66dyz0c1@before", Kind::live, "run-66dyz0c1", "before", ""},
        Case{"01JD", Kind::turn, "01JD", "", "after"},
        Case{"01m8kt69cr9ee70ew266dyz0c1", Kind::turn, "01m8kt69cr9ee70ew266dyz0c1", "", "after"},
        Case{"01JD:before", Kind::turn, "01JD", "", "before"},
        Case{"01JD:outputs/run", Kind::turn, "01JD", "", "outputs/run"},
        Case{"01JD:inputs/a b@c:d", Kind::turn, "01JD", "", "inputs/a b@c:d"}}) {
    const auto name = parse_version_name(known.text);
    BOOST_REQUIRE_MESSAGE(name.has_value(), known.text);
    BOOST_TEST((name->kind == known.kind), known.text);
    BOOST_TEST(name->word == known.word);
    BOOST_TEST(name->name == known.name);
    BOOST_TEST(name->place == known.place);
  }
}

BOOST_AUTO_TEST_CASE(anything_else_is_a_usage_error_that_names_the_forms) {
  for (const char* text : {"",
                           "@",
                           "a@",
                           "@b",
                           "A",
                           "a b",
                           "../x",
                           "a/b",
                           "-a",
                           "a-",
                           "a--b",
                           "01J",
                           "01JD:",
                           "01JD:x",
                           "01JD:outputs/",
                           "fresh:before",
                           "run-1@a/b",
                           "run-1@A",
                           "01JD!",
                           ":before",
                           "01M8KT69CR9EE70EW266DYZ0C11"}) {
    const auto name = parse_version_name(text);
    BOOST_REQUIRE_MESSAGE(!name.has_value(), text);
    BOOST_TEST((name.error().kind == sys::ErrorKind::usage));
    BOOST_TEST(name.error().text.find("DEMAND@NAME") != std::string::npos, name.error().text);
  }
}

BOOST_AUTO_TEST_CASE(a_name_starts_with_a_letter) {
  for (const char* good : {"a", "fresh", "v2-x"}) BOOST_TEST(check_version_name(good).has_value(), good);
  for (const char* bad : {"", "2a", "01jd", "A", "a_b", "a@b", "a/b"})
    BOOST_TEST(!check_version_name(bad).has_value(), bad);
  BOOST_TEST(!check_version_name(std::string(64, 'a')).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::demand
