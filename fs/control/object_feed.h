// The objects of one subtree of a snapshot, in pieces of about kObjectBatch bytes, made as they are asked
// for.
//
// Shared by the owner's loop, which asks, and the hasher's thread, which walks and waits with a full piece in
// between. Invariant: at most one piece exists at a time, so a subtree of gigabytes costs no more memory than
// a small one.
#pragma once

#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "fs/control/object_stream.h"
#include "fs/tree/digest.h"

namespace turnbox::control {

struct Piece {
  sys::Fd file;  // sealed
  uint64_t objects = 0;
  bool more = false;
};

class ObjectFeed {
 public:
  using Then = std::function<void(sys::Result<Piece>)>;

  // Objects in `have` are left out.
  ObjectFeed(boost::asio::io_context& io, std::unordered_set<sys::Digest> have)
      : io_(io), seen_(std::move(have)) {}

  // Hasher's thread: the whole walk; returns when the last piece was taken, or after abandon().
  void run(const fs::Snapshot& snapshot, fs::Ino root, fs::DigestCache& cache);

  // Owner's thread. One ask at a time; `then` runs on the owner's loop.
  void ask(Then then);
  void abandon();
  bool over() const;  // the last piece was delivered, or it was abandoned

 private:
  bool want(const sys::Digest& digest);
  void emit(ObjectKind kind, const sys::Digest& digest, sys::ByteSpan bytes);
  void deliver(bool more);
  void wait_for_ask();

  boost::asio::io_context& io_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Then then_;               // under mutex_: set while a piece is asked for
  bool abandoned_ = false;  // under mutex_
  bool over_ = false;       // under mutex_

  // The hasher's own.
  std::unordered_set<sys::Digest> seen_;
  std::optional<ObjectStreamWriter> writer_;
  std::optional<sys::Error> error_;
};

}  // namespace turnbox::control
