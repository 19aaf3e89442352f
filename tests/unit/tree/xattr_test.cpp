#include "fs/tree/diff.h"
#include "tests/unit/tree/fixture.h"

namespace turnbox::fs {
namespace {

using Mode = Tree::XattrMode;

struct WithXattrs : Fixture {
  using Fixture::Fixture;
  int set(Ino ino, const std::string& name, const std::string& value, Mode mode = Mode::either) {
    return error_of(tree.setxattr(ino, name, std::as_bytes(std::span(value)), mode, guest));
  }
  static std::string get(const View& view, Ino ino, const std::string& name) {
    const auto value = view.getxattr(ino, name);
    if (!value) return "errno " + std::to_string(error_of(value));
    return {reinterpret_cast<const char*>(value->data()), value->size()};
  }
  static std::string list(const View& view, Ino ino) {
    std::string all;
    BOOST_TEST(view.listxattr(ino, [&all](std::string_view name) { return all.append(name) += ' ', true; })
                   .has_value());
    return all;
  }
};

BOOST_FIXTURE_TEST_SUITE(xattrs, WithXattrs)

BOOST_AUTO_TEST_CASE(are_set_replaced_listed_in_order_and_removed) {
  const Ino a = file(root, "a");
  BOOST_TEST(set(a, "user.two", "2") == 0);
  BOOST_TEST(set(a, "trusted.one", std::string("\0bytes", 6)) == 0);
  BOOST_TEST(set(a, "security.three", "") == 0);
  BOOST_TEST(list(tree, a) == "security.three trusted.one user.two ");
  BOOST_TEST(get(tree, a, "trusted.one") == std::string("\0bytes", 6));
  BOOST_TEST(get(tree, a, "security.three") == "");
  BOOST_TEST(set(a, "user.two", "a longer value") == 0);
  BOOST_TEST(get(tree, a, "user.two") == "a longer value");
  BOOST_TEST(tree.usage().xattr_bytes == 8u + 14 + 11 + 6 + 14);
  BOOST_TEST(error_of(tree.removexattr(a, "trusted.one", guest)) == 0);
  BOOST_TEST(error_of(tree.removexattr(a, "trusted.one", guest)) == ENODATA);
  BOOST_TEST(get(tree, a, "trusted.one") == "errno " + std::to_string(ENODATA));
  BOOST_TEST(list(tree, a) == "security.three user.two ");
}

BOOST_AUTO_TEST_CASE(modes_and_names) {
  const Ino a = file(root, "a");
  BOOST_TEST(set(a, "user.x", "1", Mode::replace) == ENODATA);
  BOOST_TEST(set(a, "user.x", "1", Mode::create) == 0);
  BOOST_TEST(set(a, "user.x", "2", Mode::create) == EEXIST);
  BOOST_TEST(set(a, "user.x", "3", Mode::replace) == 0);
  BOOST_TEST(get(tree, a, "user.x") == "3");
  BOOST_TEST(set(a, "system.posix_acl_access", "x") == EOPNOTSUPP);
  BOOST_TEST(set(a, "other", "x") == EOPNOTSUPP);
  BOOST_TEST(set(a, "", "x") == EINVAL);
  BOOST_TEST(set(a, "user.", "x") == EINVAL);
  BOOST_TEST(set(a, "user." + std::string(250, 'n'), "x") == 0);
  BOOST_TEST(set(a, "user." + std::string(251, 'n'), "x") == ERANGE);
  BOOST_TEST(error_of(tree.getxattr(a, "system.x")) == EOPNOTSUPP);
  BOOST_TEST(error_of(tree.removexattr(a, "system.x", guest)) == EOPNOTSUPP);
  BOOST_TEST(error_of(tree.getxattr(999, "user.x")) == ENOENT);
}

BOOST_AUTO_TEST_CASE(a_value_of_64_kib_and_no_more) {
  const Ino a = file(root, "a");
  const std::string large(65536, 'v'), middle(8000, 'm');
  BOOST_TEST(set(a, "user.large", large) == 0);
  BOOST_TEST(set(a, "user.middle", middle) == 0);
  BOOST_TEST((get(tree, a, "user.large") == large));
  BOOST_TEST((get(tree, a, "user.middle") == middle));
  BOOST_TEST(set(a, "user.large", large + "v") == E2BIG);
  BOOST_TEST((get(tree, a, "user.large") == large));
  BOOST_TEST(tree.memory().node_bytes > 65536u);
  BOOST_TEST(error_of(tree.unlink(root, "a", guest)) == 0);
  while (tree.reclaim(1000)) {
  }
  BOOST_TEST(tree.memory().node_bytes < 4096u);
  BOOST_TEST(tree.usage().xattr_bytes == 0u);
}

BOOST_AUTO_TEST_CASE(one_inode_has_bounds) {
  const Ino a = file(root, "a"), b = file(root, "b");
  for (int i = 0; i < 1000; ++i) BOOST_REQUIRE(set(a, "user.n" + std::to_string(i), "v") == 0);
  BOOST_TEST(set(a, "user.more", "v") == ENOSPC);
  BOOST_TEST(set(a, "user.n7", "other") == 0);
  const std::string large(65536 - 10, 'v');
  for (int i = 0; i < 16; ++i)
    BOOST_REQUIRE(set(b, "user." + std::string(1, static_cast<char>('a' + i)), large) == 0);
  BOOST_TEST(set(b, "user.q", large) == ENOSPC);
  BOOST_TEST(set(b, "user.q", "small") == 0);
}

BOOST_AUTO_TEST_CASE(a_snapshot_keeps_what_was) {
  const Ino a = file(root, "a");
  set(a, "user.x", "old");
  Snapshot before = tree.snapshot();
  set(a, "user.x", "new");
  set(a, "user.y", "more");
  BOOST_TEST(get(before, a, "user.x") == "old");
  BOOST_TEST(list(before, a) == "user.x ");
  BOOST_TEST(get(tree, a, "user.x") == "new");
  std::string seen;
  Snapshot after = tree.snapshot();
  diff(before, root, after, root, [&seen](Change change, Type, std::string_view path) {
    seen += static_cast<char>(change);
    seen += path;
  });
  BOOST_TEST(seen == "~a");
  set(a, "user.x", "old");
  BOOST_TEST(error_of(tree.removexattr(a, "user.y", guest)) == 0);
  seen.clear();
  Snapshot back = tree.snapshot();
  diff(before, root, back, root, [&seen](Change, Type, std::string_view path) { seen += path; });
  BOOST_TEST(seen == "");
}

BOOST_AUTO_TEST_CASE(a_clone_has_them_and_counts_them) {
  const Ino top = dir(root, "top"), a = file(top, "a");
  set(a, "user.x", "value");
  set(top, "user.d", "of the directory");
  const uint64_t once = tree.usage().xattr_bytes;
  const Attr copy = tree.clone(tree, top, root, "copy", 0).value();
  BOOST_TEST(tree.usage().xattr_bytes == 2 * once);
  const Ino b = tree.lookup(copy.ino, "a").value().ino;
  BOOST_TEST(get(tree, b, "user.x") == "value");
  BOOST_TEST(get(tree, copy.ino, "user.d") == "of the directory");
  set(b, "user.x", "changed");
  BOOST_TEST(get(tree, a, "user.x") == "value");
}

BOOST_AUTO_TEST_CASE(what_kills_suid_drops_the_capability) {
  const Ino a = file(root, "a", "content", 04755);
  const auto arm = [&] {
    BOOST_TEST(set(a, "security.capability", "caps") == 0);
    BOOST_TEST(set(a, "user.stays", "yes") == 0);
  };
  const std::string gone = "errno " + std::to_string(ENODATA);
  arm();
  write(a, 0, "x");
  BOOST_TEST(get(tree, a, "security.capability") == "caps");  // the kernel says when
  write(a, 0, "x", true);
  BOOST_TEST(get(tree, a, "security.capability") == gone);
  arm();
  BOOST_TEST(error_of(tree.setattr(a, {.valid = SetAttr::kUid, .uid = 5}, guest)) == 0);
  BOOST_TEST(get(tree, a, "security.capability") == gone);
  arm();
  const SetAttr cut{.valid = SetAttr::kSize | SetAttr::kKillSuidgid, .size = 1};
  BOOST_TEST(error_of(tree.setattr(a, cut, guest)) == 0);
  BOOST_TEST(get(tree, a, "security.capability") == gone);
  BOOST_TEST(get(tree, a, "user.stays") == "yes");
  BOOST_TEST(tree.getattr(a).value().mode == 0755);
}

BOOST_AUTO_TEST_CASE(a_sealed_zone_refuses_and_a_change_moves_ctime) {
  const ZoneId zone = tree.add_zone({});
  const Ino top = tree.make_root(zone, 0755), a = file(top, "a");
  now = {2000, 5};
  BOOST_TEST(set(a, "user.x", "1") == 0);
  BOOST_TEST((tree.getattr(a).value().ctime == now));
  BOOST_TEST(tree.getattr(a).value().mtime.sec == 1000);
  tree.set_zone_state(zone, ZoneState::sealed);
  BOOST_TEST(set(a, "user.x", "2") == EROFS);
  BOOST_TEST(error_of(tree.removexattr(a, "user.x", guest)) == EROFS);
  BOOST_TEST(get(tree, a, "user.x") == "1");
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_CASE(the_budget_of_xattr_bytes_is_exact_and_comes_back) {
  WithXattrs at({.xattr_bytes = 20});
  const Ino a = at.file(at.root, "a"), b = at.file(at.root, "b");
  BOOST_TEST(at.set(a, "user.x", "12345678") == 0);  // 14
  BOOST_TEST(at.set(b, "user.y", "1") == ENOSPC);    // 7 more
  BOOST_TEST(at.set(b, "user.y", "") == 0);          // 6 more
  BOOST_TEST(at.set(b, "user.y", "1") == ENOSPC);
  BOOST_TEST(at.set(a, "user.x", "1234567") == 0);
  BOOST_TEST(at.set(b, "user.y", "1") == 0);
  BOOST_TEST(at.tree.usage().xattr_bytes == 20u);
  BOOST_TEST(error_of(at.tree.unlink(at.root, "a", at.guest)) == 0);
  BOOST_TEST(at.tree.usage().xattr_bytes == 7u);
  BOOST_TEST(at.set(b, "user.z", "1234567") == 0);
}

}  // namespace
}  // namespace turnbox::fs
