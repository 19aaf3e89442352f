#include "tests/guest/fs/cases.h"

namespace turnbox::fs_cases {

namespace {

std::string case_name() { return boost::unit_test::framework::current_test_case().p_name.get(); }

unsigned epoch = 1;  // of the workspace; the case that makes a new one counts it up

std::string epoch_path() { return "ws/" + std::to_string(epoch); }

}  // namespace

void count_epoch() { ++epoch; }

FuseHost& host() {
  static const std::unique_ptr<FuseHost> only = [] {
    auto made = support::make_fuse_host();
    made->begin_turn();
    return made;
  }();
  return *only;
}

Workspace::Workspace() : peer(host().workspace()) {
  BOOST_REQUIRE_EQUAL(peer.init().error, 0);
  const uint64_t top = peer.walk(epoch_path());
  BOOST_REQUIRE_NE(top, 0U);
  const FuseReply made = peer.mkdir(top, case_name());
  BOOST_REQUIRE_EQUAL(made.error, 0);
  dir = node_of(made);
}

Workspace::~Workspace() {
  BOOST_CHECK(host().alive());
  BOOST_CHECK_EQUAL(peer.init().error, 0);
  const uint64_t top = peer.walk(epoch_path());
  BOOST_CHECK_NE(top, 0U);
  BOOST_CHECK_EQUAL(peer.mkdir(top, case_name() + ".after").error, 0);
}

std::string Workspace::read_all(uint64_t node) {
  std::string all;
  while (true) {
    const FuseReply reply = peer.read(node, 0, all.size(), 65'536);
    BOOST_REQUIRE_EQUAL(reply.error, 0);
    if (reply.body.empty()) return all;
    all += reply.text();
  }
}

Turn::Turn() : peer(host().turn()) { BOOST_REQUIRE_EQUAL(peer.init().error, 0); }

Turn::~Turn() {
  BOOST_CHECK(host().alive());
  BOOST_CHECK_EQUAL(peer.init().error, 0);
  BOOST_CHECK_NE(peer.walk(FuseHost::in_turn("stages/01-run")), 0U);
}

uint64_t Turn::outputs() {
  const uint64_t node = peer.walk(FuseHost::in_turn("stages/01-run/outputs"));
  BOOST_REQUIRE_NE(node, 0U);
  return node;
}

uint64_t Turn::events() {
  const uint64_t node = peer.walk(FuseHost::in_turn("events"));
  BOOST_REQUIRE_NE(node, 0U);
  return node;
}

}  // namespace turnbox::fs_cases
