#include "tests/unit/record/golden.h"

#include <sys/stat.h>

#include <limits>

namespace turnbox::turn {
namespace {

// Digests of second.json: what `snapshot.digest` would have answered. That they are right is for the C++ of
// fs/tree to show (tree.import, tree.digest); here they are values that go into the record.
TreeRef tree(store::ObjectKind kind, const char* content, const char* meta) {
  return {kind, *sys::digest_from_hex(content), *sys::digest_from_hex(meta)};
}

}  // namespace

void place_golden_key(const std::string& state_dir) {
  std::string seed;
  for (int i = 0; i < 32; ++i) seed += static_cast<char>(i);
  ::mkdir((state_dir + "/keys").c_str(), 0700);
  TURNBOX_ASSERT(sys::replace_file(state_dir + "/keys/record.ed25519", seed, 0600).has_value());
}

Draft golden_first() {
  const NotCaptured gone{"QEMU ended before the turn did"};
  Draft draft;
  draft.turn = "01JZZZZZZZ0000000000000001";
  draft.demand = "golden";
  draft.status = TurnStatus::failed;
  draft.reason = Reason::infrastructure;
  draft.detail = "QEMU was killed by signal 9";
  draft.started_ns = 1'700'000'000'000'000'001;
  draft.ended_ns = 1'700'000'001'000'000'000;
  draft.tier_given = "emulated";
  draft.kernel = sys::plain_sha256(sys::as_bytes("kernel"));
  draft.workspace_before = draft.workspace_after = gone;
  draft.events = gone;
  Stage stage;
  stage.name = "run";
  stage.argv = {"true"};
  stage.cwd = "/workspace";
  stage.outputs = gone;
  draft.stages = {stage};
  draft.capture.denied = {"network"};
  draft.capture.unknown = {"randomness", "clock"};  // written sorted
  return draft;
}

Draft golden_second() {
  using store::ObjectKind;
  const TreeRef before =
      tree(ObjectKind::dir, "0af8251c5cbcf549ac6df42729a500bb92b880ce0b240efc63d99af6c7734237",
           "d057861cedd061326296fb87d0dff1789a4940c15b470d3db71ee5561c539962");
  Draft draft;
  draft.turn = "01JZZZZZZZ0000000000000002";
  draft.demand = "golden";
  draft.thread_seq = 2;
  draft.status = TurnStatus::completed;
  draft.reason = Reason::none;
  draft.started_ns = std::numeric_limits<int64_t>::max();
  draft.booted_ns = 1'700'000'003'000'000'000;
  draft.ended_ns = -1;
  draft.tier_asked = "emulated";
  draft.tier_given = "emulated";
  draft.image = sys::plain_sha256(sys::as_bytes("image"));
  draft.kernel = sys::plain_sha256(sys::as_bytes("kernel"));
  draft.sandbox_fresh = false;
  draft.sandbox_ordinal = (uint64_t{1} << 53) - 1;
  draft.workspace_before = before;
  draft.workspace_after =
      tree(ObjectKind::dir, "f795a87d66c4f021d888e69f243f827c9aa93ff5f33114a358d1fe1532b530b8",
           "66153f067f107a2c602fe4104c54b6ebccf9d7b92187e323241d1d03a0d7c2f9");
  draft.inputs = {
      {"\xfe", before},  // written sorted
      {"huge", tree(ObjectKind::file, "ae32a43a7e90c5932f322ef26b4dac3a0156e1e82aaafb939c7661a0e00c505b",
                    "f98286fb807ba4dc1bbec9fbbd5e978e42ba349a2977dba8a8f0feaa97e27002")}};
  Stage stage;
  stage.name = "run";
  stage.argv = {"sh", "-c", "\"\\\b\f\n\r\t\x01\x7f\xe2\x82\xac\xf0\x9f\x98\x80", "\xff"};
  stage.cwd = "/workspace";
  stage.env = {{"K", "\x80"}, {"A", ""}};
  stage.uid = 1000;
  stage.gid = std::numeric_limits<uint32_t>::max() - 1;
  stage.inputs = {"huge", "\xfe"};
  stage.outputs = tree(ObjectKind::dir, "651932c53800eb25cef05800ddc6a7e4eefb0910441c86d63ebe457cdf376866",
                       "3a9dee8b80ff48f38280ceaebf60bd467e4b76389e17efb9bea45783ea84e38c");
  stage.exit = StageExit{};
  stage.begun_ns = 1'700'000'003'500'000'000;
  draft.stages = {stage};
  static const std::string log = "{\"at\":1}\n{\"at\":2}\n";
  draft.events = EventsRef{store::FileSource(sys::as_bytes(log)).digest(), 2};
  draft.capture = {{"workspace", "outputs", "inputs", "events"}, {"network"}, {"clock", "randomness"}, true};
  return draft;
}

GoldenObjects::GoldenObjects()
    : StreamSource([served = false](bool restart) mutable -> sys::Result<std::optional<sys::Fd>> {
        if (!restart && served) return std::optional<sys::Fd>();
        served = true;
        TRY_ASSIGN(sys::Fd fd, sys::memfd_with("objects", sys::as_bytes(golden("second.objects"))));
        return std::optional(std::move(fd));
      }) {}

}  // namespace turnbox::turn
