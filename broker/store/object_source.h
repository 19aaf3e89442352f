// Where a commit takes its objects from, one after the other, so that a turn of any size is never held twice.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "broker/store/object_format.h"
#include "vmm/sys/fd.h"
#include "vmm/sys/memfd.h"

namespace turnbox::store {

struct Object {
  ObjectKind kind;
  sys::Digest digest;   // as claimed; the store hashes the bytes again
  sys::ByteSpan bytes;  // valid until the next call of the source
};

// Children come before parents; repeated objects are fine. Called by Store::commit while it holds the store's
// one write lock, so a source that waits for a peer must have a deadline.
class ObjectSource {
 public:
  virtual ~ObjectSource() = default;
  // Start over. Called once before the first next(), and again when the store's map had to grow.
  virtual sys::Status rewind() = 0;
  virtual sys::Result<std::optional<Object>> next() = 0;  // empty at the end
};

// Objects out of memfds that hold object streams (docs/WIRE.md, «Object stream»). `fetch` is asked for one
// memfd after the other (`restart` true: the first one) and answers an empty optional at the end; only one is
// mapped at a time.
class StreamSource : public ObjectSource {
 public:
  using Fetch = std::function<sys::Result<std::optional<sys::Fd>>(bool restart)>;
  explicit StreamSource(Fetch fetch) : fetch_(std::move(fetch)) {}
  sys::Status rewind() override;
  sys::Result<std::optional<Object>> next() override;

 private:
  Fetch fetch_;
  bool restart_ = true;
  sys::Fd memfd_;
  sys::Mapping mapping_;
  sys::ByteSpan rest_;
};

// One source after the other: the workspace's, each input's, each stage's, the events'.
class JoinedSource : public ObjectSource {
 public:
  explicit JoinedSource(std::vector<ObjectSource*> parts) : parts_(std::move(parts)) {}
  sys::Status rewind() override;
  sys::Result<std::optional<Object>> next() override;

 private:
  std::vector<ObjectSource*> parts_;
  size_t at_ = 0;
};

// The objects of one file's content held in memory (an event log): chunks, lists, the file object last. Keeps
// the digest tables only: `content` must outlive it.
class FileSource : public ObjectSource {
 public:
  explicit FileSource(sys::ByteSpan content);
  const sys::Digest& digest() const { return digest_; }  // of the file object
  sys::Status rewind() override;
  sys::Result<std::optional<Object>> next() override;

 private:
  struct Made {
    ObjectKind kind;
    sys::Digest digest;
    sys::Bytes bytes;       // empty for a chunk
    uint64_t offset, size;  // of a chunk in the content
  };
  sys::ByteSpan content_;
  std::vector<Made> made_;
  sys::Digest digest_;
  size_t at_ = 0;
};

}  // namespace turnbox::store
