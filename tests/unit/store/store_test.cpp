#include "broker/store/store.h"

#include <boost/test/unit_test.hpp>

#include "tests/support/temp_dir.h"
#include "tests/unit/store/sample.h"

namespace turnbox::store {

using sys::ErrorKind;
using test::TempDir;

namespace {

sys::Bytes bytes_of(std::string_view text) {
  const auto span = sys::as_bytes(text);
  return {span.begin(), span.end()};
}

sys::Bytes random_bytes(size_t size, uint32_t seed) {
  sys::Bytes bytes(size);
  for (auto& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<std::byte>(seed >> 24);
  }
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(store)

BOOST_AUTO_TEST_CASE(chains_run_per_demand_and_the_list_in_commit_order) {
  const TempDir dir;
  auto opened = Store::open(dir.path());
  BOOST_REQUIRE(opened.has_value());
  BOOST_TEST(commit_plain(*opened, 7, "one")->chain_index == 0);
  BOOST_TEST(commit_plain(*opened, 3, "two")->chain_index == 0);
  const auto third = commit_plain(*opened, 5, "one");
  BOOST_REQUIRE(third.has_value());
  BOOST_TEST(third->chain_index == 1);
  BOOST_TEST(third->count == 2);
  const auto all = opened->list();
  BOOST_REQUIRE(all->size() == 3);
  BOOST_TEST((*all)[0].turn == turn_id(7));
  BOOST_TEST((*all)[1].turn == turn_id(3));
  BOOST_TEST((*all)[2].turn == turn_id(5));
  BOOST_TEST((*all)[2].sequence == 3);
  BOOST_TEST((third->previous == (*all)[0].record.digest));
}

BOOST_AUTO_TEST_CASE(what_was_committed_is_there_after_reopening) {
  const TempDir dir;
  sys::Digest file;
  {
    auto opened = Store::open(dir.path());
    SampleObjects objects;
    file = objects.add_file("kept");
    const Root root{ObjectKind::file, file};
    BOOST_REQUIRE(opened->commit(key_of(1), {&root, 1}, objects, plain_record("r")).has_value());
  }
  auto opened = Store::open(dir.path());
  const auto stored = opened->load_record(turn_id(1));
  BOOST_REQUIRE(stored.has_value());
  BOOST_TEST(stored->record.bytes == "r 0");
  BOOST_TEST(stored->demand == "demand");
  BOOST_TEST(opened->missing("local", {&file, 1})->empty());
}

BOOST_AUTO_TEST_CASE(a_turn_is_committed_once) {
  const TempDir dir;
  auto opened = Store::open(dir.path());
  BOOST_REQUIRE(commit_plain(*opened, 1).has_value());
  const auto again = commit_plain(*opened, 1);
  BOOST_REQUIRE(!again.has_value());
  BOOST_TEST((again.error().kind == ErrorKind::conflict));
  BOOST_TEST(opened->list()->size() == 1);
}

BOOST_AUTO_TEST_CASE(a_prefix_finds_one_turn_or_names_the_doubt) {
  const TempDir dir;
  auto opened = Store::open(dir.path());
  BOOST_REQUIRE(commit_plain(*opened, 100).has_value());
  BOOST_REQUIRE(commit_plain(*opened, 111).has_value());
  BOOST_TEST(opened->load_record(turn_id(100).substr(0, 25))->turn == turn_id(100));
  const auto lower = opened->load_record("01j" + turn_id(111).substr(3));
  BOOST_REQUIRE(lower.has_value());
  BOOST_TEST(lower->turn == turn_id(111));
  BOOST_TEST((opened->load_record("01J0").error().kind == ErrorKind::usage));
  BOOST_TEST((opened->load_record("01").error().kind == ErrorKind::usage));
  BOOST_TEST((opened->load_record("01K0").error().kind == ErrorKind::not_found));
  BOOST_TEST((opened->load_record("").error().kind == ErrorKind::usage));
}

BOOST_AUTO_TEST_CASE(a_digest_of_one_account_is_unknown_to_another) {
  const TempDir dir;
  auto opened = Store::open(dir.path());
  SampleObjects objects;
  const Root root{ObjectKind::file, objects.add_file("secret")};
  BOOST_REQUIRE(opened->commit(key_of(1), {&root, 1}, objects, plain_record("r")).has_value());
  SampleObjects none;
  BOOST_REQUIRE(opened->commit(key_of(2, "theirs", "other"), {}, none, plain_record("r")).has_value());
  BOOST_TEST(opened->missing("other", {&root.digest, 1})->size() == 1);
  BOOST_TEST(opened->missing("nobody", {&root.digest, 1})->size() == 1);
  {
    auto reader = opened->read();
    sys::Bytes scratch;
    BOOST_TEST(reader->object("local", root.digest, scratch).has_value());
    BOOST_TEST((reader->object("other", root.digest, scratch).error().kind == ErrorKind::not_found));
  }
  // Naming it does not help: neither as a root nor below an object of one's own.
  const auto named = opened->commit(key_of(3, "theirs", "other"), {&root, 1}, none, plain_record("r"));
  BOOST_REQUIRE(!named.has_value());
  BOOST_TEST((named.error().kind == ErrorKind::invalid));
  SampleObjects wrapping;
  sys::Bytes row = bytes_of(std::string_view("f\0\0\0\0\1\0x", 8));
  sys::append(row, root.digest.bytes);
  wrapping.add(ObjectKind::dir, row);
  BOOST_TEST(!opened->commit(key_of(3, "theirs", "other"), {}, wrapping, plain_record("r")).has_value());
  BOOST_TEST(opened->list()->size() == 2);
}

BOOST_AUTO_TEST_CASE(a_demand_belongs_to_one_account) {
  const TempDir dir;
  auto opened = Store::open(dir.path());
  BOOST_REQUIRE(commit_plain(*opened, 1, "mine").has_value());
  SampleObjects none;
  const auto taken = opened->commit(key_of(2, "mine", "other"), {}, none, plain_record("r"));
  BOOST_REQUIRE(!taken.has_value());
  BOOST_TEST((taken.error().kind == ErrorKind::conflict));
  BOOST_TEST(opened->missing("other", {})->empty());
}

BOOST_AUTO_TEST_CASE(bytes_of_another_digest_are_refused_and_nothing_stays) {
  const TempDir dir;
  auto opened = Store::open(dir.path());
  SampleObjects objects;
  const auto good = objects.add(ObjectKind::chunk, bytes_of("good"));
  objects.add_as(ObjectKind::chunk, sys::digest_of("chunk", sys::as_bytes("said")), bytes_of("done"));
  const auto refused = opened->commit(key_of(1), {}, objects, plain_record("r"));
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().kind == ErrorKind::invalid));
  BOOST_TEST(opened->missing("local", {&good, 1})->size() == 1);
  BOOST_TEST(opened->list()->empty());
}

BOOST_AUTO_TEST_CASE(an_object_that_names_something_unknown_is_refused) {
  const TempDir dir;
  auto opened = Store::open(dir.path());
  SampleObjects objects;
  sys::Bytes file;
  sys::append_le<uint64_t>(file, 4);
  sys::append(file, sys::digest_of("chunk", sys::as_bytes("none")).bytes);
  objects.add(ObjectKind::file, file);
  BOOST_TEST((opened->commit(key_of(1), {}, objects, plain_record("r")).error().kind == ErrorKind::invalid));
  // The right digest under another kind is not the right object.
  SampleObjects mixed;
  const Root as_dir{ObjectKind::dir, mixed.add(ObjectKind::chunk, bytes_of("x"))};
  BOOST_TEST(
      (opened->commit(key_of(1), {&as_dir, 1}, mixed, plain_record("r")).error().kind == ErrorKind::invalid));
}

BOOST_AUTO_TEST_CASE(objects_larger_than_a_segment_come_back_whole) {
  const TempDir dir;
  auto opened = Store::open(dir.path());
  SampleObjects objects;
  const auto empty = objects.add_file("");
  sys::Bytes rows;  // one directory of 60,000 entries, about 2.9 MB
  for (unsigned i = 0; i < 60'000; ++i) {
    const std::string name = std::to_string(100'000 + i);
    sys::append(rows, sys::as_bytes(std::string_view("f\0\0\0\0\6\0", 7)));
    sys::append(rows, sys::as_bytes(name));
    sys::append(rows, empty.bytes);
  }
  const auto small = objects.add(ObjectKind::chunk, bytes_of("before"));
  const Root root{ObjectKind::dir, objects.add(ObjectKind::dir, rows)};
  const auto after = objects.add(ObjectKind::chunk, bytes_of("after"));
  BOOST_REQUIRE(opened->commit(key_of(1), {&root, 1}, objects, plain_record("r")).has_value());
  auto reader = opened->read();
  sys::Bytes scratch;
  const auto dir_object = reader->object("local", root.digest, scratch);
  BOOST_REQUIRE(dir_object.has_value());
  BOOST_TEST(std::equal(rows.begin(), rows.end(), dir_object->bytes.begin(), dir_object->bytes.end()));
  BOOST_TEST(sys::as_text(reader->object("local", small, scratch)->bytes) == "before");
  BOOST_TEST(sys::as_text(reader->object("local", after, scratch)->bytes) == "after");
}

BOOST_AUTO_TEST_CASE(the_map_grows_and_the_source_starts_over) {
  const TempDir dir;
  auto opened = Store::open(dir.path(), {.map_bytes = 1 << 20});
  SampleObjects objects;
  std::vector<sys::Digest> digests;
  for (uint32_t i = 0; i < 100; ++i)
    digests.push_back(objects.add(ObjectKind::chunk, random_bytes(kChunkBytes, i)));
  BOOST_REQUIRE(opened->commit(key_of(1), {}, objects, plain_record("r")).has_value());
  BOOST_TEST(objects.rewinds > 1);
  BOOST_TEST(opened->missing("local", digests)->empty());
  BOOST_TEST(opened->list()->size() == 1);
}

BOOST_AUTO_TEST_CASE(a_demand_has_one_sandbox_at_a_time) {
  const TempDir dir;
  auto opened = Store::open(dir.path());
  const SandboxRow first{"sb-1", "demand", "local", "default", "/run/turnbox/sb-1", 5};
  BOOST_TEST(opened->add_sandbox(first).value() == 1);
  SandboxRow second = first;
  second.id = "sb-2";
  const auto refused = opened->add_sandbox(second);
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().kind == ErrorKind::conflict));
  BOOST_TEST(refused.error().text.find("/run/turnbox/sb-1") != std::string::npos);
  BOOST_TEST(opened->sandboxes()->at(0).runtime_dir == "/run/turnbox/sb-1");
  BOOST_TEST(opened->erase_sandbox("sb-1").has_value());
  BOOST_TEST(opened->erase_sandbox("sb-1").has_value());  // a second time is fine
  BOOST_TEST(opened->add_sandbox(second).value() == 2);
}

