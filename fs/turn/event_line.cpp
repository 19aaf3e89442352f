#include "fs/turn/event_line.h"

#include <boost/json/basic_parser_impl.hpp>
#include <cstdint>

namespace turnbox::turn {
namespace {

using boost::json::string_view;
using boost::system::error_code;

// Follows depth and the top-level keys; every value passes by. Keys are compared decoded, so that an escape
// in the reserved one does not hide it.
class Handler {
 public:
  static constexpr size_t max_object_size = SIZE_MAX;
  static constexpr size_t max_array_size = SIZE_MAX;
  static constexpr size_t max_key_size = SIZE_MAX;
  static constexpr size_t max_string_size = SIZE_MAX;

  bool object() const { return object_; }
  bool own() const { return own_; }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code&) {
    if (depth_++ == 0) object_ = true;
    return true;
  }
  bool on_object_end(size_t, error_code&) {
    --depth_;
    return true;
  }
  bool on_array_begin(error_code&) {
    ++depth_;
    return true;
  }
  bool on_array_end(size_t, error_code&) {
    --depth_;
    return true;
  }
  bool on_key_part(string_view part, size_t so_far, error_code&) {
    match(part, so_far);
    return true;
  }
  bool on_key(string_view part, size_t size, error_code&) {
    match(part, size);
    if (depth_ == 1 && matches_ && size == kOwnMember.size()) own_ = true;
    matches_ = true;
    return true;
  }
  bool on_string_part(string_view, size_t, error_code&) { return true; }
  bool on_string(string_view, size_t, error_code&) { return true; }
  bool on_number_part(string_view, error_code&) { return true; }
  bool on_int64(int64_t, string_view, error_code&) { return true; }
  bool on_uint64(uint64_t, string_view, error_code&) { return true; }
  bool on_double(double, string_view, error_code&) { return true; }
  bool on_bool(bool, error_code&) { return true; }
  bool on_null(error_code&) { return true; }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 private:
  // `part` ends at `so_far` of the key.
  void match(string_view part, size_t so_far) {
    const size_t at = so_far - part.size();
    if (so_far > kOwnMember.size() || kOwnMember.substr(at, part.size()) != std::string_view(part))
      matches_ = false;
  }

  unsigned depth_ = 0;
  bool object_ = false;
  bool own_ = false;
  bool matches_ = true;
};

}  // namespace

EventLine check_event_line(std::string_view line) {
  boost::json::parse_options options;
  options.max_depth = kMaxEventDepth;
  boost::json::basic_parser<Handler> parser(options);
  error_code failed;
  const size_t used = parser.write_some(false, line.data(), line.size(), failed);
  if (failed || used != line.size() || !parser.done() || !parser.handler().object())
    return EventLine::refused;
  return parser.handler().own() ? EventLine::own : EventLine::object;
}

}  // namespace turnbox::turn
