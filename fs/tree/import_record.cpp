#include "fs/tree/import_record.h"

#include "fs/tree/walk.h"

namespace turnbox::fs {
namespace {

constexpr uint32_t kNsecs = 1'000'000'000;

const char* check_path(std::string_view path) {
  if (path.size() > kMaxPath) return "its path passes 65,536 bytes";
  if (path.find('\0') != path.npos) return "its path holds a NUL byte";
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, slash);
    if (name.empty() || name == "." || name == "..") return "its path has an empty name, \".\" or \"..\"";
    if (name.size() > 255) return "a name passes 255 bytes";
    if (slash + 1 == path.size()) return "its path ends with a slash";
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return nullptr;
}

const char* check_body(const ImportRecord& record) {
  switch (record.type) {
    case 'f':
    case 'x':
    case 'a':
      return nullptr;  // looked at while it is written
    case 'l':
      return record.body.empty() ? "a symlink without a target" : nullptr;
    case 'h':
      return record.body.empty() ? "a hard link to the root" : check_path(sys::as_text(record.body));
    default:
      return record.body.empty() ? nullptr : "it has a body, which its type has not";
  }
}

}  // namespace

sys::Result<ImportRecord> take_record(sys::ByteReader& reader) {
  ImportRecord record{};
  const auto take = [&reader](auto& field) {
    const auto value = reader.take_le<std::remove_reference_t<decltype(field)>>();
    if (value) field = *value;
  };
  uint32_t path_size = 0;
  uint64_t body_size = 0;
  take(record.type);
  take(record.zero);
  take(record.mode);
  take(record.uid);
  take(record.gid);
  take(record.mtime.sec);
  take(record.mtime.nsec);
  take(record.rdev);
  take(path_size);
  take(body_size);
  const auto path = reader.take(path_size);
  const auto body = reader.take(body_size);
  if (reader.failed() || !path || !body)
    return sys::fail(sys::ErrorKind::protocol, "import stream: cut in the middle of a record");
  record.path = sys::as_text(*path);
  record.body = *body;
  return record;
}

const char* check_record(const ImportRecord& record) {
  if (std::string_view("dflhpcbsxae").find(record.type) == std::string_view::npos)
    return "a record of unknown type";
  if (record.zero != 0) return "a byte that must be zero is not";
  if ((record.mode & ~07777) != 0) return "its mode has bits beyond 07777";
  if (record.mtime.nsec >= kNsecs) return "its time has a second of more than 999,999,999 nanoseconds";
  if (record.uid == UINT32_MAX || record.gid == UINT32_MAX) return "its owner is no uid or gid";
  if (record.rdev != 0 && record.type != 'c' && record.type != 'b')
    return "a device number for what is no device";
  if (record.type == 'e' && !record.path.empty()) return "the end record has a path";
  if (const char* wrong = check_path(record.path)) return wrong;
  return check_body(record);
}

}  // namespace turnbox::fs
