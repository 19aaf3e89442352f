// Everything that the run path collects about one turn: what the record will say (docs/RECORD.md, «Fields»),
// without the chain fields, which are filled inside the commit. Plain values; owned by whoever runs the turn.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "broker/store/object_format.h"
#include "vmm/sys/digest.h"

namespace turnbox::turn {

// Why something is not in the record: one sentence. (In this and `detail`, bytes that are not UTF-8 become
// '?'.)
struct NotCaptured {
  std::string reason = "the turn ended before this was captured";
};

// A subtree by its digests, as `snapshot.digest` of the control socket gives them.
struct TreeRef {
  store::ObjectKind kind = store::ObjectKind::dir;  // dir or file
  sys::Digest content;
  sys::Digest meta;
};
using TreeCapture = std::variant<NotCaptured, TreeRef>;

// The event log: digest of the `file` object over its bytes (store::FileSource makes its objects), and its
// lines.
struct EventsRef {
  sys::Digest digest;
  uint64_t count = 0;
};
using EventsCapture = std::variant<NotCaptured, EventsRef>;

// completed: reason none (the last command ended with status 0).
// failed:    command (it ended otherwise, by itself) or infrastructure (QEMU, guest, fsd or turnbox failed).
// cancelled: timeout, signal (SIGINT/SIGTERM to turnbox), down, ttl.
enum class TurnStatus : uint8_t { completed, failed, cancelled };
enum class Reason : uint8_t { none, command, infrastructure, timeout, signal, down, ttl };

struct StageExit {
  bool signalled = false;
  int code = 0;  // exit status 0..255, or the signal's number 1..64
  bool timed_out = false;
};

struct Stage {
  std::string name;               // "run"
  std::vector<std::string> argv;  // any bytes but NUL
  std::string cwd;
  std::vector<std::pair<std::string, std::string>>
      env;  // what the caller gave (--env), in order; recorded in full
  uint32_t uid = 0, gid = 0;
  std::vector<std::string> inputs;  // names of turn inputs that it saw
  TreeCapture outputs;
  std::optional<StageExit> exit;              // empty: the command never started, or its end was not seen
  std::optional<int64_t> begun_ns, ended_ns;  // CLOCK_REALTIME of the host
};

struct Input {
  std::string name;
  TreeCapture tree;
};

// What the record covers; each word at most once over the three lists, e.g. captured: workspace, inputs,
// outputs, events; denied: network; unknown: clock, randomness.
struct CaptureManifest {
  std::vector<std::string> captured, denied, unknown;
  std::optional<bool> flushed;  // the guest's flush finished in time; empty: never asked
};

struct Draft {
  std::string turn;  // ULID (ulid.h)
  std::string account = "local", project = "default";
  std::string demand;
  std::string thread = "main";
  uint64_t thread_seq = 1;  // at begin; 1 for the first turn of the thread

  TurnStatus status = TurnStatus::failed;
  Reason reason = Reason::infrastructure;
  std::string detail;  // one sentence for a person; may be empty

  int64_t started_ns = 0;            // turnbox began to work on the turn
  std::optional<int64_t> booted_ns;  // the guest answered
  int64_t ended_ns = 0;

  std::optional<std::string> tier_asked;     // "hardware", "emulated"; empty: the best there is
  std::string tier_given;                    // "hardware", "emulated"
  std::optional<sys::Digest> image, kernel;  // the digests that name them
  bool sandbox_fresh = true;
  uint64_t sandbox_ordinal = 1;

  TreeCapture workspace_before, workspace_after;
  std::vector<Input> inputs;
  std::vector<Stage> stages;
  EventsCapture events;
  CaptureManifest capture;
};

}  // namespace turnbox::turn
