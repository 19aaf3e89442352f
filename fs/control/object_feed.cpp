#include "fs/control/object_feed.h"

#include <boost/asio/post.hpp>
#include <memory>

namespace turnbox::control {

void ObjectFeed::run(const fs::Snapshot& snapshot, fs::Ino root, fs::DigestCache& cache) {
  const auto walked = fs::emit_objects(
      snapshot, root, cache, [this](ObjectKind, const sys::Digest& digest) { return want(digest); },
      [this](ObjectKind kind, const sys::Digest& digest, sys::ByteSpan bytes) { emit(kind, digest, bytes); });
  if (!walked && !error_) {
    error_ = sys::fail_errno("the objects of a snapshot", static_cast<int>(walked.error())).value();
  }
  deliver(false);
}

void ObjectFeed::ask(Then then) {
  {
    const std::lock_guard lock(mutex_);
    TURNBOX_ASSERT(!then_ && !over_);
    then_ = std::move(then);
  }
  changed_.notify_one();
}

void ObjectFeed::abandon() {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    over_ = true;
  }
  changed_.notify_one();
}

bool ObjectFeed::over() const {
  const std::lock_guard lock(mutex_);
  return over_;
}

// After a fault or an abandon nothing is wanted any more, which ends the walk soon.
bool ObjectFeed::want(const sys::Digest& digest) {
  if (error_) return false;
  {
    const std::lock_guard lock(mutex_);
    if (abandoned_) return false;
  }
  return seen_.insert(digest).second;
}

void ObjectFeed::emit(ObjectKind kind, const sys::Digest& digest, sys::ByteSpan bytes) {
  if (error_) return;
  if (!writer_) {
    wait_for_ask();
    auto made = ObjectStreamWriter::make();
    if (!made) {
      error_ = made.error();
      return;
    }
    writer_.emplace(std::move(*made));
  }
  if (auto put = writer_->put(kind, digest, bytes); !put) {
    error_ = put.error();
  } else if (writer_->size() >= kObjectBatch) {
    deliver(true);
  }
}

void ObjectFeed::wait_for_ask() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return then_ || abandoned_; });
}

void ObjectFeed::deliver(bool more) {
  if (!writer_ && !error_) {
    wait_for_ask();
    if (auto made = ObjectStreamWriter::make()) {
      writer_.emplace(std::move(*made));
    } else {
      error_ = made.error();
    }
  }
  auto piece = std::make_shared<sys::Result<Piece>>();
  if (error_) {
    *piece = tl::unexpected<sys::Error>(*error_);
  } else if (auto file = writer_->finish(); file) {
    *piece = Piece{std::move(*file), writer_->objects(), more};
  } else {
    *piece = tl::make_unexpected(file.error());
  }
  writer_.reset();
  Then then;
  {
    const std::lock_guard lock(mutex_);
    then = std::exchange(then_, nullptr);
    if (!more) over_ = true;
  }
  if (then) boost::asio::post(io_, [then = std::move(then), piece] { then(std::move(*piece)); });
}

}  // namespace turnbox::control
