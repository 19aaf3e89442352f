#include "broker/demand/outcome.h"

#include "vmm/guest/exec_format.h"

namespace turnbox::demand {

using turn::Reason;
using turn::TurnStatus;

namespace {

constexpr int kTimedOut = 124, kNotExecutable = 126, kNotFound = 127, kSignalBase = 128;

// The guest's word for a command that could not be started.
Outcome not_started(const exec::Ended& ended) {
  Outcome outcome{.status = TurnStatus::failed, .reason = Reason::command, .detail = ended.text};
  outcome.hint = "the command could not be started: " + ended.text;
  if (ended.error == guest::kErrorNotFound) {
    outcome.exit_status = kNotFound;
  } else if (ended.error == guest::kErrorNotExecutable) {
    outcome.exit_status = kNotExecutable;
  } else {
    return infrastructure("the guest could not start the command: " + ended.text);
  }
  outcome.ended = "exit " + std::to_string(outcome.exit_status);
  return outcome;
}

}  // namespace

Outcome infrastructure(std::string detail) {
  return {.status = TurnStatus::failed,
          .reason = Reason::infrastructure,
          .detail = std::move(detail),
          .exit_status = 125,
          .ended = "outputs not captured",
          .hint = {},
          .exit = {}};
}

Outcome outcome_of(const sys::Result<exec::Ended>& ended) {
  if (!ended) return infrastructure(ended.error().text);
  if (ended->how == exec::Ended::How::not_started) return not_started(*ended);
  const bool signalled = ended->how == exec::Ended::How::signalled;
  Outcome outcome;
  outcome.exit = turn::StageExit{signalled, ended->code, ended->timed_out};
  outcome.ended = (signalled ? "signal " : "exit ") + std::to_string(ended->code);
  outcome.exit_status = signalled ? kSignalBase + ended->code : ended->code;
  if (ended->timed_out) {
    outcome.status = TurnStatus::cancelled;
    outcome.reason = Reason::timeout;
    outcome.detail = "the time-out ended the command";
    outcome.ended = "time-out";
    outcome.exit_status = kTimedOut;
  } else if (signalled || ended->code != 0) {
    outcome.reason = Reason::command;
  } else {
    outcome.status = TurnStatus::completed;
    outcome.reason = Reason::none;
  }
  return outcome;
}

}  // namespace turnbox::demand
