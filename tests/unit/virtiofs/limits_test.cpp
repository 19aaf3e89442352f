// What only a small limit shows: handles and nodes that one guest may hold, and what ends with its session.
#include <fcntl.h>
#include <linux/fuse.h>

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <map>

#include "fs/virtiofs/device.h"
#include "tests/unit/virtiofs/by_hand.h"

namespace turnbox::virtiofs {

namespace {

using support::FusePeer;
using support::FuseReply;
using support::pack;

struct Closing final : EventLog {
  fs::Expected<size_t> append(fs::Ino, uint64_t, std::span<const std::byte> bytes) override { return bytes.size(); }
  void closed(fs::Ino, uint64_t handle) override { handles.push_back(handle); }
  std::vector<uint64_t> handles;
};

struct Small {
  Small() {
    BOOST_REQUIRE(tree.create(root, "log",
                              {.type = fs::Type::regular, .mode = 0666, .target = {},
                               .zone = tree.add_zone({fs::ZoneState::writable, fs::ZoneUse::log})},
                              {.host = true}));
    BOOST_REQUIRE_EQUAL(peer.init().error, 0);
  }
  uint64_t make(const char* name) {
    const FuseReply made = peer.mkdir(1, name);
    BOOST_REQUIRE_EQUAL(made.error, 0);
    return made.as<fuse_entry_out>().nodeid;
  }

  fs::Tree tree{{.inodes = 50, .handles = 3}, [] { return fs::Time{.sec = 1, .nsec = 2}; }};
  fs::Ino root = tree.make_root(tree.add_zone({}), 0755);
  Closing events;
  Device device{tree,
                {.contract = Contract::turn, .root = root, .name = "test", .events = &events, .now = {},
                 .max_lookups = 5}};
  PeerByHand peer{device};
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(limits, Small)

BOOST_AUTO_TEST_CASE(handles_end_at_the_budget_and_come_back_with_release) {
  uint64_t last = 0;
  for (int i = 0; i < 3; ++i) {
    const FuseReply opened = peer.opendir(1);
    BOOST_TEST(opened.error == 0);
    last = opened.as<fuse_open_out>().fh;
  }
  BOOST_TEST(peer.opendir(1).error == ENFILE);
  BOOST_TEST(peer.create(1, "file").error == ENFILE);
  BOOST_TEST(peer.lookup(1, "file").as<fuse_entry_out>().nodeid == 0U);  // nothing was made
  const auto released = fuse_release_in{.fh = last, .flags = 0, .release_flags = 0, .lock_owner = 0};
  BOOST_TEST(peer.call(FUSE_RELEASEDIR, 1, pack(released)).error == 0);
  BOOST_TEST(peer.create(1, "file").error == 0);
  BOOST_TEST(device.open_handles() == 3U);
}

BOOST_AUTO_TEST_CASE(open_at_the_limit_does_not_truncate) {
  const FuseReply made = peer.create(1, "file");
  const auto node = made.as<fuse_entry_out>().nodeid;
  const auto handle = sys::load_le<fuse_open_out>(made.body.data() + sizeof(fuse_entry_out)).fh;
  BOOST_TEST(peer.write(node, handle, 0, "content").error == 0);
  BOOST_TEST(peer.opendir(1).error == 0);
  BOOST_TEST(peer.opendir(1).error == 0);
  BOOST_TEST(peer.open(node, O_WRONLY | O_TRUNC).error == ENFILE);
  BOOST_TEST(peer.getattr(node).as<fuse_attr_out>().attr.size == 7U);
}

BOOST_AUTO_TEST_CASE(nodes_end_at_the_limit_and_come_back_with_forget) {
  uint64_t last = 0;
  for (const char* name : {"a", "b", "c", "d", "e"}) last = make(name);
  BOOST_TEST(device.lookups() == 5U);
  BOOST_TEST(peer.mkdir(1, "f").error == ENFILE);
  BOOST_TEST(peer.lookup(1, "log").error == ENFILE);
  peer.forget(last, 1);
  BOOST_TEST(peer.mkdir(1, "f").error == 0);
}

BOOST_AUTO_TEST_CASE(inodes_end_at_the_budget) {
  int error = 0;
  for (int i = 0; i < 100 && error == 0; ++i) {
    const FuseReply made = peer.mkdir(1, "d" + std::to_string(i));
    error = made.error;
    if (error == 0) peer.forget(made.as<fuse_entry_out>().nodeid, 1);
  }
  BOOST_TEST(error == ENOSPC);
  BOOST_TEST(peer.call(FUSE_STATFS, 1, {}).as<fuse_statfs_out>().st.ffree == 0U);
}

BOOST_AUTO_TEST_CASE(reset_gives_back_nodes_and_handles_and_ends_the_session) {
  const uint64_t made = make("a");
  const FuseReply file = peer.create(1, "file");
  const auto node = file.as<fuse_entry_out>().nodeid;
  BOOST_TEST(peer.unlink(1, "file").error == 0);
  const uint64_t inodes = tree.usage().inodes;
  device.reset();
  BOOST_TEST(device.lookups() == 0U);
  BOOST_TEST(device.open_handles() == 0U);
  BOOST_TEST(peer.getattr(1).error == EIO);
  BOOST_TEST(!tree.getattr(node));  // nobody held the nameless file any more
  BOOST_TEST(tree.usage().inodes == inodes - 1);
  BOOST_TEST(tree.getattr(made).has_value());
}

BOOST_AUTO_TEST_CASE(log_hears_of_every_handle_that_ends) {
  const uint64_t log = peer.walk("log");
  const uint64_t one = peer.open(log, O_WRONLY | O_APPEND).as<fuse_open_out>().fh;
  const uint64_t two = peer.open(log, O_WRONLY | O_APPEND).as<fuse_open_out>().fh;
  BOOST_TEST(peer.release(log, one).error == 0);
  BOOST_TEST(events.handles.size() == 1U);
  BOOST_TEST(peer.release(log, one).error == 0);
  BOOST_TEST(events.handles.size() == 1U);
  device.reset();
  BOOST_REQUIRE_EQUAL(events.handles.size(), 2U);
  BOOST_TEST(events.handles[0] == one);
  BOOST_TEST(events.handles[1] == two);
}

BOOST_AUTO_TEST_CASE(counters_tell_what_was_asked) {
  peer.getattr(1);
  peer.getattr(1);
  peer.getattr(99);
  std::map<std::string, uint64_t> seen;
  device.each_counter([&](const char* name, uint64_t value) { seen[name] = value; });
  BOOST_TEST(seen["op_getattr"] == 3U);
  BOOST_TEST(seen["unknown_nodes"] == 1U);
  BOOST_TEST(seen["errors"] == 1U);
  BOOST_TEST(!seen.contains("op_mkdir"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::virtiofs
