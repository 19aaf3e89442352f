// What a guest has been given since its INIT: nodes by lookup count, and handles of open files and
// directories.
//
// Invariants:
//  1. Every node in the table and every open handle holds its inode in the tree, once.
//  2. end() gives everything back; a session that has not begun holds nothing.
//  3. A handle number is used once: it carries the generation of its slot.
#pragma once

#include <unordered_map>
#include <vector>

#include "fs/tree/tree.h"
#include "fs/virtiofs/device.h"

namespace turnbox::virtiofs {

struct Handle {
  fs::Ino ino = fs::kNoIno;
  bool directory = false;
  bool readable = false;
  bool writable = false;
  bool log = false;  // in a zone of use `log`: writes go to the EventLog
};

class Session {
 public:
  Session(fs::Tree& tree, const Options& options) : tree_(tree), options_(options) {}
  ~Session() { end(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void begin(uint64_t flags);
  void end();
  bool begun() const { return begun_; }
  uint64_t flags() const { return flags_; }  // of INIT: offered by the guest and supported by us

  // Nodes. ESTALE for an id that the session does not hold, EINVAL for 0.
  fs::Expected<fs::Ino> resolve(uint64_t node_id) const;
  uint64_t node_id(fs::Ino ino) const { return ino == options_.root ? kRootId : ino; }
  bool has_room(uint64_t nodes = 1) const { return nodes_.size() + nodes <= options_.max_lookups; }
  void remember(fs::Ino ino);  // one lookup more
  // False when the guest gives back more than it was given; what it has is taken all the same.
  bool forget(uint64_t node_id, uint64_t count);
  uint64_t nodes() const { return nodes_.size(); }

  // Handles. ENFILE at the budget; EBADF for a number that is not open, is of another inode or another kind.
  bool has_handle_room() const { return open_ < tree_.budget().handles; }
  fs::Expected<uint64_t> open(const Handle& handle);
  fs::Expected<Handle> handle(uint64_t number, fs::Ino ino, bool directory) const;
  void close(uint64_t number);  // of a handle that handle() found
  uint64_t open_handles() const { return open_; }

 private:
  static constexpr uint64_t kRootId = 1;
  struct Slot {
    Handle handle;
    uint32_t generation = 1;
    bool used = false;
  };
  static uint64_t number_of(uint32_t slot, uint32_t generation) { return uint64_t{generation} << 32 | slot; }
  void let_go(uint32_t slot);

  fs::Tree& tree_;
  const Options& options_;
  bool begun_ = false;
  uint64_t flags_ = 0;
  std::unordered_map<fs::Ino, uint64_t> nodes_;  // lookup counts
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  uint64_t open_ = 0;
};

}  // namespace turnbox::virtiofs
