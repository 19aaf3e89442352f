#include "broker/turn/ledger.h"

#include <fcntl.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <thread>

#include "broker/turn/browse.h"
#include "broker/turn/canonical.h"
#include "broker/turn/checkpoint.h"
#include "broker/turn/export.h"
#include "broker/turn/record.h"
#include "broker/turn/signing_key.h"
#include "broker/turn/verify.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/record/golden.h"

namespace turnbox::turn {

using sys::ErrorKind;
using test::TempDir;

namespace {

constexpr const char* kFirst = "01JZZZZZZZ0000000000000001";
constexpr const char* kSecond = "01JZZZZZZZ0000000000000002";

// A state directory with both golden turns.
struct GoldenState {
  GoldenState() {
    place_golden_key(dir.path());
    auto ledger = open();
    NoObjects none;
    GoldenObjects objects;
    const auto first = ledger.commit(golden_first(), none);
    BOOST_REQUIRE_MESSAGE(first.has_value(), (first ? "" : first.error().text));
    const auto second = ledger.commit(golden_second(), objects);
    BOOST_REQUIRE_MESSAGE(second.has_value(), (second ? "" : second.error().text));
    BOOST_TEST(second->chain_index == 1);
    BOOST_TEST(second->checkpoint_late == "");
  }
  Ledger open() { return Ledger::open(dir.path()).value(); }
  std::string checkpoint() const { return dir.path() + "/checkpoint.json"; }
  TempDir dir;
};

Draft another(unsigned number) {
  Draft draft = golden_first();
  draft.turn = "01K0000000000000000000000" + std::to_string(number);
  return draft;
}

std::string findings_of(const Verification& result) {
  std::string text;
  for (const auto& finding : result.findings)
    text += (finding.wrong ? "! " : "  ") + finding.what + ": " + finding.text + "\n";
  return text;
}

Verification verified(GoldenState& state, const char* turn = kSecond) {
  auto ledger = state.open();
  auto result = verify(ledger, turn);
  BOOST_REQUIRE_MESSAGE(result.has_value(), (result ? "" : result.error().text));
  return *result;
}

std::string chain_findings(GoldenState& state) {
  auto ledger = state.open();
  return findings_of({"", {}, 0, 0, verify_chains(ledger).value()});
}

// Behind the store's back: `change` gets a writable copy of each value of a database, and says whether to
// keep, put or drop it.
enum class Change { keep, put, drop };
unsigned tamper(const std::string& state, const char* db,
                const std::function<Change(std::string_view key, std::string& value)>& change) {
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  MDB_cursor* cursor = nullptr;
  BOOST_REQUIRE(::mdb_env_create(&env) == 0);
  ::mdb_env_set_maxdbs(env, 16);
  BOOST_REQUIRE(::mdb_env_open(env, (state + "/store").c_str(), 0, 0600) == 0);
  BOOST_REQUIRE(::mdb_txn_begin(env, nullptr, 0, &txn) == 0);
  BOOST_REQUIRE(::mdb_dbi_open(txn, db, 0, &dbi) == 0);
  BOOST_REQUIRE(::mdb_cursor_open(txn, dbi, &cursor) == 0);
  MDB_val key{};
  MDB_val data{};
  unsigned changed = 0;
  std::vector<std::pair<std::string, std::string>> puts;
  while (::mdb_cursor_get(cursor, &key, &data, MDB_NEXT) == 0) {
    const std::string name(static_cast<const char*>(key.mv_data), key.mv_size);
    std::string value(static_cast<const char*>(data.mv_data), data.mv_size);
    const Change verdict = change(name, value);
    changed += verdict != Change::keep;
    if (verdict == Change::drop) BOOST_REQUIRE(::mdb_cursor_del(cursor, 0) == 0);
    if (verdict == Change::put) puts.emplace_back(name, value);
  }
  ::mdb_cursor_close(cursor);
  for (auto& [name, value] : puts) {
    key = {name.size(), name.data()};
    data = {value.size(), value.data()};
    BOOST_REQUIRE(::mdb_put(txn, dbi, &key, &data, 0) == 0);
  }
  BOOST_REQUIRE(::mdb_txn_commit(txn) == 0);
  ::mdb_env_close(env);
  return changed;
}

bool swap_text(std::string& value, std::string_view from, std::string_view to) {
  const auto at = value.find(from);
  if (at == std::string::npos) return false;
  value.replace(at, from.size(), to);
  return true;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ledger)

BOOST_AUTO_TEST_CASE(a_good_store_verifies_without_a_word) {
  GoldenState state;
  const auto result = verified(state);
  BOOST_TEST(findings_of(result) == "");
  BOOST_TEST(result.objects == 43);  // as docs/verify.py counts
  BOOST_TEST(findings_of(verified(state, kFirst)) == "");
  BOOST_TEST(chain_findings(state) == "");
}

BOOST_AUTO_TEST_CASE(export_gives_the_golden_archive_byte_for_byte) {
  GoldenState state;
  auto ledger = state.open();
  const std::string path = state.dir.path() + "/out.tar";
  {
    const auto fd = sys::open_fd(path.c_str(), O_WRONLY | O_CREAT, 0600);
    BOOST_REQUIRE(export_tar(ledger, kSecond, fd->get()).has_value());
  }
  BOOST_TEST((sys::read_file(path, 1 << 20).value() == golden("second.tar")));
}

BOOST_AUTO_TEST_CASE(a_missing_object_refuses_the_whole_commit) {
  const TempDir dir;
  auto ledger = Ledger::open(dir.path());
  NoObjects none;
  const auto refused = ledger->commit(golden_second(), none);
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().kind == ErrorKind::invalid));
  BOOST_TEST(ledger->store().list()->empty());
  BOOST_TEST(!std::filesystem::exists(dir.path() + "/checkpoint.json"));
}

