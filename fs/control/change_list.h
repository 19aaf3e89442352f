// Change lists (docs/WIRE.md, «Change list»): written by fsd, read by the broker.
#pragma once

#include <functional>

#include "fs/control/protocol.h"

namespace turnbox::control {

// The letter of a type in a change list and in the record's `dir` rows.
char letter_of(fs::Type type);

void append_change(sys::Bytes& to, char change, char type, std::string_view path);

// Visits every record; kind protocol when the bytes break the format.
sys::Status read_change_list(sys::ByteSpan bytes,
                             const std::function<void(char change, char type, std::string_view path)>& visit);

}  // namespace turnbox::control
