#include "tests/unit/tree/fixture.h"

namespace turnbox::fs {

BOOST_FIXTURE_TEST_SUITE(zones, Fixture)

BOOST_AUTO_TEST_CASE(sealed_refuses_every_guest_mutation_and_lets_the_host_pass) {
  const ZoneId zone = tree.add_zone({});
  const Ino box = tree.create(root, "box", {.type = Type::directory, .mode = 0777, .zone = zone}, host)->ino;
  const Ino f = file(box, "f", "content");
  dir(box, "d");
  BOOST_TEST(tree.getattr(f)->zone == zone);
  tree.set_zone_state(zone, ZoneState::sealed);
  BOOST_TEST(error_of(tree.create(box, "x", {.mode = 0644}, guest)) == EROFS);
  BOOST_TEST(error_of(tree.unlink(box, "f", guest)) == EROFS);
  BOOST_TEST(error_of(tree.rmdir(box, "d", guest)) == EROFS);
  BOOST_TEST(error_of(tree.rename(box, "f", box, "g", 0, guest)) == EROFS);
  BOOST_TEST(error_of(tree.link(f, box, "g", guest)) == EROFS);
  BOOST_TEST(error_of(put(f, 0, "x")) == EROFS);
  BOOST_TEST(error_of(resize(f, 0)) == EROFS);
  BOOST_TEST(error_of(tree.reachable(f)) == 0);
  BOOST_TEST(read(tree, f) == "content");
  BOOST_TEST(error_of(tree.create(box, "by host", {.mode = 0644}, host)) == 0);
  BOOST_TEST(error_of(tree.setattr(f, {.valid = SetAttr::kMode, .mode = 0400}, host)) == 0);
}

BOOST_AUTO_TEST_CASE(stale_answers_estale) {
  const ZoneId zone = tree.add_zone({});
  const Ino old = tree.make_root(zone, 0755);
  const Ino f = file(old, "f");
  tree.set_zone_state(zone, ZoneState::stale);
  BOOST_TEST(error_of(tree.reachable(f)) == ESTALE);
  BOOST_TEST(error_of(put(f, 0, "x")) == ESTALE);
  BOOST_TEST(error_of(tree.create(old, "g", {.mode = 0644}, guest)) == ESTALE);
  BOOST_TEST(error_of(tree.reachable(9999)) == ENOENT);
}

BOOST_AUTO_TEST_CASE(names_do_not_cross_zones_but_for_the_host) {
  const Ino other = tree.make_root(tree.add_zone({}), 0755);
  const Ino f = file(root, "f");
  BOOST_TEST(error_of(tree.link(f, other, "f", guest)) == EXDEV);
  BOOST_TEST(error_of(tree.rename(root, "f", other, "f", 0, guest)) == EXDEV);
  BOOST_REQUIRE(tree.rename(root, "f", other, "f", 0, host));
  BOOST_TEST(tree.getattr(f)->zone == 0u);
}

BOOST_AUTO_TEST_CASE(only_the_host_chooses_a_zone) {
  const ZoneId zone = tree.add_zone({});
  BOOST_TEST(error_of(tree.create(root, "x", {.mode = 0644, .zone = zone}, guest)) == EINVAL);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs
