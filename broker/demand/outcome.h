// How a turn ended: for the record (status, reason, detail), for the shell (exit status) and for the summary.
#pragma once

#include <optional>
#include <string>

#include "broker/exec/session.h"
#include "broker/turn/draft.h"

namespace turnbox::demand {

struct Outcome {
  turn::TurnStatus status = turn::TurnStatus::failed;
  turn::Reason reason = turn::Reason::infrastructure;
  std::string detail;  // recorded
  int exit_status = 125;
  std::string ended;  // «exit 0», «signal 9», «not captured»
  std::string hint;   // one sentence for the user of a command that could not be started; else empty
  std::optional<turn::StageExit> exit;

  bool infrastructure() const { return reason == turn::Reason::infrastructure; }
};

// Part of turnbox, the guest or QEMU failed: 125.
Outcome infrastructure(std::string detail);

// The command's own end: its status, 128 + signal, 124 for the time-out, 127 and 126 where it could not be
// started.
Outcome outcome_of(const sys::Result<exec::Ended>& ended);

}  // namespace turnbox::demand