BOOST_AUTO_TEST_CASE(a_sentence_that_is_no_text_does_not_cost_the_record) {
  const TempDir dir;
  auto ledger = Ledger::open(dir.path());
  NoObjects none;
  Draft draft = golden_first();
  draft.detail = "console: \xff\xfe panic";
  draft.workspace_after = NotCaptured{""};
  BOOST_REQUIRE(ledger->commit(draft, none).has_value());
  const auto record = read_record(ledger->store().load_record(kFirst)->record.bytes);
  BOOST_TEST(record->draft.detail == "console: ?? panic");
  BOOST_TEST(std::get<NotCaptured>(record->draft.workspace_after).reason != "");
}

BOOST_AUTO_TEST_CASE(an_edited_record_is_named) {
  GoldenState state;
  BOOST_TEST(tamper(state.dir.path(), "records", [](std::string_view key, std::string& value) {
               return key == kFirst && swap_text(value, "signal 9", "signal 8") ? Change::put : Change::keep;
             }) == 1);
  const auto result = verified(state);
  BOOST_TEST(!result.good());
  BOOST_TEST(findings_of(result).find("! record 01JZZZZZZZ0000000000000001: its bytes have another digest") !=
             std::string::npos);
  BOOST_TEST(findings_of(result).find("its signature is wrong") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_dropped_record_is_named) {
  GoldenState state;
  BOOST_TEST(tamper(state.dir.path(), "records", [](std::string_view key, std::string&) {
               return key == kFirst ? Change::drop : Change::keep;
             }) == 1);
  const auto result = verified(state);
  BOOST_TEST(!result.good());
  BOOST_TEST(findings_of(result).find("! chain golden/0: the record is missing") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_cut_tail_shows_against_the_checkpoint_and_stops_commits) {
  const TempDir old;
  GoldenState state;
  const auto copy =
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing;
  std::filesystem::copy(state.dir.path() + "/store", old.path() + "/store", copy);
  {
    auto ledger = state.open();
    NoObjects none;
    BOOST_REQUIRE(ledger.commit(another(1), none).has_value());
  }
  std::filesystem::copy(old.path() + "/store", state.dir.path() + "/store",
                        copy);  // the store as it was before

  const auto result = verified(state);
  BOOST_TEST(!result.good());
  BOOST_TEST(findings_of(result).find(
                 "! checkpoint: the store has 2 records, the checkpoint counts 3: 1 are missing") !=
             std::string::npos);
  BOOST_TEST(findings_of(result).find("record 2 of its chain is missing") != std::string::npos);
  auto ledger = state.open();
  NoObjects none;
  const auto refused = ledger.commit(another(2), none);
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().kind == ErrorKind::conflict));
  BOOST_TEST(refused.error().text.find("behind its checkpoint") != std::string::npos);
  std::filesystem::remove(state.checkpoint());  // the person decides
  BOOST_TEST(ledger.commit(another(2), none).has_value());
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_is_behind_is_told_and_mended) {
  GoldenState state;
  const auto old = sys::read_file(state.checkpoint(), 1 << 20).value();
  NoObjects none;
  {
    auto ledger = state.open();
    BOOST_REQUIRE(ledger.commit(another(1), none).has_value());
  }
  BOOST_REQUIRE(
      sys::replace_file(state.checkpoint(), old, 0600).has_value());  // as if killed between the steps
  const auto result = verified(state);
  BOOST_TEST(result.good());
  BOOST_TEST(findings_of(result) == "  checkpoint: it is behind by 1; the next turn brings it up\n");
  {
    auto ledger = state.open();
    BOOST_REQUIRE(ledger.commit(another(2), none).has_value());
  }
  BOOST_TEST(findings_of(verified(state)) == "");
}