BOOST_AUTO_TEST_CASE(a_fork_is_a_name_for_what_its_account_has) {
  const TempDir dir;
  auto opened = Store::open(dir.path());
  SampleObjects objects;
  const sys::Digest file = objects.add_file("kept");
  const Root root{ObjectKind::file, file};
  BOOST_REQUIRE(opened->commit(key_of(1), {&root, 1}, objects, plain_record("r")).has_value());
  WorkspaceRow row{.name = "fresh",
                   .account = "local",
                   .kind = ObjectKind::file,
                   .content = file,
                   .meta = file,
                   .origin = "a turn",
                   .created_ns = 7};
  BOOST_REQUIRE(opened->add_workspace(row).has_value());
  BOOST_TEST((opened->add_workspace(row).error().kind == sys::ErrorKind::conflict));
  const auto found = opened->find_workspace("fresh").value();
  BOOST_REQUIRE(found.has_value());
  BOOST_TEST((found->content == file));
  BOOST_TEST((found->kind == ObjectKind::file));
  BOOST_TEST(found->account == "local");
  BOOST_TEST(found->origin == "a turn");
  BOOST_TEST(found->created_ns == 7);
  SampleObjects none;
  WorkspaceRow moved = row;
  moved.origin = "a mount";
  BOOST_REQUIRE(opened->move_workspace(row, moved, none).has_value());
  BOOST_TEST((opened->move_workspace(row, moved, none).error().kind == sys::ErrorKind::conflict));
  WorkspaceRow unknown = moved;
  unknown.content.bytes[0] ^= std::byte{1};
  BOOST_TEST((opened->move_workspace(moved, unknown, none).error().kind == sys::ErrorKind::invalid));
  BOOST_TEST(opened->find_workspace("fresh").value()->origin == "a mount");
  BOOST_TEST((opened->find_workspace("fresh").value()->content == file));
  row.name = "other";
  row.account = "theirs";
  BOOST_TEST((opened->add_workspace(row).error().kind == sys::ErrorKind::invalid));
  row.account = "local";
  row.name = "No Name";
  BOOST_TEST(!opened->add_workspace(row).has_value());
  BOOST_TEST(opened->workspaces()->size() == 1u);
  BOOST_REQUIRE(opened->erase_workspace("fresh").has_value());
  BOOST_TEST((opened->erase_workspace("fresh").error().kind == sys::ErrorKind::not_found));
  BOOST_TEST(!opened->find_workspace("fresh").value().has_value());
}

