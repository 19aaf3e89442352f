#include "fs/control/change_list.h"

namespace turnbox::control {

char letter_of(fs::Type type) {
  switch (type) {
    case fs::Type::regular:
      return 'f';
    case fs::Type::directory:
      return 'd';
    case fs::Type::symlink:
      return 'l';
    case fs::Type::character:
      return 'c';
    case fs::Type::block:
      return 'b';
    case fs::Type::fifo:
      return 'p';
    case fs::Type::socket:
      return 's';
  }
  sys::bug(__FILE__, __LINE__, "a type outside fs::Type");
}

void append_change(sys::Bytes& to, char change, char type, std::string_view path) {
  sys::append_le(to, change);
  sys::append_le(to, type);
  sys::append_le(to, uint16_t{0});
  sys::append_le(to, static_cast<uint32_t>(path.size()));
  sys::append(to, sys::as_bytes(path));
}

sys::Status read_change_list(
    sys::ByteSpan bytes, const std::function<void(char change, char type, std::string_view path)>& visit) {
  constexpr std::string_view kChanges = "+~-";
  constexpr std::string_view kTypes = "fdlpcbs";
  sys::ByteReader reader(bytes);
  while (reader.remaining() > 0) {
    const auto change = reader.take_le<char>();
    const auto type = reader.take_le<char>();
    const auto zero = reader.take_le<uint16_t>();
    const auto size = reader.take_le<uint32_t>();
    const auto path = reader.take(size.value_or(0));
    if (reader.failed() || kChanges.find(*change) == kChanges.npos || kTypes.find(*type) == kTypes.npos ||
        *zero != 0 || *size == 0) {
      return sys::fail(sys::ErrorKind::protocol, "turnbox-fsd sent a broken change list");
    }
    visit(*change, *type, sys::as_text(*path));
  }
  return {};
}

}  // namespace turnbox::control
