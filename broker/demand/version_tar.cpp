// A version as a pax archive (POSIX.1-2001 «pax interchange format», on ustar headers).
#include <array>
#include <unordered_map>

#include "broker/demand/version_export.h"
#include "vmm/sys/fd.h"

namespace turnbox::demand {
namespace {

using sys::ByteSpan;
using sys::Status;
using turn::TreeEntry;

constexpr size_t kBlock = 512;
constexpr size_t kRecord = 20 * kBlock;
constexpr size_t kMostName = 100;  // of a name in a ustar header without its prefix field
constexpr uint64_t kMostOctal = (uint64_t{1} << 33) - 1;  // 11 digits
constexpr uint32_t kMostId = (1U << 21) - 1;              // 7 digits

class Archive {
 public:
  Archive(const turn::StoredTree& tree, int fd) : tree_(tree), fd_(fd) {}

  Status run() {
    TRY(tree_.visit([this](const TreeEntry& entry) { return put(entry); }));
    TRY(write(std::as_bytes(std::span(kZeros).first(2 * kBlock))));
    return pad(kRecord);
  }
  std::vector<std::string> left_out() && { return std::move(left_out_); }

 private:
  struct Head {
    char flag;
    std::string link = {};
    uint64_t size = 0;
    turn::StoredTree::Device device = {};
  };

  Status put(const TreeEntry& entry) {
    if (entry.type != 'd' && entry.nlink > 1) {
      const auto [first, added] = links_.try_emplace(entry.ino, entry.path);
      if (!added) return put_head(entry, {.flag = '1', .link = first->second});
    }
    switch (entry.type) {
      case 'd':
        return put_head(entry, {.flag = '5'});
      case 'p':
        return put_head(entry, {.flag = '6'});
      case 'l': {
        TRY_ASSIGN(std::string target, tree_.target(entry.digest));
        return put_head(entry, {.flag = '2', .link = std::move(target)});
      }
      case 'c':
      case 'b': {
        TRY_ASSIGN(const auto device, tree_.device(entry.digest));
        return put_head(entry, {.flag = entry.type == 'c' ? '3' : '4', .device = device});
      }
      case 's':
        left_out_.push_back(entry.path);
        return {};
      default: {
        TRY_ASSIGN(const uint64_t size, tree_.size(entry.digest));
        TRY(put_head(entry, {.flag = '0', .size = size}));
        TRY(tree_.content(entry.digest, [this](ByteSpan bytes) { return write(bytes); }));
        return pad(kBlock);
      }
    }
  }

  // «LENGTH KEY=VALUE\n», where the length counts itself.
  static void add_record(std::string& to, std::string_view key, std::string_view value) {
    const size_t rest = key.size() + value.size() + 3;
    size_t length = rest + 1;
    while (std::to_string(length).size() + rest != length) length = std::to_string(length).size() + rest;
    to += std::to_string(length) + " " + std::string(key) + "=" + std::string(value) + "\n";
  }

  static std::string time_text(const TreeEntry& entry) {
    // The fraction counts upwards from the second, which below 1970 has to be written downwards.
    const bool before = entry.mtime_sec < 0 && entry.mtime_nsec > 0;
    const int64_t sec = before ? entry.mtime_sec + 1 : entry.mtime_sec;
    const uint32_t nsec = before ? 1'000'000'000 - entry.mtime_nsec : entry.mtime_nsec;
    char text[48];
    std::snprintf(text, sizeof text, "%s%lld.%09u", before && sec == 0 ? "-" : "",
                  static_cast<long long>(sec), nsec);
    return text;
  }

  std::string extended(const TreeEntry& entry, const Head& head, const std::string& name) const {
    std::string records;
    if (name.size() > kMostName) add_record(records, "path", name);
    if (head.link.size() > kMostName) add_record(records, "linkpath", head.link);
    if (head.size > kMostOctal) add_record(records, "size", std::to_string(head.size));
    if (entry.uid > kMostId) add_record(records, "uid", std::to_string(entry.uid));
    if (entry.gid > kMostId) add_record(records, "gid", std::to_string(entry.gid));
    if (entry.mtime_nsec != 0 || entry.mtime_sec < 0 || static_cast<uint64_t>(entry.mtime_sec) > kMostOctal)
      add_record(records, "mtime", time_text(entry));
    if (head.flag != '1') {
      for (const auto& [key, value] : entry.xattrs) add_record(records, "SCHILY.xattr." + key, value);
    }
    return records;
  }

  Status put_head(const TreeEntry& entry, const Head& head) {
    std::string name = entry.path.empty() ? "." : entry.path;
    if (entry.type == 'd') name += "/";
    if (const std::string records = extended(entry, head, name); !records.empty()) {
      TRY(put_block("pax-header", {.flag = 'x', .size = records.size()}, {}));
      TRY(write(sys::as_bytes(records)));
      TRY(pad(kBlock));
    }
    return put_block(name, head, entry);
  }

  Status put_block(const std::string& name, const Head& head, const TreeEntry& entry) {
    std::array<char, kBlock> block{};
    // Octal digits, with leading zeros and a NUL behind them.
    const auto field = [&](size_t at, size_t width, uint64_t value) {
      for (size_t i = width - 1; i-- > 0; value /= 8) block[at + i] = static_cast<char>('0' + value % 8);
    };
    name.copy(block.data(), kMostName);
    field(100, 8, entry.mode);
    field(108, 8, entry.uid > kMostId ? 0 : entry.uid);
    field(116, 8, entry.gid > kMostId ? 0 : entry.gid);
    field(124, 12, head.size > kMostOctal ? 0 : head.size);
    const bool plain_time = entry.mtime_sec >= 0 && static_cast<uint64_t>(entry.mtime_sec) <= kMostOctal;
    field(136, 12, plain_time ? static_cast<uint64_t>(entry.mtime_sec) : 0);
    block[156] = head.flag;
    head.link.copy(block.data() + 157, kMostName);
    std::string_view("ustar").copy(block.data() + 257, 5);
    block[263] = block[264] = '0';
    field(329, 8, head.device.major);
    field(337, 8, head.device.minor);
    std::fill_n(block.begin() + 148, 8, ' ');
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    field(148, 7, sum);
    block[154] = '\0';  // and then the space that is there
    return write(std::as_bytes(std::span(block)));
  }

  Status write(ByteSpan bytes) {
    written_ += bytes.size();
    return sys::write_full(fd_, bytes);
  }
  Status pad(size_t to) {
    const size_t over = written_ % to;
    return over == 0 ? Status() : write(std::as_bytes(std::span(kZeros).first(to - over)));
  }

  static constexpr std::array<char, kRecord> kZeros{};
  const turn::StoredTree& tree_;
  int fd_;
  uint64_t written_ = 0;
  std::unordered_map<uint64_t, std::string> links_;
  std::vector<std::string> left_out_;
};

}  // namespace

sys::Result<std::vector<std::string>> export_version_tar(const turn::StoredTree& tree, int fd) {
  Archive archive(tree, fd);
  TRY(archive.run());
  return std::move(archive).left_out();
}

}  // namespace turnbox::demand
