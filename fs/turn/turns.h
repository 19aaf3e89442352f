// The shape of /turn (docs/ARCHITECTURE.md, «/turn in the guest») as rules on the tree: turns, stages, seals.
//
// Belongs to the thread that owns the tree.
// Invariants:
//  1. A directory of a turn appears under its guest-visible name only when it is whole: it is made aside and
//  renamed.
//  2. What the host adds names to is in a zone of use shared, sealed for guests; `outputs` and `events` alone
//  are
//     writable, each in a zone of its own.
//  3. A turn id is used once. A thread has at most one live turn, a turn at most one open stage.
//  4. A call that fails leaves /turn as it was.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fs/tree/import.h"
#include "fs/tree/tree.h"
#include "fs/turn/events.h"
#include "fs/turn/sweeper.h"
#include "vmm/sys/result.h"

namespace turnbox::turn {

struct Stage {
  std::string name;  // `run`
  std::string dir;   // `01-run`
  fs::Ino outputs = fs::kNoIno;
  fs::ZoneId outputs_zone = 0;
  bool sealed = false;
};

struct Turn {
  std::string thread;
  fs::Ino dir = fs::kNoIno, inputs = fs::kNoIno, stages_dir = fs::kNoIno, events = fs::kNoIno;
  std::vector<std::string> input_names;
  std::vector<Stage> stages;
  bool ended = false;
};

struct BeginTurn {
  std::string turn, demand, thread;
  uint64_t thread_seq = 0;
  std::string tier;
  std::vector<std::string> inputs;
};

class Turns {
 public:
  static sys::Result<Turns> make(fs::Tree& tree, Events& events, Sweeper& sweeper, fs::ZoneId host_zone);

  fs::Ino device_root() const { return device_root_; }

  // Inputs of the turn to come: pieces of an import stream for each. A refused piece forgets that input.
  sys::Result<const fs::Importer*> import_input(const std::string& name, std::span<const std::byte> piece,
                                                bool more);

  sys::Status begin(const BeginTurn& what);
  sys::Result<std::string> begin_stage(const std::string& turn, const std::string& stage);
  sys::Status seal_stage(const std::string& turn, const std::string& stage);
  sys::Status end(const std::string& turn);

  sys::Result<const Turn*> find(const std::string& turn) const;

 private:
  struct PendingInput {
    fs::Importer importer;
    bool whole = false;
  };

  Turns(fs::Tree& tree, Events& events, Sweeper& sweeper) : tree_(tree), events_(events), sweeper_(sweeper) {}
  sys::Result<fs::Ino> make_dir(fs::Ino parent, std::string_view name, fs::ZoneId zone, uint16_t mode = 0755);
  sys::Status make_file(fs::Ino parent, std::string_view name, std::string_view content);
  sys::Status show(const BeginTurn& what, fs::Ino dir);
  sys::Status check_begin(const BeginTurn& what) const;
  sys::Result<fs::Ino> pending_dir();
  sys::Status fill_turn(fs::Ino dir, const BeginTurn& what, Turn& turn);
  sys::Status fill_stage(fs::Ino dir, const Turn& turn, Stage& stage);
  sys::Result<Turn*> live(const std::string& turn);
  void seal(Stage& stage);

  fs::Tree& tree_;
  Events& events_;
  Sweeper& sweeper_;
  fs::ZoneId host_zone_ = 0;
  fs::Ino device_root_ = fs::kNoIno, by_id_ = fs::kNoIno;
  fs::Ino aside_ = fs::kNoIno;        // a root of no device: where directories are made
  fs::Ino pending_dir_ = fs::kNoIno;  // aside/inputs, once an input was imported
  fs::ZoneId pending_zone_ = 0;
  std::map<std::string, PendingInput> pending_;
  std::map<std::string, Turn> turns_;
};

}  // namespace turnbox::turn
