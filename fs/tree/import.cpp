#include "fs/tree/import.h"

#include <cerrno>
#include <cstring>

#include "fs/tree/import_record.h"
#include "fs/tree/walk.h"

namespace turnbox::fs {
namespace {

using sys::ErrorKind;

constexpr std::string_view kMagic = "TBIMPRT1";
constexpr uint64_t kMaxFile = (uint64_t{1} << 63) - 1;

// A path as a person can read it, whatever bytes it has.
std::string shown(std::string_view path) {
  std::string text = "\"";
  for (const char c : path.substr(0, 300)) {
    if (c >= ' ' && c <= '~' && c != '"' && c != '\\') {
      text += c;
    } else {
      const auto byte = static_cast<std::byte>(c);
      text += "\\x" + sys::to_hex(sys::ByteSpan(&byte, 1));
    }
  }
  return text + (path.size() > 300 ? "…\"" : "\"");
}

tl::unexpected<sys::Error> broken(std::string_view path, std::string_view what) {
  return sys::fail(ErrorKind::protocol, "import of " + shown(path) + ": " + std::string(what));
}

tl::unexpected<sys::Error> failed(std::string_view path, Errno error) {
  const int value = static_cast<int>(error);
  const ErrorKind kind = value == ENOSPC ? ErrorKind::limit : ErrorKind::invalid;
  const char* text =
      value == ENOSPC ? "the sandbox's budget of files, names or bytes is used up" : std::strerror(value);
  return sys::fail(kind, "import of " + shown(path) + ": " + text);
}

#define TRY_VERB(expr, path)                                    \
  do {                                                          \
    auto verb_result = (expr);                                  \
    if (!verb_result) return failed(path, verb_result.error()); \
  } while (0)

const Caller kHost{.host = true};

Type type_of(char letter) {
  switch (letter) {
    case 'd':
      return Type::directory;
    case 'l':
      return Type::symlink;
    case 'p':
      return Type::fifo;
    case 'c':
      return Type::character;
    case 'b':
      return Type::block;
    case 's':
      return Type::socket;
    default:
      return Type::regular;
  }
}

}  // namespace

Importer::Importer(Tree& tree, Ino parent, std::string name, ZoneId zone)
    : tree_(tree), parent_(parent), name_(std::move(name)), zone_(zone) {}

sys::Status Importer::feed(std::span<const std::byte> records) {
  sys::ByteReader reader(records);
  if (!begun_) {
    const auto magic = reader.take(kMagic.size());
    if (!magic || sys::as_text(*magic) != kMagic)
      return sys::fail(ErrorKind::protocol, "no import stream: it does not begin with TBIMPRT1");
    begun_ = true;
  }
  while (reader.remaining() > 0) {
    if (ended_) return sys::fail(ErrorKind::protocol, "import stream: bytes after its end record");
    TRY_ASSIGN(const ImportRecord record, take_record(reader));
    if (const char* wrong = check_record(record)) return broken(record.path, wrong);
    if (record.type == 'e') {
      ended_ = true;
    } else {
      TRY(apply(record));
      if (record.type != 'x' && record.type != 'a') ++entries_;
    }
  }
  return {};
}

sys::Status Importer::finish() {
  if (!ended_) return sys::fail(ErrorKind::protocol, "import stream: its end record is missing");
  for (const auto& [dir, mtime] : directory_times_) {
    const SetAttr set{.valid = SetAttr::kAtime | SetAttr::kMtime, .atime = mtime, .mtime = mtime};
    TRY_VERB(tree_.setattr(dir, set, kHost), "");
  }
  directory_times_.clear();
  return {};
}

// The inode at `path`, through directories only.
sys::Result<Ino> Importer::find(std::string_view path, std::string_view record_path) {
  Ino at = root_;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const auto attr = tree_.lookup(at, path.substr(0, slash));
    if (!attr) return failed(record_path, attr.error());
    at = attr->ino;
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return at;
}

sys::Result<Importer::Place> Importer::place_of(std::string_view path) {
  if (root_ == kNoIno) {  // no root record: the root must stand there
    const auto there = tree_.lookup(parent_, name_);
    if (!there) return broken(path, "it came before its root");
    root_ = there->ino;
  }
  const size_t slash = path.rfind('/');
  const std::string_view dir = slash == path.npos ? std::string_view() : path.substr(0, slash);
  if (last_dir_ino_ == kNoIno || dir != last_dir_) {
    TRY_ASSIGN(last_dir_ino_, find(dir, path));
    last_dir_ = dir;
  }
  return Place{last_dir_ino_, std::string(path.substr(slash == path.npos ? 0 : slash + 1))};
}

sys::Status Importer::apply(const ImportRecord& record) {
  if (record.type == 'x') return append(record);
  if (record.type == 'a') return set_xattrs(record);
  if (record.path.empty()) return apply_root(record);
  if (record.type == 'h') return apply_link(record);
  TRY_ASSIGN(const Place place, place_of(record.path));
  return make(place, record);
}

sys::Status Importer::apply_root(const ImportRecord& record) {
  if (root_ != kNoIno) return broken(record.path, "the root came twice or too late");
  if (record.type != 'd' && record.type != 'f')
    return broken(record.path, "the root is no directory and no file");
  const auto there = tree_.lookup(parent_, name_);
  if (record.type == 'f' || !there || there->type != Type::directory) return make({parent_, name_}, record);
  root_ = there->ino;
  return set_attributes(root_, record);
}

sys::Status Importer::apply_link(const ImportRecord& record) {
  TRY_ASSIGN(const Place place, place_of(record.path));
  TRY_ASSIGN(const Ino original, find(sys::as_text(record.body), record.path));
  TRY_VERB(tree_.link(original, place.dir, place.name, kHost), record.path);
  return {};
}

sys::Status Importer::make(const Place& place, const ImportRecord& record) {
  Tree::NewNode node{
      .type = type_of(record.type), .mode = record.mode, .rdev = record.rdev, .target = {}, .zone = zone_};
  if (record.type == 'l') node.target = sys::as_text(record.body);
  const auto made = tree_.create(place.dir, place.name, node, kHost);
  if (!made) return failed(record.path, made.error());
  if (record.path.empty()) root_ = made->ino;
  if (record.type == 'f') TRY(write(made->ino, record, 0));
  return set_attributes(made->ino, record);
}

sys::Status Importer::set_attributes(Ino ino, const ImportRecord& record) {
  SetAttr set{.valid = SetAttr::kMode | SetAttr::kUid | SetAttr::kGid | SetAttr::kAtime | SetAttr::kMtime,
              .mode = record.mode,
              .uid = record.uid,
              .gid = record.gid,
              .atime = record.mtime,
              .mtime = record.mtime};
  if (record.type == 'l') set.mode = 0777;
  TRY_VERB(tree_.setattr(ino, set, kHost), record.path);
  if (record.type == 'd') directory_times_[ino] = record.mtime;
  return {};
}

sys::Status Importer::set_xattrs(const ImportRecord& record) {
  if (root_ == kNoIno) return broken(record.path, "it came before its root");
  TRY_ASSIGN(const Ino ino, find(record.path, record.path));
  sys::ByteReader body(record.body);
  while (body.remaining() > 0) {
    const auto name = body.take(body.take_le<uint16_t>().value_or(0));
    const auto value = body.take(body.take_le<uint32_t>().value_or(0));
    if (body.failed() || !name || !value) return broken(record.path, "its body is cut");
    TRY_VERB(tree_.setxattr(ino, sys::as_text(*name), *value, Tree::XattrMode::either, kHost), record.path);
  }
  return {};
}

sys::Status Importer::append(const ImportRecord& record) {
  TRY_ASSIGN(const Ino ino, find(record.path, record.path));
  const auto attr = tree_.getattr(ino);
  if (!attr || attr->type != Type::regular) return broken(record.path, "more content for what is no file");
  TRY(write(ino, record, attr->size));
  const SetAttr set{.valid = SetAttr::kMtime, .mtime = attr->mtime};
  TRY_VERB(tree_.setattr(ino, set, kHost), record.path);
  return {};
}

// Body of `f` and `x`: sets the size (of `f`), then writes the extents.
sys::Status Importer::write(Ino ino, const ImportRecord& record, uint64_t size) {
  sys::ByteReader body(record.body);
  if (record.type == 'f') {
    const auto given = body.take_le<uint64_t>();
    if (!given) return broken(record.path, "its body is cut");
    if (*given > kMaxFile) return broken(record.path, "its size passes 2^63 - 1");
    size = *given;
    const SetAttr set{.valid = SetAttr::kSize, .size = size};
    if (size > 0) TRY_VERB(tree_.setattr(ino, set, kHost), record.path);
  }
  uint64_t least = 0;
  while (body.remaining() > 0) {
    const auto offset = body.take_le<uint64_t>();
    const auto length = body.take_le<uint32_t>();
    if (!offset || !length) return broken(record.path, "its body is cut");
    if (*length == 0) return broken(record.path, "an extent is empty");
    if (*offset < least) return broken(record.path, "its extents are not in ascending order");
    if (*offset > size || *length > size - *offset) return broken(record.path, "an extent passes its size");
    const auto bytes = body.take(*length);
    if (!bytes) return broken(record.path, "its body is cut");
    const std::byte* from = bytes->data();
    const auto fill = [&from](std::span<std::byte> to) {
      std::memcpy(to.data(), from, to.size());
      from += to.size();
    };
    TRY_VERB(tree_.write(ino, *offset, *length, fill, false, kHost), record.path);
    least = *offset + *length;
    bytes_ += *length;
  }
  return {};
}

}  // namespace turnbox::fs
