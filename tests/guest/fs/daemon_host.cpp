// The cases' other side as in a sandbox: turnbox-fsd, started from descriptors, behind real rings.
#include "tests/support/fake_front_end.h"
#include "tests/support/fsd.h"
#include "tests/support/fuse_host.h"

namespace turnbox::support {

namespace {

template <typename T>
T must(sys::Result<T> result) {
  if (!result) give_up(result.error().text);
  return std::move(*result);
}

// As a guest's kernel lays a request out: header, arguments, then payload and reply in pages.
class PeerOnRings final : public FusePeer {
 public:
  explicit PeerOnRings(const std::string& path)
      : front_end_(path, {.memory = 64 << 20, .queues = 2, .queue_size = 1024}) {
    front_end_.handshake();
  }

  sys::Bytes exchange(std::span<const std::byte> readable, size_t room, unsigned queue) override {
    std::vector<sys::ByteSpan> reads;
    cut(readable.size(), {40, 40}, [&](size_t at, size_t size) { reads.push_back(readable.subspan(at, size)); });
    std::vector<size_t> writes;
    cut(room, {16}, [&](size_t, size_t size) { writes.push_back(size); });
    const uint16_t head = front_end_.post(queue, reads, writes, ++count_ % 2 == 0);
    const auto done = front_end_.next(queue);
    if (!done) give_up("turnbox-fsd did not answer a request");
    if (done->head != head) give_up("turnbox-fsd used another chain than the one that was posted");
    return done->bytes;
  }

 private:
  template <typename Visit>
  static void cut(size_t size, std::initializer_list<size_t> first, const Visit& visit) {
    size_t at = 0;
    for (const size_t part : first) {
      if (at == size) return;
      const size_t taken = std::min(part, size - at);
      visit(at, taken);
      at += taken;
    }
    for (; at < size; at += 4096) visit(at, std::min(size_t{4096}, size - at));
  }

  FakeFrontEnd front_end_;
  unsigned count_ = 0;
};

class DaemonHost final : public FuseHost {
 public:
  DaemonHost()
      : workspace_(std::make_unique<PeerOnRings>(fsd_.workspace_socket())),
        turn_(std::make_unique<PeerOnRings>(fsd_.turn_socket())) {}

  FusePeer& workspace() override { return *workspace_; }
  FusePeer& turn() override { return *turn_; }
  bool alive() override { return fsd_.alive(); }

  void begin_turn() override {
    must(fsd_.client().turn_begin({.turn = kTurn, .demand = "cases", .thread = "main", .thread_seq = 1, .tier = "emulated",
                              .inputs = {}}));
    must(fsd_.client().stage_begin(kTurn, "run"));
  }
  void seal_stage() override { must(fsd_.client().stage_seal(kTurn, "run")); }
  void new_epoch() override { must(fsd_.client().workspace_epoch()); }
  uint64_t counter(const std::string& device, const std::string& name) override {
    const auto stats = must(fsd_.client().stats());
    const auto& counters = stats.at(device).as_object();
    const auto* value = counters.if_contains(name);
    return value == nullptr ? 0 : value->to_number<uint64_t>();
  }

 private:
  Fsd fsd_;
  std::unique_ptr<PeerOnRings> workspace_, turn_;
};

}  // namespace

std::unique_ptr<FuseHost> make_fuse_host() { return std::make_unique<DaemonHost>(); }

}  // namespace turnbox::support
