#include "broker/turn/record.h"

#include <boost/test/unit_test.hpp>

#include "broker/turn/signing_key.h"
#include "broker/turn/ulid.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/record/golden.h"

namespace turnbox::turn {

namespace {

Record first_record() {
  return {golden_first(),
          0,
          {},
          *sys::digest_from_hex("56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c")};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  BOOST_REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(record)

BOOST_AUTO_TEST_CASE(golden_bytes_of_both_turns) {
  const test::TempDir dir;
  place_golden_key(dir.path());
  const auto key = SigningKey::load_or_make(dir.path());
  BOOST_REQUIRE(key.has_value());
  const auto id = key_id(key->public_key());
  const auto first = write_record({golden_first(), 0, {}, id});
  BOOST_TEST(first.value() == golden("first.json"));
  const auto second = write_record({golden_second(), 1, record_digest(*first), id});
  BOOST_TEST(second.value() == golden("second.json"));
}

BOOST_AUTO_TEST_CASE(what_was_written_is_read_and_written_again_the_same) {
  for (const char* name : {"first.json", "second.json"}) {
    const auto record = read_record(golden(name));
    BOOST_REQUIRE_MESSAGE(record.has_value(), name);
    BOOST_TEST(write_record(*record).value() == golden(name));
  }
  const auto second = read_record(golden("second.json"));
  BOOST_TEST(second->draft.stages.at(0).argv.at(3) == "\xff");
  BOOST_TEST(second->draft.inputs.at(1).name == "\xfe");
  BOOST_TEST(second->draft.booted_ns.value() == 1'700'000'003'000'000'000);
  BOOST_TEST(roots_of(second->draft).size() == 11);
}

BOOST_AUTO_TEST_CASE(anything_but_a_record_is_refused) {
  const std::string good = golden("first.json");
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {R"("calls":[])", R"("calls":[1])"},
           {R"("calls":[],)", ""},
           {R"("chain_index":0)", R"("chain_index":"0")"},
           {R"("chain_index":0)", R"("chain_index":-1)"},
           {R"("features":[])", R"("features":["winter"])"},
           {R"("format":1)", R"("format":2)"},
           {R"("given":"emulated")", R"("given":"magic")"},
           {R"("reason":"infrastructure")", R"("reason":"timeout")"},
           {R"("reason":"infrastructure")", R"("reason":"weather")"},
           {R"("status":"failed")", R"("status":"perhaps")"},
           {R"("started":"1700000000000000001")", R"("started":"01700000000000000001")"},
           {R"("started":"1700000000000000001")", R"("started":"9223372036854775808")"},
           {R"("turn":"01J)", R"("turn":"01I)"},
           {R"("unknown":["clock","randomness"])", R"("unknown":["randomness","clock"])"},
           {R"("exit":null)", R"("exit":{"code":256,"timed_out":false})"},
           {R"("exit":null)", R"("exit":{"code":0,"signal":9,"timed_out":false})"},
           {R"({"not_captured":"QEMU ended before the turn did"})", R"({"not_captured":""})"},
           {R"("thread":"main")", R"("thread":"main","thread_extra":1)"}}) {
    BOOST_TEST(!read_record(replaced(good, from, to)), to);
  }
  BOOST_TEST(!read_record(good + "\n"));
  BOOST_TEST(!read_record("{}"));
}

BOOST_AUTO_TEST_CASE(a_draft_that_the_format_cannot_hold_is_refused) {
  const auto refused = [](auto change) {
    Record record = first_record();
    change(record.draft);
    return !write_record(record).has_value();
  };
  BOOST_TEST(!refused([](Draft&) {}));
  BOOST_TEST(refused([](Draft& d) { d.thread_seq = uint64_t{1} << 53; }));
  BOOST_TEST(refused([](Draft& d) { d.turn = "short"; }));
  BOOST_TEST(refused([](Draft& d) { d.tier_given = ""; }));
  BOOST_TEST(refused([](Draft& d) { d.status = TurnStatus::completed; }));
  BOOST_TEST(refused([](Draft& d) { d.detail = "\xff"; }));
  BOOST_TEST(refused([](Draft& d) { d.capture.captured = {"clock"}; }));  // it is unknown, too
  BOOST_TEST(refused([](Draft& d) { d.inputs = {{"a", NotCaptured{}}, {"a", NotCaptured{}}}; }));
  BOOST_TEST(refused([](Draft& d) { d.stages[0].exit = StageExit{true, 0, false}; }));
  BOOST_TEST(refused([](Draft& d) { d.workspace_after = NotCaptured{""}; }));
}

BOOST_AUTO_TEST_CASE(ulids_are_ulids_and_sort_by_time) {
  const auto one = new_ulid();
  BOOST_REQUIRE(one.has_value());
  BOOST_TEST(is_ulid(*one));
  BOOST_TEST(*one != *new_ulid());
  BOOST_TEST(one->substr(0, 2) == "01");
  BOOST_TEST(!is_ulid("81JZZZZZZZ0000000000000001"));
  BOOST_TEST(!is_ulid("01jZZZZZZZ0000000000000001"));
  BOOST_TEST(!is_ulid(one->substr(1)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::turn
