// The snapshots that the broker holds, by number, and what their paths mean.
//
// Belongs to the thread that owns the tree. A Lease keeps a snapshot readable (on any thread) after its
// release; the last lease must end on the owner's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fs/tree/tree.h"
#include "fs/turn/turns.h"
#include "vmm/sys/result.h"

namespace turnbox::turn {

struct Held {
  fs::Snapshot snapshot;
  fs::Tree* tree = nullptr;  // whose it is
  fs::Ino workspace = fs::kNoIno;
  fs::Ino inputs = fs::kNoIno, events = fs::kNoIno;           // of the turn it was taken for, if any
  std::vector<std::pair<std::string, fs::Ino>> outputs = {};  // stage, directory
};
using Lease = std::shared_ptr<const Held>;

class Snapshots {
 public:
  static constexpr size_t kMost = 256;  // of turns

  // `released` is called after a snapshot went back to the tree, which then has something to reclaim.
  Snapshots(fs::Tree& tree, std::function<void()> released) : tree_(tree), released_(std::move(released)) {}

  sys::Status room() const;  // kind limit when kMost are held
  uint64_t take(fs::Ino workspace, const Turn& turn);
  // A snapshot of `tree` that is not held by number; `released` is called beside this object's own once it
  // went back.
  Lease lease(fs::Tree& tree, fs::Ino workspace, std::function<void()> released);
  uint64_t keep(Lease lease);  // gives it a number
  sys::Result<Lease> find(uint64_t id) const;
  sys::Status release(uint64_t id);

  // The inode of `workspace`, `events`, `inputs/NAME` or `outputs/STAGE` in a held snapshot.
  static sys::Result<fs::Ino> resolve(const Held& held, std::string_view of);

 private:
  Lease take_back(Held held, fs::Tree& tree, std::function<void()> released) const;

  fs::Tree& tree_;
  std::function<void()> released_;
  std::map<uint64_t, Lease> held_;
  std::set<uint64_t> turns_;  // those of held_ that were taken for turns
  uint64_t last_ = 0;
};

}  // namespace turnbox::turn
