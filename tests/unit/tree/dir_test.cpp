#include <random>
#include <set>

#include "fs/tree/name_hash.h"
#include "tests/unit/tree/fixture.h"

namespace turnbox::fs {

BOOST_FIXTURE_TEST_SUITE(directory, Fixture)

BOOST_AUTO_TEST_CASE(a_large_directory_grows_and_shrinks_by_any_order) {
  std::vector<std::string> all;
  for (int i = 0; i < 20'000; ++i)
    all.push_back("name-" + std::to_string(i) + std::string(static_cast<size_t>(i % 200), 'x'));
  for (const auto& name : all) file(root, name);
  BOOST_TEST(tree.getattr(root)->size == all.size());
  for (const auto& name : all) BOOST_REQUIRE(tree.lookup(root, name).has_value());
  std::mt19937 random(1);
  std::shuffle(all.begin(), all.end(), random);
  while (!all.empty()) {
    BOOST_REQUIRE(tree.unlink(root, all.back(), guest).has_value());
    all.pop_back();
    if (all.size() % 997 == 0) {
      BOOST_REQUIRE(names(tree, root).size() == all.size());
      for (const auto& name : all) BOOST_REQUIRE(tree.lookup(root, name).has_value());
    }
  }
  BOOST_TEST(names(tree, root).empty());
  while (tree.reclaim(1000)) {
  }
  BOOST_TEST(tree.memory().node_bytes < 1024u);
}

BOOST_AUTO_TEST_CASE(a_listing_that_is_resumed_sees_each_staying_name_once) {
  for (int i = 0; i < 1000; ++i) file(root, "stays-" + std::to_string(i));
  for (int i = 0; i < 1000; ++i) file(root, "goes-" + std::to_string(i));
  std::multiset<std::string> seen;
  uint64_t cookie = 0;
  int made = 0;
  for (bool more = true; more;) {
    more = false;
    std::vector<std::string> batch;
    (void)tree.readdir(root, cookie, [&](const Dirent& entry) {
      if (batch.size() == 10) return more = true, false;
      batch.emplace_back(entry.name);
      cookie = entry.cookie;
      return true;
    });
    for (const auto& name : batch) {
      if (name.starts_with("stays")) seen.insert(name);
      if (name.starts_with("goes")) (void)tree.unlink(root, name, guest);
    }
    file(root, "comes-" + std::to_string(made++));
  }
  BOOST_TEST(seen.size() == 1000u);
  BOOST_TEST(std::set<std::string>(seen.begin(), seen.end()).size() == 1000u);
}

BOOST_AUTO_TEST_CASE(cookies_depend_on_names_alone) {
  Fixture other;
  for (const char* name : {"a", "b", "c"}) file(root, name);
  for (const char* name : {"c", "x", "a"}) other.file(other.root, name);
  const auto cookie = [](const View& view, Ino dir, std::string_view name) {
    uint64_t found = 0;
    (void)view.readdir(
        dir, 0, [&](const Dirent& entry) { return found = entry.name == name ? entry.cookie : found, true; });
    return found;
  };
  for (const char* name : {"a", "c"}) {
    BOOST_TEST(cookie(tree, root, name) == cookie(other.tree, other.root, name));
    BOOST_TEST(cookie(tree, root, name) == name_cookie(name));
  }
}

BOOST_AUTO_TEST_CASE(the_hash_is_fixed_for_ever) {
  // SipHash-2-4 of these names with the key "1xobnrut", "redrorid" as it stands; a change would reorder
  // listings.
  BOOST_TEST(name_cookie("a") % kRanks == 0u);
  BOOST_TEST(name_cookie("a") != name_cookie("b"));
  BOOST_TEST(name_cookie(std::string(255, 'x')) >= kRanks);
}

BOOST_AUTO_TEST_CASE(lookups_of_dots_are_the_doors_business) {
  BOOST_TEST(error_of(tree.lookup(root, ".")) == EINVAL);
  BOOST_TEST(error_of(tree.lookup(root, "..")) == EINVAL);
  BOOST_TEST(tree.parent(root).value() == root);
  BOOST_TEST(error_of(tree.parent(file(root, "f"))) == ENOTDIR);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs
