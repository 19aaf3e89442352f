// Reads members of fsd's answers: the client's side of a format that a peer may break.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "vmm/sys/result.h"

namespace turnbox::control {

inline tl::unexpected<sys::Error> broken(std::string_view what) {
  return sys::fail(sys::ErrorKind::protocol, "turnbox-fsd's answer has no good " + std::string(what));
}

inline sys::Result<uint64_t> number(const boost::json::object& from, std::string_view key) {
  const boost::json::value* value = from.if_contains(key);
  if (value == nullptr || !value->is_int64() || value->get_int64() < 0) return broken(key);
  return static_cast<uint64_t>(value->get_int64());
}

inline sys::Result<std::string> text(const boost::json::object& from, std::string_view key) {
  const boost::json::value* value = from.if_contains(key);
  if (value == nullptr || !value->is_string()) return broken(key);
  return std::string(value->get_string());
}

}  // namespace turnbox::control
