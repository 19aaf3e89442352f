#include "vmm/guest/json.h"

#include <boost/test/unit_test.hpp>

using turnbox::guest::Json;
using turnbox::guest::json_text;

namespace {

std::string error_of(std::string_view text) {
  auto parsed = Json::parse(text);
  return parsed ? "accepted" : parsed.error().text;
}

std::string string_of(std::string_view text) {
  auto parsed = Json::parse(text);
  BOOST_REQUIRE_MESSAGE(parsed, text);
  BOOST_REQUIRE(parsed->string() != nullptr);
  return *parsed->string();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(json)

BOOST_AUTO_TEST_CASE(reads_every_kind) {
  auto json = Json::parse(R"( {"a":[1,-2,0],"b":true,"c":null,"d":"x","e":{}} )");
  BOOST_REQUIRE(json);
  const Json::Array& list = *json->find("a")->array();
  BOOST_TEST(list.size() == 3U);
  BOOST_TEST(*list[1].integer() == -2);
  BOOST_TEST(*json->find("b")->boolean());
  BOOST_TEST(json->find("c")->is_null());
  BOOST_TEST(*json->find("d")->string() == "x");
  BOOST_TEST(json->find("e")->object()->empty());
  BOOST_TEST((json->find("f") == nullptr));
}

BOOST_AUTO_TEST_CASE(reads_escapes) {
  BOOST_TEST(string_of(R"("\"\\\/\b\f\n\r\t")") == "\"\\/\b\f\n\r\t");
  BOOST_TEST(string_of(R"("\u0041\u00e9\u20ac\ud83d\ude00")") == "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  BOOST_TEST(string_of(R"("\u0000")") == std::string(1, '\0'));
}

BOOST_AUTO_TEST_CASE(refuses_half_a_surrogate_pair) {
  for (const char* text : {R"("\ud83d")", R"("\ude00")", R"("\ud83dx")", R"("\ud83d\u0041")"}) {
    BOOST_TEST(error_of(text).find("surrogate") != std::string::npos, text);
  }
}

BOOST_AUTO_TEST_CASE(integers_end_at_2_to_53) {
  BOOST_TEST(*Json::parse("9007199254740991")->integer() == 9007199254740991);
  BOOST_TEST(*Json::parse("-9007199254740991")->integer() == -9007199254740991);
  for (const char* text :
       {"9007199254740992", "99999999999999999999999", "01", "-", "1.5", "1e3", "+1", ".5"}) {
    BOOST_TEST(error_of(text) != "accepted", text);
  }
}

BOOST_AUTO_TEST_CASE(refuses_what_is_not_strict_json) {
  for (const char* text :
       {"", " ", "{", "[1,]", "{\"a\":1,}", "{a:1}", "[1 2]", "tru", "\"a", "\"\\x\"", "\"\\u12\"", "1 1",
        "\"a\nb\"", "'a'", "[1]]", "{\"a\" 1}", "nul", "\"\xff\"", "\"\xc0\x80\""}) {
    BOOST_TEST(error_of(text) != "accepted", text);
  }
}

BOOST_AUTO_TEST_CASE(refuses_a_key_that_stands_twice) {
  BOOST_TEST(error_of(R"({"a":1,"a":2})").find("twice") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(depth_is_bounded) {
  BOOST_TEST(error_of("[[[[[[[[1]]]]]]]]") == "accepted");
  BOOST_TEST(error_of("[[[[[[[[[1]]]]]]]]]").find("levels") != std::string::npos);
  BOOST_TEST(error_of(std::string(1'000'000, '[')).find("levels") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(count_is_bounded) {
  std::string text = "[0";
  for (size_t i = 0; i < Json::kMaxValues; ++i) text += ",0";
  BOOST_TEST(error_of(text + "]").find("too many values") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(writes_what_it_reads) {
  const std::string odd = "a\"\\\n\x01\xc3\xa9";
  BOOST_TEST(json_text(odd) == "\"a\\\"\\\\\\u000a\\u0001\xc3\xa9\"");
  BOOST_TEST(string_of(json_text(odd)) == odd);
  BOOST_TEST(json_text("\xff\x01") == R"({"b16":"ff01"})");
}

BOOST_AUTO_TEST_SUITE_END()
