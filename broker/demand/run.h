// One command in one fresh sandbox as one turn with one stage: what `turnbox run` does, from checks to the
// record.
//
// The steps stand in run.cpp in the order in which they happen. Errors before the guest runs leave nothing
// behind and no record. From `turn.begin` on, whatever happens ends in one record: completed, failed or
// cancelled.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "broker/demand/apply.h"
#include "broker/demand/places.h"
#include "vmm/domain/tier.h"
#include "vmm/sys/result.h"

namespace turnbox::demand {

struct RunSpec {
  std::vector<std::string> command;
  std::optional<domain::Tier> tier;  // empty: the best the host has
  std::string image = "default";
  std::string workspace;  // directory of the host, or empty
  std::string from;       // a stored version (version_name.h), or empty
  bool apply = false;     // write the turn's changes back to `workspace` once it completed
  std::vector<std::pair<std::string, std::string>> inputs;  // name, path
  std::vector<std::pair<std::string, std::string>> env;
  unsigned memory_mib = 512;
  unsigned vcpus = 1;
  std::optional<std::chrono::milliseconds> timeout;
  std::chrono::milliseconds boot_deadline{60'000};
  std::string record_file;
  std::string connect;  // libvirt URI; empty: qemu:///embed below the runtime directory
};

struct ChangeRow {
  char change;  // + ~ -
  std::string path;
};

struct RunReport {
  int exit_status = 125;  // for the shell: the command's own, 124, 126, 127, 128+N, 130, 143, 125
  std::string turn, status, reason, record_digest, tier;
  std::string ended;  // «exit 0», «signal 9», «not captured»
  std::chrono::milliseconds boot{0}, run{0};
  std::vector<ChangeRow> changes;
  uint64_t added = 0, changed = 0, removed = 0;
  std::optional<Applied> applied;
  std::string not_applied;  // one sentence when --apply did nothing, or broke off
  std::string failure;      // one sentence when turnbox itself failed after the turn began
};

// Watches for SIGINT and SIGTERM, and tells where the run is. `phase` gets «booting», «importing 120 files»,
// …
struct RunHooks {
  std::function<void(const std::string&)> phase;
  int cancel_fd =
      -1;  // a signalfd-like descriptor: readable once the run is to be cancelled; see run_signals.h
  std::function<int()> cancel_signal;  // which signal it was: 2 or 15, after cancel_fd became readable
};

sys::Result<RunReport> run(const Places& places, const RunSpec& spec, const RunHooks& hooks);

}  // namespace turnbox::demand
