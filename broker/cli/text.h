// How the command writes values: names made safe for a terminal, times, durations, sizes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace turnbox::cli {

// Bytes that a guest chose: control characters and bytes outside UTF-8 become \xNN.
std::string printable(std::string_view bytes);
std::string utc(int64_t unix_ns);                      // 2026-03-04 05:06:07Z
std::string seconds(std::chrono::milliseconds value);  // 1.25 s
std::string bytes(uint64_t count);                     // 512 B, 1.5 MiB

}  // namespace turnbox::cli
