#include "broker/demand/feed.h"

#include <algorithm>
#include <unordered_map>

namespace turnbox::demand {
namespace {

using sys::Bytes;
using sys::ByteSpan;

constexpr size_t kFeedPiece = size_t{4} << 20;
constexpr size_t kMostBody = size_t{2} << 20;
constexpr size_t kBlock = 4096;  // what a hole is made of

bool is_zero(ByteSpan bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// Linux's new_encode_dev.
uint32_t encoded(const turn::StoredTree::Device& device) {
  return (device.minor & 0xff) | (device.major << 8) | ((device.minor & ~0xffU) << 12);
}

ImportHead head_of(const turn::TreeEntry& entry) {
  return {.type = entry.type,
          .mode = static_cast<uint16_t>(entry.mode),
          .uid = entry.uid,
          .gid = entry.gid,
          .mtime_sec = entry.mtime_sec,
          .mtime_nsec = entry.mtime_nsec};
}

// One file as an `f` record, then `x` records: extents gather in a body of at most about kMostBody.
class FileRecords {
 public:
  FileRecords(ImportStream& out, const ImportHead& head, const std::string& path, uint64_t size)
      : out_(out), head_(head), path_(path) {
    sys::append_le(body_, size);
  }

  sys::Status add(ByteSpan bytes) {
    for (size_t from = 0; from < bytes.size();) {
      // The next run of blocks that are not zero.
      size_t to = from;
      while (to < bytes.size() && !is_zero(block(bytes, to))) to += block(bytes, to).size();
      if (to > from) {
        sys::append_le(body_, at_ + from);
        sys::append_le(body_, static_cast<uint32_t>(to - from));
        sys::append(body_, bytes.subspan(from, to - from));
      }
      from = to + (to < bytes.size() ? block(bytes, to).size() : 0);
    }
    at_ += bytes.size();
    return body_.size() >= kMostBody ? flush() : sys::Status();
  }

  sys::Status finish() { return head_.type == 'f' || !body_.empty() ? flush() : sys::Status(); }

 private:
  static ByteSpan block(ByteSpan bytes, size_t from) {
    return bytes.subspan(from, std::min(kBlock, bytes.size() - from));
  }
  sys::Status flush() {
    TRY(out_.put(head_, path_, body_));
    body_.clear();
    head_.type = 'x';
    return {};
  }

  ImportStream& out_;
  ImportHead head_;
  const std::string& path_;
  Bytes body_;
  uint64_t at_ = 0;
};

class Writer {
 public:
  Writer(const turn::StoredTree& tree, const TakePiece& take) : tree_(tree), out_(take, kFeedPiece) {}

  sys::Status run() {
    TRY(tree_.visit([this](const turn::TreeEntry& entry) -> sys::Status {
      auto done = put(entry);
      // The second name of a file has the attributes of the first.
      const auto first = links_.find(entry.ino);
      if (!done || (first != links_.end() && first->second != entry.path)) return done;
      return out_.put_xattrs(entry.path, entry.xattrs);
    }));
    return out_.finish();
  }

 private:
  sys::Status put(const turn::TreeEntry& entry) {
    ImportHead head = head_of(entry);
    if (entry.type != 'd' && entry.nlink > 1) {
      const auto [first, added] = links_.try_emplace(entry.ino, entry.path);
      if (!added) {
        head.type = 'h';
        return out_.put(head, entry.path, sys::as_bytes(first->second));
      }
    }
    switch (entry.type) {
      case 'f':
        return file(head, entry);
      case 'l': {
        TRY_ASSIGN(const std::string target, tree_.target(entry.digest));
        return out_.put(head, entry.path, sys::as_bytes(target));
      }
      case 'c':
      case 'b': {
        TRY_ASSIGN(const auto device, tree_.device(entry.digest));
        head.rdev = encoded(device);
        return out_.put(head, entry.path);
      }
      default:
        return out_.put(head, entry.path);
    }
  }

  sys::Status file(const ImportHead& head, const turn::TreeEntry& entry) {
    TRY_ASSIGN(const uint64_t size, tree_.size(entry.digest));
    FileRecords records(out_, head, entry.path, size);
    TRY(tree_.content(entry.digest, [&](ByteSpan bytes) { return records.add(bytes); }));
    return records.finish();
  }

  const turn::StoredTree& tree_;
  ImportStream out_;
  std::unordered_map<uint64_t, std::string> links_;  // first path of every file with several names
};

}  // namespace

sys::Status write_version(const turn::StoredTree& tree, const TakePiece& take) {
  return Writer(tree, take).run();
}

sys::Result<Fed> feed_version(const turn::StoredTree& tree, control::Client& files, std::string_view target) {
  if (target == "workspace" && tree.ref().kind != store::ObjectKind::dir) {
    return sys::fail(sys::ErrorKind::invalid,
                     "this version is one file, not a workspace; use `turnbox workspace cat`");
  }
  Fed fed;
  const TakePiece take = [&](sys::Fd memfd, bool more) -> sys::Status {
    TRY_ASSIGN(const control::Imported so_far, files.import(target, memfd.get(), more));
    fed = {so_far.entries, so_far.bytes};
    return {};
  };
  TRY(write_version(tree, take));
  return fed;
}

}  // namespace turnbox::demand
