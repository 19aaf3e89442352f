#include "broker/demand/spool.h"

#include <fcntl.h>
#include <stdlib.h>

#include <unordered_set>

#include "broker/store/object_format.h"

namespace turnbox::demand {
namespace {

using sys::ErrorKind;
using sys::Result;
using sys::Status;

Result<sys::Fd> unlinked_file() {
  const char* chosen = ::getenv("TMPDIR");
  const std::string directory = chosen != nullptr && *chosen != '\0' ? chosen : "/var/tmp";
  return sys::open_fd(directory.c_str(), O_TMPFILE | O_RDWR, 0600);
}

}  // namespace

Result<Spool> Spool::take(control::Client& files, std::string_view of, std::span<const sys::Digest> have) {
  Spool spool;
  TRY_ASSIGN(spool.file_, unlinked_file());
  TRY_ASSIGN(const control::SnapshotId snapshot, files.snapshot_take(of));
  TRY_ASSIGN(const control::SubtreeDigest digest, files.digest(snapshot, "workspace"));
  spool.ref_ = {static_cast<store::ObjectKind>(digest.kind), digest.content, digest.meta};
  uint64_t end = 0;
  TRY(files.objects(snapshot, "workspace", have, [&](const control::Object& object) -> Status {
    if (auto written = sys::write_full(spool.file_.get(), object.bytes); !written) return written;
    spool.index_[object.digest] = {static_cast<store::ObjectKind>(object.kind), end,
                                   static_cast<uint32_t>(object.bytes.size())};
    end += object.bytes.size();
    return {};
  }));
  return spool;
}

turn::StoredTree Spool::tree(turn::Fetch rest) const {
  return turn::StoredTree(fetch(std::move(rest)), ref_);
}

turn::Fetch Spool::fetch(turn::Fetch rest) const {
  return [this, rest = std::move(rest)](const sys::Digest& digest,
                                        sys::Bytes& scratch) -> Result<store::Reader::Found> {
    const auto found = index_.find(digest);
    if (found == index_.end()) {
      if (rest) return rest(digest, scratch);
      return sys::fail(ErrorKind::not_found, "object " + sys::to_hex(digest) + " was not handed over");
    }
    scratch.resize(found->second.size);
    TRY_ASSIGN(const size_t got, sys::pread_full(file_.get(), scratch, found->second.offset));
    if (got != scratch.size()) return sys::fail(ErrorKind::io, "the spooled objects were cut");
    return store::Reader::Found{found->second.kind, scratch};
  };
}

Result<std::vector<sys::Digest>> objects_below(const turn::Fetch& fetch, const turn::TreeRef& tree) {
  std::unordered_set<sys::Digest> known;
  std::vector<sys::Digest> todo{tree.content, tree.meta};
  sys::Bytes scratch;
  while (!todo.empty()) {
    const sys::Digest digest = todo.back();
    todo.pop_back();
    if (!known.insert(digest).second) continue;
    TRY_ASSIGN(const auto found, fetch(digest, scratch));
    TRY(store::for_each_child(found.kind, found.bytes, [&](const store::Child& child) -> Status {
      todo.push_back(child.digest);
      return {};
    }));
  }
  return std::vector(known.begin(), known.end());
}

}  // namespace turnbox::demand