BOOST_AUTO_TEST_CASE(an_edited_or_foreign_checkpoint_is_wrong) {
  GoldenState state;
  const auto good = sys::read_file(state.checkpoint(), 1 << 20).value();
  std::string edited = good;
  BOOST_REQUIRE(swap_text(edited, "\"count\":2", "\"count\":1"));
  BOOST_REQUIRE(sys::replace_file(state.checkpoint(), edited, 0600).has_value());
  BOOST_TEST(findings_of(verified(state)).find("! checkpoint") == 0);
  // Well signed, by somebody else.
  const TempDir other;
  const auto key = SigningKey::load_or_make(other.path());
  const auto checkpoint = read_checkpoint(good);
  BOOST_REQUIRE(
      sys::replace_file(state.checkpoint(), write_checkpoint(*checkpoint, *key).value(), 0600).has_value());
  BOOST_TEST(findings_of(verified(state)).find("did not sign the last record") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(every_byte_of_content_is_covered) {
  GoldenState state;
  // One byte of a segment: some object must complain, whichever it is.
  for (const size_t at : {size_t{0}, size_t{70'000}, size_t{200'000}, size_t{300'000}}) {
    const auto flip = [&](std::string_view, std::string& value) {
      value.at(at) = static_cast<char>(value.at(at) ^ 1);
      return Change::put;
    };
    BOOST_TEST(tamper(state.dir.path(), "segments", flip) == 1);
    const auto result = verified(state);
    BOOST_TEST(!result.good(), at);
    BOOST_TEST(findings_of(result).find("has other bytes") != std::string::npos);
    BOOST_TEST(tamper(state.dir.path(), "segments", flip) == 1);
  }
  BOOST_TEST(findings_of(verified(state)) == "");
}

BOOST_AUTO_TEST_CASE(an_object_dropped_from_the_index_is_missed) {
  GoldenState state;
  const auto names = read_record(golden("second.json"))->draft;
  const auto root = std::get<TreeRef>(names.workspace_after).content;
  BOOST_TEST(tamper(state.dir.path(), "objects", [&](std::string_view key, std::string&) {
               return key.substr(4) == sys::as_text(root.bytes) ? Change::drop : Change::keep;
             }) == 1);
  const auto result = verified(state);
  BOOST_TEST(findings_of(result).find("! workspace after: dir " + sys::to_hex(root) + " is missing") == 0);
  auto ledger = state.open();
  const auto fd = sys::make_memfd("out");
  BOOST_TEST(!export_tar(ledger, kSecond, fd->get()).has_value());
}

BOOST_AUTO_TEST_CASE(files_are_listed_and_their_bytes_read) {
  GoldenState state;
  auto ledger = state.open();
  const auto stored = ledger.store().load_record(kSecond).value();
  std::vector<FileEntry> entries;
  BOOST_REQUIRE(list_files(ledger, stored, [&](const FileEntry& entry) {
                  entries.push_back(entry);
                  return true;
                }).has_value());
  const auto entry = [&](std::string_view path) {
    const auto at =
        std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.path == path; });
    BOOST_REQUIRE_MESSAGE(at != entries.end(), path);
    return *at;
  };
  BOOST_TEST(entry("workspace/caf\xe9").size == 22);
  BOOST_TEST(entry("workspace/sparse").size == 104'857'601);
  BOOST_TEST(entry("workspace/dir").type == 'd');
  BOOST_TEST(entry("workspace/dir/b").mode.value_or(0) == 0640u);
  BOOST_TEST(entry("inputs/huge").size == (uint64_t{1} << 60) + 5);
  BOOST_TEST(entry("outputs/run/result").size == 5);
  const auto read = [&](std::string_view path) {
    std::string text;
    const auto done = cat(ledger, stored, path, [&](sys::ByteSpan bytes) -> sys::Status {
      text += sys::as_text(bytes);
      return {};
    });
    return done ? text : "error: " + std::string(sys::name_of(done.error().kind));
  };
  BOOST_TEST(read("workspace/dir/B") == "three names\n");
  BOOST_TEST(read("workspace/tab\t\"quote") == "caf\xe9");
  BOOST_TEST(read("outputs/run/result") == "done\n");
  BOOST_TEST(read("events") == "{\"at\":1}\n{\"at\":2}\n");
  BOOST_TEST(read("workspace/sparse").size() == 104'857'601);
  BOOST_TEST(read("workspace/dir/none") == "");
  BOOST_TEST(read("workspace/dir") == "error: usage");
  BOOST_TEST(read("workspace/none") == "error: not_found");
  BOOST_TEST(read("workspace/a/b") == "error: not_found");
  BOOST_TEST(read("elsewhere") == "error: not_found");
}

BOOST_AUTO_TEST_CASE(one_key_is_made_however_many_come_at_once) {
  const TempDir dir;
  std::vector<std::thread> threads;
  std::vector<std::string> ids(8);
  for (auto& id : ids) {
    threads.emplace_back(
        [&] { id = sys::to_hex(key_id(SigningKey::load_or_make(dir.path()).value().public_key())); });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& id : ids) BOOST_TEST(id == ids[0]);
  struct stat st {};
  BOOST_REQUIRE(::stat((dir.path() + "/keys/record.ed25519").c_str(), &st) == 0);
  BOOST_TEST((st.st_mode & 07777) == 0600);
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(dir.path() + "/keys"), {}) == 1);
}

BOOST_AUTO_TEST_CASE(a_damaged_key_is_named_and_nothing_is_committed) {
  GoldenState state;
  BOOST_REQUIRE(sys::replace_file(state.dir.path() + "/keys/record.ed25519", "short", 0600).has_value());
  auto ledger = state.open();
  NoObjects none;
  const auto refused = ledger.commit(another(1), none);
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text.find("keys/record.ed25519") != std::string::npos);
  BOOST_TEST(ledger.store().list()->size() == 2);
}

BOOST_AUTO_TEST_CASE(a_signature_is_for_one_context_only) {
  const TempDir dir;
  const auto key = SigningKey::load_or_make(dir.path());
  const auto digest = sys::plain_sha256(sys::as_bytes("x"));
  const auto signature = key->sign(kRecordContext, digest);
  BOOST_TEST(signature_is_good(key->public_key(), kRecordContext, digest, signature));
  BOOST_TEST(!signature_is_good(key->public_key(), kCheckpointContext, digest, signature));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::turn
