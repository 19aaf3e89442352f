// The tree's own digests and objects against the golden ones, which were made from docs/RECORD.md without it.
#include <boost/test/unit_test.hpp>

#include "broker/turn/ledger.h"
#include "broker/turn/verify.h"
#include "fs/tree/digest.h"
#include "fs/tree/import.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/record/golden.h"

namespace turnbox::turn {

BOOST_AUTO_TEST_CASE(an_imported_tree_has_the_golden_digest_and_its_objects_make_a_record_that_verifies) {
  fs::Tree tree(fs::Budget{}, [] { return fs::Time{}; });
  const fs::Ino root = tree.make_root(0, 0755);
  fs::Importer importer(tree, root, "workspace", 0);
  BOOST_REQUIRE(importer.feed(sys::as_bytes(golden("tree.import"))).has_value());
  BOOST_REQUIRE(importer.finish().has_value());
  fs::Snapshot snapshot = tree.snapshot();
  fs::DigestCache cache;
  const auto digest = fs::digest_tree(snapshot, importer.root(), cache);
  BOOST_REQUIRE(digest.has_value());
  BOOST_TEST(sys::to_hex(digest->content) + "\n" == golden("tree.digest"));
  BOOST_TEST(sys::to_hex(digest->meta) + "\n" == golden("tree.meta"));  // its xattrs are there

  sys::Bytes stream;
  const auto emitted = fs::emit_objects(
      snapshot, importer.root(), cache, [](fs::ObjectKind, const sys::Digest&) { return true; },
      [&](fs::ObjectKind kind, const sys::Digest& name, sys::ByteSpan bytes) {
        sys::append_le(stream, static_cast<uint32_t>(kind));
        sys::append_le(stream, static_cast<uint32_t>(bytes.size()));
        sys::append(stream, name.bytes);
        sys::append(stream, bytes);
      });
  BOOST_REQUIRE(emitted.has_value());
  tree.release(std::move(snapshot));

  const test::TempDir dir;
  auto ledger = Ledger::open(dir.path());
  BOOST_REQUIRE(ledger.has_value());
  store::StreamSource objects([&](bool restart) -> sys::Result<std::optional<sys::Fd>> {
    if (!restart) return std::optional<sys::Fd>();
    TRY_ASSIGN(sys::Fd fd, sys::memfd_with("objects", stream));
    return std::optional(std::move(fd));
  });
  Draft draft = golden_first();
  draft.workspace_after = TreeRef{store::ObjectKind::dir, digest->content, digest->meta};
  const auto kept = ledger->commit(draft, objects);
  BOOST_REQUIRE_MESSAGE(kept.has_value(), (kept ? "" : kept.error().text));
  const auto result = verify(*ledger, draft.turn);
  BOOST_REQUIRE(result.has_value());
  for (const auto& finding : result->findings) BOOST_ERROR(finding.what + ": " + finding.text);
  BOOST_TEST(result->objects > 20);
}

}  // namespace turnbox::turn
