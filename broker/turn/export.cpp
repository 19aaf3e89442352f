#include "broker/turn/export.h"

#include <algorithm>
#include <cstdio>

#include "broker/turn/object_walk.h"
#include "broker/turn/record.h"
#include "vmm/sys/fd.h"

namespace turnbox::turn {

using sys::ByteSpan;
using sys::ErrorKind;
using sys::Result;
using sys::Status;

namespace {

constexpr size_t kBlock = 512;
constexpr size_t kRecord = 20 * kBlock;  // what tar pads a file to

// A ustar stream of regular files.
class Tar {
 public:
  explicit Tar(int fd) : fd_(fd) {}

  Status add(const std::string& name, ByteSpan bytes) {
    TURNBOX_ASSERT(name.size() < 100);
    if (bytes.size() >= uint64_t{1} << 33)
      return sys::fail(ErrorKind::limit, name + " is too large for a ustar archive");
    std::array<char, kBlock> head{};
    const auto field = [&](size_t at, const char* format, auto value) {
      std::snprintf(head.data() + at, kBlock - at, format, value);
    };
    field(0, "%s", name.c_str());
    field(100, "%07o", 0644U);
    field(108, "%07o", 0U);
    field(116, "%07o", 0U);
    field(124, "%011llo", static_cast<unsigned long long>(bytes.size()));
    field(136, "%011o", 0U);
    head[156] = '0';
    field(257, "%s", "ustar");
    head[263] = head[264] = '0';
    std::fill_n(head.begin() + 148, 8, ' ');
    unsigned sum = 0;
    for (const char c : head) sum += static_cast<unsigned char>(c);
    field(148, "%06o", sum);  // then NUL and the space that is there
    TRY(write(std::as_bytes(std::span(head))));
    TRY(write(bytes));
    return pad(kBlock);
  }

  Status finish() {
    TRY(write(std::as_bytes(std::span(kZeros).first(2 * kBlock))));
    return pad(kRecord);
  }

 private:
  Status write(ByteSpan bytes) {
    written_ += bytes.size();
    return sys::write_full(fd_, bytes);
  }
  Status pad(size_t to) {
    const size_t over = written_ % to;
    return over == 0 ? Status() : write(std::as_bytes(std::span(kZeros).first(to - over)));
  }
  static constexpr std::array<char, kRecord> kZeros{};
  int fd_;
  uint64_t written_ = 0;
};

// Everything that can be reached, each object hashed, by digest.
Result<std::vector<std::pair<sys::Digest, store::ObjectKind>>> reachable(ObjectWalk& walk,
                                                                         const Draft& draft) {
  std::vector<std::pair<sys::Digest, store::ObjectKind>> found;
  std::unordered_set<sys::Digest> known;
  std::vector<store::Root> todo = roots_of(draft);
  sys::Bytes scratch;
  while (!todo.empty()) {
    const store::Root root = todo.back();
    todo.pop_back();
    if (!known.insert(root.digest).second) continue;
    TRY_ASSIGN(const ByteSpan bytes, walk.read(root.kind, root.digest, scratch));
    found.emplace_back(root.digest, root.kind);
    const auto add = [&](const store::Child& child) -> Status {
      auto kind = child.kind;
      if (child.or_chunk && !known.contains(child.digest)) {
        TRY_ASSIGN(kind, walk.kind_of(child.digest));
      }
      todo.push_back({kind, child.digest});
      return {};
    };
    TRY(store::for_each_child(root.kind, bytes, add));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

Status export_tar(Ledger& ledger, std::string_view turn_or_prefix, int fd) {
  TRY_ASSIGN(const store::Reader reader, ledger.store().read());
  TRY_ASSIGN(const store::StoredRecord stored, reader.load_record(turn_or_prefix));
  TRY_ASSIGN(const Record record, read_record(stored.record.bytes));
  ObjectWalk walk(reader, stored.account);
  TRY_ASSIGN(const auto objects, reachable(walk, record.draft));
  Tar tar(fd);
  TRY(tar.add("record.json", sys::as_bytes(stored.record.bytes)));
  TRY(tar.add("record.sig", stored.record.signature));
  TRY(tar.add("public.key", stored.record.public_key));
  for (uint64_t i = 0; i < stored.chain_index; ++i) {
    TRY_ASSIGN(const auto earlier, reader.record_at(stored.account, stored.demand, i));
    const std::string stem = "chain/" + std::to_string(i);
    TRY(tar.add(stem + ".json", sys::as_bytes(earlier.record.bytes)));
    TRY(tar.add(stem + ".sig", earlier.record.signature));
    TRY(tar.add(stem + ".key", earlier.record.public_key));
  }
  sys::Bytes scratch;
  for (const auto& [digest, kind] : objects) {
    TRY_ASSIGN(const ByteSpan bytes, walk.read(kind, digest, scratch));
    TRY(tar.add("objects/" + sys::to_hex(digest), bytes));
  }
  return tar.finish();
}

}  // namespace turnbox::turn
