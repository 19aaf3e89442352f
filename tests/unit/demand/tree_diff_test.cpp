// Two stored trees compared by digests.
#include <boost/test/unit_test.hpp>

#include "tests/unit/demand/host_versions.h"

namespace turnbox::demand {
namespace {

sys::Bytes content(const std::string& text) {
  sys::Bytes body;
  sys::append_le(body, static_cast<uint64_t>(text.size()));
  sys::append_le(body, uint64_t{0});
  sys::append_le(body, static_cast<uint32_t>(text.size()));
  sys::append(body, sys::as_bytes(text));
  return body;
}

std::vector<std::string> diff(const turn::StoredTree& from, const turn::StoredTree& to) {
  std::vector<std::string> rows;
  const auto done = turn::diff_trees(from, to, [&](const turn::TreeChange& change) -> sys::Status {
    rows.push_back(std::string(1, change.change) + change.type + " " + change.path +
                   (change.old_mode ? " mode" : "") + (change.content ? "" : " only"));
    return {};
  });
  BOOST_REQUIRE(done.has_value());
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tree_diff)

BOOST_AUTO_TEST_CASE(every_change_is_told_once_in_the_order_of_the_walk) {
  Versions versions;
  const turn::StoredTree one = versions.of_stream([](ImportStream& out) {
    (void)out.put({.type = 'd', .mode = 0755}, "");
    (void)out.put({.type = 'd', .mode = 0755}, "dir");
    (void)out.put({.type = 'f', .mode = 0644}, "dir/gone", content("x"));
    (void)out.put({.type = 'f', .mode = 0644}, "dir/same", content("x"));
    (void)out.put({.type = 'f', .mode = 0644}, "edit", content("x"));
    (void)out.put({.type = 'd', .mode = 0755}, "flip");
    (void)out.put({.type = 'f', .mode = 0644}, "flip/in", content("x"));
    (void)out.put({.type = 'f', .mode = 0644}, "mode", content("x"));
    (void)out.put({.type = 'l', .mode = 0777}, "to-file", sys::as_bytes(std::string_view("x")));
  });
  const turn::StoredTree two = versions.of_stream([](ImportStream& out) {
    (void)out.put({.type = 'd', .mode = 0755, .mtime_sec = 5}, "");
    (void)out.put({.type = 'd', .mode = 0700}, "dir");
    (void)out.put({.type = 'f', .mode = 0644, .mtime_sec = 9}, "dir/same", content("x"));
    (void)out.put({.type = 'd', .mode = 0755}, "dir-2");
    (void)out.put({.type = 'f', .mode = 0644}, "dir-2/new", content("x"));
    (void)out.put({.type = 'f', .mode = 0600}, "edit", content("y"));
    (void)out.put({.type = 'f', .mode = 0644}, "flip", content("x"));
    (void)out.put({.type = 'f', .mode = 0755}, "mode", content("x"));
    (void)out.put({.type = 'f', .mode = 0777}, "to-file", content("x"));
  });
  const std::vector<std::string> expected{"~d dir mode only",  "-f dir/gone", "+d dir-2",   "+f dir-2/new",
                                          "~f edit mode",      "-d flip",     "-f flip/in", "+f flip",
                                          "~f mode mode only", "~f to-file"};
  const auto told = diff(one, two);
  BOOST_CHECK_EQUAL_COLLECTIONS(told.begin(), told.end(), expected.begin(), expected.end());
  BOOST_TEST(diff(one, one).empty());
  BOOST_TEST(diff(two, one).size() == expected.size());
}

BOOST_AUTO_TEST_CASE(depth_costs_no_stack) {
  Versions versions;
  const auto deep = [](int levels) {
    return [levels](ImportStream& out) {
      (void)out.put({.type = 'd', .mode = 0755}, "");
      std::string path;
      for (int i = 0; i < levels; ++i) {
        path += i == 0 ? "d" : "/d";
        (void)out.put({.type = 'd', .mode = 0755}, path);
      }
    };
  };
  const turn::StoredTree one = versions.of_stream(deep(0)), two = versions.of_stream(deep(4'000));
  BOOST_TEST(diff(one, two).size() == 4'000u);
  BOOST_TEST(diff(two, one).size() == 4'000u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::demand