BOOST_AUTO_TEST_CASE(names_are_checked) {
  const TempDir dir;
  auto opened = Store::open(dir.path());
  SampleObjects none;
  for (const char* bad : {"", "Upper", "two--hyphens", "-start", "end-", "sl/ash",
                          "a-name-that-is-far-too-long-to-fit-a-label"}) {
    const auto refused = opened->commit(key_of(1, bad), {}, none, plain_record("r"));
    BOOST_REQUIRE_MESSAGE(!refused.has_value(), bad);
    BOOST_TEST((refused.error().kind == ErrorKind::invalid));
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(object_source)

BOOST_AUTO_TEST_CASE(a_stream_is_read_over_several_memfds_and_again_from_the_start) {
  const auto piece = [](std::string_view text) {
    sys::Bytes stream;
    sys::append_le<uint32_t>(stream, 1);
    sys::append_le<uint32_t>(stream, static_cast<uint32_t>(text.size()));
    sys::append(stream, sys::digest_of("chunk", sys::as_bytes(text)).bytes);
    sys::append(stream, sys::as_bytes(text));
    return stream;
  };
  const std::vector<sys::Bytes> pieces{piece("one"), {}, piece("two")};
  size_t at = 0;
  StreamSource source([&](bool restart) -> sys::Result<std::optional<sys::Fd>> {
    if (restart) at = 0;
    if (at == pieces.size()) return std::optional<sys::Fd>();
    TRY_ASSIGN(sys::Fd fd, sys::memfd_with("test", pieces[at++]));
    return std::optional(std::move(fd));
  });
  for (int round = 0; round < 2; ++round) {
    BOOST_REQUIRE(source.rewind().has_value());
    BOOST_TEST(sys::as_text((*source.next())->bytes) == "one");
    BOOST_TEST(sys::as_text((*source.next())->bytes) == "two");
    BOOST_TEST(!source.next()->has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_cut_or_unsealed_stream_is_a_breach_of_protocol) {
  const auto first_error = [](sys::Fd fd) {
    auto given = std::make_optional(std::move(fd));
    StreamSource source(
        [&](bool) -> sys::Result<std::optional<sys::Fd>> { return std::exchange(given, std::nullopt); });
    BOOST_REQUIRE(source.rewind().has_value());
    const auto next = source.next();
    BOOST_REQUIRE(!next.has_value());
    return next.error().kind;
  };
  sys::Bytes head(40);
  head[0] = std::byte{1};
  head[4] = std::byte{200};  // promises more bytes than there are
  BOOST_TEST((first_error(*sys::memfd_with("test", head)) == ErrorKind::protocol));
  head[0] = std::byte{7};
  head[4] = std::byte{0};
  BOOST_TEST((first_error(*sys::memfd_with("test", head)) == ErrorKind::protocol));
  BOOST_TEST((first_error(*sys::make_memfd("test", 64)) == ErrorKind::protocol));
}

BOOST_AUTO_TEST_CASE(file_source_gives_children_first_and_a_list_level_above_1024_chunks) {
  const sys::Bytes content(kChunkBytes * 1'025 + 1, std::byte{'x'});
  FileSource source(content);
  const TempDir dir;
  auto opened = Store::open(dir.path());
  const Root root{ObjectKind::file, source.digest()};
  BOOST_REQUIRE(opened->commit(key_of(1), {&root, 1}, source, plain_record("r")).has_value());
  auto reader = opened->read();
  sys::Bytes scratch;
  const auto head = read_file_head(reader->object("local", source.digest(), scratch)->bytes);
  BOOST_TEST(head->size == content.size());
  BOOST_TEST(head->height == 1);
  BOOST_TEST(head->digests.size() == 64);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::store
