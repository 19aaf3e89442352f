// Reads the parameters of one control message: each has a type and a bound, and an unknown one is refused.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vmm/sys/result.h"

namespace turnbox::control {

// Take every parameter, then finish(). Errors have kind invalid and name the parameter.
class Params {
 public:
  explicit Params(const boost::json::object& from) : from_(from) {}

  sys::Result<std::string> text(std::string_view key);  // at most 4,096 bytes
  sys::Result<std::optional<std::string>> text_if_any(std::string_view key);
  sys::Result<std::string> bytes(std::string_view key);  // a string, or {"b16": "…"} where it is no UTF-8
  sys::Result<uint64_t> number(std::string_view key);    // below 2^53
  sys::Result<bool> flag(std::string_view key);
  sys::Result<const boost::json::object*> object(std::string_view key);
  sys::Result<std::vector<std::string>> texts(std::string_view key);  // at most 1,024 of them
  sys::Status finish() const;                                         // no parameter is left that nobody took

 private:
  const boost::json::value* take(std::string_view key);
  const boost::json::object& from_;
  std::vector<std::string_view> taken_;
};

}  // namespace turnbox::control
