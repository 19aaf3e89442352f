#include "fs/control/entry_list.h"

namespace turnbox::control {

void append_entry(sys::Bytes& to, const ListedEntry& entry) {
  sys::append_le(to, static_cast<uint8_t>(entry.type));
  sys::append_le(to, uint8_t{0});
  sys::append_le(to, entry.mode);
  sys::append_le(to, entry.uid);
  sys::append_le(to, entry.gid);
  sys::append_le(to, entry.size);
  sys::append_le(to, entry.mtime_sec);
  sys::append_le(to, entry.mtime_nsec);
  sys::append_le(to, static_cast<uint32_t>(entry.name.size()));
  sys::append(to, sys::as_bytes(entry.name));
}

sys::Status read_entry_list(sys::ByteSpan bytes, const std::function<void(ListedEntry)>& visit) {
  sys::ByteReader reader(bytes);
  while (reader.remaining() > 0) {
    ListedEntry entry;
    entry.type = static_cast<char>(reader.take_le<uint8_t>().value_or(0));
    const auto zero = reader.take_le<uint8_t>();
    entry.mode = reader.take_le<uint16_t>().value_or(0);
    entry.uid = reader.take_le<uint32_t>().value_or(0);
    entry.gid = reader.take_le<uint32_t>().value_or(0);
    entry.size = reader.take_le<uint64_t>().value_or(0);
    entry.mtime_sec = reader.take_le<int64_t>().value_or(0);
    entry.mtime_nsec = reader.take_le<uint32_t>().value_or(0);
    const auto name = reader.take(reader.take_le<uint32_t>().value_or(0));
    if (reader.failed() || zero != 0 || !name ||
        std::string_view("fdlcbps").find(entry.type) == std::string_view::npos) {
      return sys::fail(sys::ErrorKind::protocol, "an entry list of turnbox-fsd breaks its format");
    }
    entry.name = sys::as_text(*name);
    visit(std::move(entry));
  }
  return {};
}

}  // namespace turnbox::control
