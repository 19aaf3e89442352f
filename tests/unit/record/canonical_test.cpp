#include "broker/turn/canonical.h"

#include <boost/test/unit_test.hpp>

namespace turnbox::turn {

BOOST_AUTO_TEST_SUITE(canonical)

// RFC 8785, section 3.2.2: the strings and literals of its sample.
BOOST_AUTO_TEST_CASE(sample_of_the_rfc_within_our_part) {
  const Json value = Json::Object{
      {"string",
       "\xe2\x82\xac$\x0f\x0a"
       "A'B\"\\\\\"/"},
      {"literals", Json::Array{Json(), true, false}},
  };
  BOOST_TEST(value.write().value() ==
             "{\"literals\":[null,true,false],\"string\":\"\xe2\x82\xac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
}

BOOST_AUTO_TEST_CASE(every_control_character_has_its_one_spelling) {
  std::string all;
  for (char c = 0; c < 0x20; ++c) all += c;
  BOOST_TEST(Json(all).write().value() ==
             "\"\\u0000\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000b\\f\\r\\u000e\\u000f"
             "\\u0010\\u0011\\u0012\\u0013\\u0014\\u0015\\u0016\\u0017\\u0018\\u0019\\u001a\\u001b\\u001c\\u0"
             "01d\\u001e\\u001f\"");
  BOOST_TEST(Json("\x7f/").write().value() == "\"\x7f/\"");
}

BOOST_AUTO_TEST_CASE(integers_end_at_2_to_the_53) {
  BOOST_TEST(Json(kMostInteger).write().value() == "9007199254740991");
  BOOST_TEST(Json(-kMostInteger).write().value() == "-9007199254740991");
  BOOST_TEST(!Json(kMostInteger + 1).write());
  BOOST_TEST(!Json(-kMostInteger - 1).write());
  BOOST_TEST(Json::read("9007199254740991").has_value());
  BOOST_TEST(!Json::read("9007199254740992"));
}

BOOST_AUTO_TEST_CASE(keys_are_sorted_and_limited) {
  const Json value =
      Json::Object{{"b", int64_t{1}}, {"a_b", int64_t{2}}, {"a", int64_t{3}}, {"_", int64_t{4}}};
  BOOST_TEST(value.write().value() == R"({"_":4,"a":3,"a_b":2,"b":1})");
  for (const char* key : {"", "A", "a1", "a-b", "\xc3\xa4"})
    BOOST_TEST(!Json(Json::Object{{key, Json()}}).write());
}

BOOST_AUTO_TEST_CASE(only_the_canonical_spelling_is_read) {
  for (const char* good :
       {"{}", "[]", "null", R"({"a":[1,"x",{"b16":"ff"}]})", "\"\xe2\x82\xac\"", "0", "-1"}) {
    const auto value = Json::read(good);
    BOOST_REQUIRE_MESSAGE(value.has_value(), good);
    BOOST_TEST(value->write().value() == good);
  }
  for (const char* bad : {"",
                          " {}",
                          "{} ",
                          "{ }",
                          R"({"b":1,"a":2})",
                          R"({"a":1,"a":1})",
                          "1.0",
                          "1e3",
                          "-0",
                          "01",
                          "18446744073709551615",
                          R"("\u20ac")",
                          R"("\/")",
                          "\"\\u000A\"",
                          "\"\xff\"",
                          R"("\ud800")",
                          "{\"A\":1}",
                          "[1,]",
                          "nul",
                          "[[[[[[[[[[[[[[[[[[[["}) {
    BOOST_TEST(!Json::read(bad), bad);
  }
}

BOOST_AUTO_TEST_CASE(bytes_have_one_form_each) {
  BOOST_TEST(json_of_bytes("caf\xc3\xa9").write().value() == "\"caf\xc3\xa9\"");
  BOOST_TEST(json_of_bytes("caf\xe9").write().value() == R"({"b16":"636166e9"})");
  BOOST_TEST(bytes_of_json(json_of_bytes("caf\xe9")).value() == "caf\xe9");
  BOOST_TEST(!bytes_of_json(Json::Object{{"b16", "61"}}));  // UTF-8 has to be a string
  BOOST_TEST(!bytes_of_json(Json::Object{{"b16", "FF"}}));
  BOOST_TEST(!bytes_of_json(Json(int64_t{1})));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::turn
