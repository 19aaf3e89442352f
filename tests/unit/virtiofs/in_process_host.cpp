// The cases' other side without a daemon: tree, /turn and both devices in this process.
#include <ctime>

#include "fs/turn/turns.h"
#include "fs/turn/workspace.h"
#include "fs/virtiofs/device.h"
#include "tests/support/fuse_host.h"
#include "tests/unit/virtiofs/by_hand.h"

namespace turnbox::support {

namespace {

template <typename T>
T must(sys::Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text);
  return std::move(*result);
}
void must(const sys::Status& status) {
  if (!status) throw std::runtime_error(status.error().text);
}

class InProcessHost final : public FuseHost {
 public:
  FusePeer& workspace() override { return workspace_peer_; }
  FusePeer& turn() override { return turn_peer_; }

  bool alive() override { return true; }
  void begin_turn() override {
    must(turns_.begin({.turn = kTurn, .demand = "cases", .thread = "main", .thread_seq = 1, .tier = "emulated",
                       .inputs = {}}));
    must(turns_.begin_stage(kTurn, "run"));
  }
  void seal_stage() override { must(turns_.seal_stage(kTurn, "run")); }
  void new_epoch() override { must(workspace_.next_epoch()); }
  void rest() override {
    while (tree_.reclaim(1000)) {
    }
  }
  uint64_t counter(const std::string& device, const std::string& name) override {
    uint64_t found = 0;
    const auto look = [&](const char* counted, uint64_t value) {
      if (name == counted) found = value;
    };
    (device == "turn" ? turn_device_ : workspace_device_).each_counter(look);
    return found;
  }

 private:
  static fs::Time now() {
    timespec time{};
    clock_gettime(CLOCK_REALTIME, &time);
    return {.sec = time.tv_sec, .nsec = static_cast<uint32_t>(time.tv_nsec)};
  }

  fs::Tree tree_{fs::Budget{}, now};
  fs::ZoneId host_zone_ = tree_.add_zone({fs::ZoneState::sealed, fs::ZoneUse::shared});
  turn::Sweeper sweeper_{tree_};
  turn::Events events_{tree_};
  turn::Workspace workspace_ = must(turn::Workspace::make(tree_, sweeper_, host_zone_));
  turn::Turns turns_ = must(turn::Turns::make(tree_, events_, sweeper_, host_zone_));
  virtiofs::Device workspace_device_{tree_,
                                     {.contract = virtiofs::Contract::workspace,
                                      .root = workspace_.device_root(),
                                      .name = "fs:workspace",
                                      .now = {}}};
  virtiofs::Device turn_device_{tree_,
                                {.contract = virtiofs::Contract::turn,
                                 .root = turns_.device_root(),
                                 .name = "fs:turn",
                                 .events = &events_,
                                 .now = {}}};
  virtiofs::PeerByHand workspace_peer_{workspace_device_};
  virtiofs::PeerByHand turn_peer_{turn_device_, 2};
};

}  // namespace

std::unique_ptr<FuseHost> make_fuse_host() { return std::make_unique<InProcessHost>(); }

}  // namespace turnbox::support
