#include "broker/turn/meta_reader.h"

namespace turnbox::turn {

using sys::ErrorKind;
using sys::Status;

std::optional<MetaRow> MetaReader::take(sys::ByteReader& reader) {
  const auto text = [&](uint64_t length) {
    const auto bytes = reader.take(length);
    return bytes ? std::string(sys::as_text(*bytes)) : std::string();
  };
  MetaRow row;
  row.path = text(reader.take_le<uint32_t>().value_or(0));
  row.ino = reader.take_le<uint64_t>().value_or(0);
  row.uid = reader.take_le<uint32_t>().value_or(0);
  row.gid = reader.take_le<uint32_t>().value_or(0);
  row.nlink = reader.take_le<uint32_t>().value_or(0);
  row.mtime_sec = reader.take_le<int64_t>().value_or(0);
  row.mtime_nsec = reader.take_le<uint32_t>().value_or(0);
  row.mode = reader.take_le<uint32_t>().value_or(0);
  const auto xattrs = reader.take_le<uint16_t>().value_or(0);
  for (unsigned i = 0; i < xattrs && !reader.failed(); ++i) {
    std::string name = text(reader.take_le<uint16_t>().value_or(0));
    std::string value = text(reader.take_le<uint32_t>().value_or(0));
    row.xattrs.emplace_back(std::move(name), std::move(value));
  }
  if (reader.failed()) return std::nullopt;
  return row;
}

Status MetaReader::feed(sys::ByteSpan bytes) {
  sys::append(pending_, bytes);
  size_t used = 0;
  while (used < pending_.size()) {
    sys::ByteReader reader(sys::ByteSpan(pending_).subspan(used));
    const auto row = take(reader);
    if (!row) break;  // the rest of it comes with the next piece
    if (row->mtime_nsec >= 1'000'000'000 || row->mode > 07777) {
      return sys::fail(ErrorKind::invalid,
                       "the meta row of '" + row->path + "' has an impossible time or mode");
    }
    used = pending_.size() - reader.remaining();
    TRY(visit_(*row));
  }
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(used));
  return {};
}

Status MetaReader::finish() const {
  if (!pending_.empty()) return sys::fail(ErrorKind::invalid, "the meta ends inside a row");
  return {};
}

}  // namespace turnbox::turn
