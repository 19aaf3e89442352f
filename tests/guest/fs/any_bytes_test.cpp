// Messages that no rule above names: random bytes in random shapes. The seed is printed; TURNBOX_SEED repeats a run.
#include <cstdlib>
#include <random>

#include "tests/guest/fs/cases.h"

namespace turnbox::fs_cases {

namespace {

class Messages {
 public:
  explicit Messages(unsigned seed) : random_(seed) {}

  sys::Bytes next(FusePeer& peer) {
    const auto opcode = static_cast<uint32_t>(pick(56));
    sys::Bytes arguments(pick(4) == 0 ? pick(5000) : pick(8) * 8);
    for (auto& byte : arguments) byte = static_cast<std::byte>(pick(3) == 0 ? random_() : pick(2) * pick(5));
    if (pick(2) == 0) sys::append(arguments, pack(name()));
    if (pick(4) == 0) sys::append(arguments, pack(name()));
    return peer.message(opcode, node(), arguments, [this](fuse_in_header& head) {
      if (pick(10) == 0) head.len = static_cast<uint32_t>(random_());
      if (pick(20) == 0) head.unique = 0;
      if (pick(20) == 0) std::memset(&head.pid, static_cast<int>(pick(256)), 8);
    });
  }
  size_t room() {
    const size_t rooms[] = {0, 15, 16, 17, 100, 144, 160, 4096, 70'000};
    return rooms[pick(std::size(rooms))];
  }
  unsigned queue() { return pick(10) == 0 ? FusePeer::kHiprio : FusePeer::kRequests; }
  uint64_t pick(uint64_t below) { return std::uniform_int_distribution<uint64_t>(0, below - 1)(random_); }
  void learn(const FuseReply& reply) {
    if (reply.error != 0 || reply.body.size() < sizeof(fuse_entry_out)) return;
    nodes_[pick(nodes_.size())] = node_of(reply);
  }
  std::vector<uint64_t>& nodes() { return nodes_; }

 private:
  std::string name() { return std::string(1 + (pick(50) == 0 ? pick(300) : 0), static_cast<char>('a' + pick(6))); }
  uint64_t node() { return pick(10) == 0 ? random_() : nodes_[pick(nodes_.size())]; }

  std::mt19937_64 random_;
  std::vector<uint64_t> nodes_ = std::vector<uint64_t>(8, kRoot);
};

void storm(FusePeer& peer, uint64_t start, unsigned count) {
  const char* given = std::getenv("TURNBOX_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::atoi(given)) : std::random_device{}();
  BOOST_TEST_MESSAGE("TURNBOX_SEED=" << seed);
  Messages messages(seed);
  messages.nodes().assign(8, start);
  messages.nodes()[0] = kRoot;
  for (unsigned i = 0; i < count; ++i) {
    const size_t room = messages.room();
    const FuseReply reply = peer.send(messages.next(peer), room, messages.queue());
    if (reply.used > room || (reply.used != 0 && reply.used != reply.length)) {
      BOOST_FAIL("seed " << seed << ", message " << i << ": used.len " << reply.used << ", header " << reply.length);
    }
    if (reply.error < 0 || reply.error > 4095) BOOST_FAIL("seed " << seed << ": errno " << reply.error);
    messages.learn(reply);
    if (reply.error == EIO) peer.init();  // a DESTROY was among them
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(any_bytes)

BOOST_FIXTURE_TEST_CASE(workspace_answers_or_consumes_every_message, Workspace) { storm(peer, dir, 30'000); }

BOOST_FIXTURE_TEST_CASE(turn_answers_or_consumes_every_message, Turn) { storm(peer, outputs(), 30'000); }

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs_cases
