// The store: one LMDB environment in `<state>/store` that keeps registry rows, objects and records
// (docs/STORE.md).
//
// The only user of lmdb.h. It knows neither JSON nor signatures: broker/turn gives it finished record bytes
// (see turn/ledger.h, which is what most callers want).
//
// Any number of processes may open one state directory; LMDB's writer lock makes their commits follow each
// other. Within a process a Store belongs to one thread, and a state directory is open once (a second open is
// `conflict`).
//
// Invariants:
//  1. One write transaction per ended turn: after a crash at any instant the turn is there whole, or not at
//  all.
//  2. Every object in the index was hashed here, and everything that it names is in the index of the same
//  account.
//  3. Keys of objects, segments and chains start with the account's number: a digest that one account stored
//  is
//     unknown to every other.
//  4. Never across fork: a process that was forked without exec and touches a Store aborts. Spawning programs
//     (sys::Process) is fine at any time; LMDB's descriptors are close-on-exec.
//  5. Nothing is changed by a call that fails.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "broker/store/object_source.h"
#include "vmm/sys/result.h"

namespace turnbox::store {

inline constexpr uint32_t kSchemaVersion = 1;

struct OpenOptions {
  uint64_t map_bytes = uint64_t{1} << 30;  // address space to start with; grows by itself
};

// What the store has to know of a turn to file its record.
struct TurnKey {
  std::string turn;  // ULID
  std::string account, project, demand;
  int64_t now_ns = 0;  // the creation time of registry rows that this commit makes
};

// What the record needs to know of the chain; valid inside the commit only.
struct ChainPlace {
  uint64_t chain_index = 0;             // 0 for the first record of a demand
  std::optional<sys::Digest> previous;  // record digest of the one before
  uint64_t count = 0;                   // records in the store before this one
};

struct SignedRecord {
  std::string bytes;  // canonical JSON
  sys::Digest digest;
  std::array<std::byte, 64> signature{};
  std::array<std::byte, 32> public_key{};
};

// The objects that a record names directly; each must be in the store, or come with the commit.
struct Root {
  ObjectKind kind;
  sys::Digest digest;
};

struct StoredRecord {
  std::string turn, account, project, demand;
  uint64_t chain_index = 0;
  uint64_t sequence = 0;  // 1, 2, 3, … in commit order, over the whole store
  SignedRecord record;
};

struct Head {
  std::string account, demand;
  uint64_t chain_index = 0;
  std::string turn;
  sys::Digest record;
};

// One sandbox that may be alive: written before its first process starts, erased when it is gone.
struct SandboxRow {
  std::string id;
  std::string demand, account, project;
  std::string runtime_dir;
  int64_t created_ns = 0;
  uint64_t ordinal = 0;  // filled by add_sandbox: 1 for the first sandbox of its demand
};

// A fork: a name for a stored tree, whose objects the account has.
struct WorkspaceRow {
  std::string name;  // unique in the store
  std::string account;
  ObjectKind kind = ObjectKind::dir;
  sys::Digest content, meta;
  std::string origin;  // the version that it began as, for people
  int64_t created_ns = 0;
};

class Env;     // the LMDB environment
class Reader;  // a read transaction

class Store {
 public:
  // Makes `<state>` and `<state>/store` (mode 0700) where missing. Refuses, with one sentence: a directory
  // that is not writable, a network or FUSE file system, a schema or feature that this program does not know.
  static sys::Result<Store> open(const std::string& state_dir, const OpenOptions& options = {});
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  const std::string& state_dir() const;

  // Of the digests given, those that the account does not have, in order. An account nobody used has none.
  sys::Result<std::vector<sys::Digest>> missing(std::string_view account,
                                                std::span<const sys::Digest> digests);

  // The one write transaction of an ended turn: registry rows, new objects, record, chain. `finish` is called
  // inside it, after the objects, to make the record; it may be called again when the map had to grow.
  // Errors: conflict (the turn is stored already; the demand belongs to another account), invalid (an object
  // whose bytes have another digest, or that names something unknown), limit (the disk is full: nothing was
  // kept, later commits work).
  using Finish = std::function<sys::Result<SignedRecord>(const ChainPlace&)>;
  sys::Result<ChainPlace> commit(const TurnKey& key, std::span<const Root> roots, ObjectSource& objects,
                                 const Finish& finish);

  // Sandboxes: at most one per demand (conflict names the other). Returns the ordinal.
  sys::Result<uint64_t> add_sandbox(const SandboxRow& row);
  sys::Status erase_sandbox(const std::string& id);
  sys::Result<std::vector<SandboxRow>> sandboxes();

  // Forks. Kind conflict: the name is taken; invalid: an object that the account does not have.
  sys::Status add_workspace(const WorkspaceRow& row);
  // New content under a fork's name: the objects behind it and its row, in one transaction. Without `was` the
  // name must be free. Kind conflict: the row is not `was` any more, or the name is taken; invalid and limit
  // as commit().
  sys::Status move_workspace(const std::optional<WorkspaceRow>& was, const WorkspaceRow& now,
                             ObjectSource& objects);
  sys::Status erase_workspace(const std::string& name);  // not_found
  sys::Result<std::optional<WorkspaceRow>> find_workspace(std::string_view name);
  sys::Result<std::vector<WorkspaceRow>> workspaces();  // sorted by name

  // One consistent view of the store, for everything else. Keep it short: while it lives, the file cannot
  // re-use freed pages. No commit may run in this process while a Reader lives.
  sys::Result<Reader> read();

  // Shorthands of a Reader that lives for one call.
  sys::Result<StoredRecord> load_record(std::string_view turn_or_prefix);
  sys::Result<std::vector<StoredRecord>> list();

 private:
  explicit Store(std::unique_ptr<Env> env);
  std::unique_ptr<Env> env_;
};

// Spans and records are valid as long as the Reader.
class Reader {
 public:
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  // By turn id, or by a prefix of at least 4 characters that only one turn has (not_found, or usage when
  // several do).
  sys::Result<StoredRecord> load_record(std::string_view turn_or_prefix) const;
  // Oldest first; the visitor returns false to stop.
  sys::Status list(const std::function<bool(const StoredRecord&)>& visit) const;
  sys::Result<StoredRecord> record_at(std::string_view account, std::string_view demand,
                                      uint64_t chain_index) const;
  sys::Result<StoredRecord> record_number(uint64_t sequence) const;
  sys::Result<std::vector<Head>> heads() const;  // sorted by account, then demand
  sys::Result<uint64_t> count() const;           // records ever committed

  // An object of the account, as stored: not hashed again. `scratch` holds it where it spans segments.
  struct Found {
    ObjectKind kind;
    sys::ByteSpan bytes;
  };
  sys::Result<Found> object(std::string_view account, const sys::Digest& digest, sys::Bytes& scratch) const;

 private:
  friend class Store;
  struct State;
  explicit Reader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace turnbox::store
