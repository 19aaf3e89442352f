// The LMDB environment of one state directory and its transactions: opening, growing, and what each failure
// means. Private to broker/store.
//
// Invariants:
//  1. A directory is open at most once in a process (LMDB's locks are lost otherwise), and never across fork.
//  2. The map only grows or is reopened while no transaction of this process lives.
#pragma once

#include <lmdb.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "broker/store/store.h"

namespace turnbox::store {

// Numbers index an array; names are in env.cpp and docs/STORE.md.
enum class Db : uint8_t {
  meta,
  accounts,
  projects,
  demands,
  objects,
  segments,
  records,
  chains,
  heads,
  turns,
  keys,
  sandboxes,
  workspaces
};
inline constexpr size_t kDbs = 13;
inline constexpr size_t kFirstDbs =
    12;  // those that every store has; later ones are made when a store is opened

class Env;

// One transaction; aborted unless committed. Values returned are valid until the next write in it, or its
// end.
class Txn {
 public:
  Txn(Txn&& other) noexcept
      : env_(std::exchange(other.env_, nullptr)),
        txn_(std::exchange(other.txn_, nullptr)),
        failure_(other.failure_) {}
  Txn& operator=(Txn&&) = delete;
  ~Txn() { abort(); }

  sys::Result<std::optional<sys::ByteSpan>> get(Db db, sys::ByteSpan key) const;
  sys::Status put(Db db, sys::ByteSpan key, sys::ByteSpan value);
  sys::Status erase(Db db, sys::ByteSpan key);  // a missing key is fine
  // Entries whose key starts with `prefix`, in key order; the visitor returns false to stop.
  using Visit = std::function<sys::Result<bool>(sys::ByteSpan key, sys::ByteSpan value)>;
  sys::Status scan(Db db, sys::ByteSpan prefix, const Visit& visit) const;

  sys::Status commit();
  void abort();
  int failure() const { return failure_; }  // the last LMDB code that made a call fail

 private:
  friend class Env;
  Txn(Env& env, MDB_txn* txn) : env_(&env), txn_(txn) {}
  sys::Status check(int code) const;
  Env* env_;
  MDB_txn* txn_;
  mutable int failure_ = 0;
};

class Env {
 public:
  static sys::Result<std::unique_ptr<Env>> open(const std::string& state_dir, const OpenOptions& options);
  ~Env();

  const std::string& state_dir() const { return state_dir_; }
  sys::Result<Txn> begin_read();
  // Runs `body` in a write transaction and commits it. The body runs again after the map grew.
  sys::Status write(const std::function<sys::Status(Txn&)>& body);

 private:
  friend class Txn;
  Env(std::string state_dir, const OpenOptions& options)
      : state_dir_(std::move(state_dir)),
        store_dir_(state_dir_ + "/store"),
        options_(options),
        pid_(::getpid()) {}

  sys::Status open_env();
  sys::Status open_databases();
  sys::Status check_schema(Txn& txn);
  sys::Status open_handles(MDB_txn* txn, bool create);
  void close_env();
  sys::Result<Txn> begin(unsigned flags);
  sys::Status grow();
  tl::unexpected<sys::Error> failure(int code, std::string_view doing) const;

  std::string state_dir_, store_dir_;
  OpenOptions options_;
  pid_t pid_;
  MDB_env* env_ = nullptr;
  std::array<MDB_dbi, kDbs> dbs_{};
  int live_ = 0;                                    // transactions of this process
  std::optional<std::pair<dev_t, ino_t>> claimed_;  // the directory, in the list of open ones
};

}  // namespace turnbox::store
