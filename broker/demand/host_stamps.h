// What every file of a host directory looked like when it was read, so that a later change can be told.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <unordered_map>

namespace turnbox::demand {

struct HostStamp {
  dev_t dev = 0;
  ino_t ino = 0;
  mode_t type = 0;  // S_IFMT
  uint64_t size = 0;
  int64_t mtime_ns = 0, ctime_ns = 0;

  static HostStamp of(const struct stat& st) {
    const auto ns = [](const timespec& at) { return int64_t{at.tv_sec} * 1'000'000'000 + at.tv_nsec; };
    return {st.st_dev,      st.st_ino,     st.st_mode & S_IFMT, static_cast<uint64_t>(st.st_size),
            ns(st.st_mtim), ns(st.st_ctim)};
  }
  // A directory is the same while it is that directory: entries come and go in it.
  bool same_as(const HostStamp& other) const {
    if (dev != other.dev || ino != other.ino || type != other.type) return false;
    return type == S_IFDIR ||
           (size == other.size && mtime_ns == other.mtime_ns && ctime_ns == other.ctime_ns);
  }
};

using HostStamps = std::unordered_map<std::string, HostStamp>;  // by path, raw bytes; the root is ""

}  // namespace turnbox::demand
