#include "vmm/vsock/connect.h"

#include <charconv>

namespace turnbox::vsock {

std::optional<uint32_t> parse_connect(std::string_view line) {
  constexpr std::string_view kVerb = "CONNECT ";
  if (line.size() > kMaxConnectLine || !line.starts_with(kVerb) || !line.ends_with('\n')) return std::nullopt;
  const std::string_view digits = line.substr(kVerb.size(), line.size() - kVerb.size() - 1);
  uint32_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty()) return std::nullopt;
  return port;
}

std::string connect_answer(uint32_t host_port) {
  return "OK " + std::to_string(host_port) + "\n";
}

}  // namespace turnbox::vsock
