// What one line of an event log may be.
#pragma once

#include <string_view>

namespace turnbox::turn {

inline constexpr std::string_view kOwnMember = "turnbox";  // only the daemon's own events have it at the top
inline constexpr unsigned kMaxEventDepth = 32;

enum class EventLine { refused, object, own };

// `line` without its newline: refused unless it is exactly one JSON object in UTF-8, nested at most
// kMaxEventDepth deep; own when that object has the member `turnbox`. Keeps no value, so its cost is the
// line's length.
EventLine check_event_line(std::string_view line);

}  // namespace turnbox::turn
