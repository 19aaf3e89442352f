#include "fs/turn/events.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fs/turn/event_line.h"
#include "fs/turn/lift.h"
#include "vmm/sys/bytes.h"

namespace turnbox::turn {
namespace {

const fs::Caller kHost{.host = true};

}  // namespace

fs::Expected<fs::Ino> Events::make(fs::Ino dir) {
  const fs::ZoneId zone = tree_.add_zone({fs::ZoneState::writable, fs::ZoneUse::log});
  auto file = tree_.create(dir, "events", {.type = fs::Type::regular, .mode = 0666, .zone = zone}, kHost);
  if (!file) return tl::make_unexpected(file.error());
  logs_[file->ino] = Log{.zone = zone};
  return file->ino;
}

void Events::seal(fs::Ino file) {
  const auto log = logs_.find(file);
  if (log == logs_.end()) return;
  log->second.sealed = true;
  tree_.set_zone_state(log->second.zone, fs::ZoneState::sealed);
  for (auto it = unfinished_.lower_bound({file, 0}); it != unfinished_.end() && it->first.first == file;) {
    unfinished_bytes_ -= it->second.size();
    it = unfinished_.erase(it);
  }
}

uint64_t Events::lines(fs::Ino file) const {
  const auto log = logs_.find(file);
  return log == logs_.end() ? 0 : log->second.lines;
}

sys::Result<std::string> Events::read(fs::Ino file) const {
  const auto log = logs_.find(file);
  if (log == logs_.end()) return sys::fail(sys::ErrorKind::not_found, "no such event log");
  std::vector<std::span<const std::byte>> spans;
  TRY_ASSIGN(const size_t size,
             lift(tree_.read(file, 0, log->second.size, spans), "cannot read the event log"));
  std::string text;
  text.reserve(size);
  for (const auto& span : spans) text.append(sys::as_text(span));
  return text;
}

fs::Expected<void> Events::write(fs::Ino file, Log& log, std::string_view lines) {
  size_t at = 0;
  const auto fill = [&](std::span<std::byte> into) {
    std::memcpy(into.data(), lines.data() + at, into.size());
    at += into.size();
  };
  const auto written = tree_.write(file, log.size, lines.size(), fill, false, kHost);
  if (!written) return tl::make_unexpected(written.error());
  log.size += lines.size();
  log.lines += static_cast<uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
  return {};
}

sys::Status Events::append_own(fs::Ino file, std::string_view event_json) {
  const auto found = logs_.find(file);
  if (found == logs_.end()) return sys::fail(sys::ErrorKind::not_found, "no such event log");
  Log& log = found->second;
  if (log.sealed) return sys::fail(sys::ErrorKind::conflict, "the turn has ended; its event log is closed");
  std::string line = "{\"";
  line.append(kOwnMember).append("\":").append(event_json).append("}\n");
  if (line.size() > limits_.line) {
    return sys::fail(sys::ErrorKind::limit, "an event of " + std::to_string(line.size()) +
                                                " bytes is longer than " + std::to_string(limits_.line));
  }
  if (log.size - log.guest_bytes + line.size() > limits_.own_bytes) {
    return sys::fail(sys::ErrorKind::limit,
                     "the turn's budget for the daemon's events is used up; end the turn");
  }
  return lift(write(file, log, line), "cannot append an event");
}

void Events::keep_unfinished(const Writer& writer, std::string_view text) {
  const auto old = unfinished_.find(writer);
  if (old != unfinished_.end()) {
    unfinished_bytes_ -= old->second.size();
    unfinished_.erase(old);
  }
  if (text.empty()) return;
  unfinished_bytes_ += text.size();
  unfinished_.emplace(writer, text);
}

fs::Expected<size_t> Events::append(fs::Ino file, uint64_t handle, std::span<const std::byte> bytes) {
  const auto found = logs_.find(file);
  if (found == logs_.end()) return fs::err(EIO);
  Log& log = found->second;
  if (log.sealed) return fs::err(EROFS);

  // Copied before the first look: the bytes may be guest memory, which changes under the reader.
  const Writer writer{file, handle};
  std::string text;
  const auto before = unfinished_.find(writer);
  const size_t unfinished = before == unfinished_.end() ? 0 : before->second.size();
  if (before != unfinished_.end()) text = before->second;
  text.append(sys::as_text(bytes));

  const size_t end = text.rfind('\n') + 1;  // 0 when no line is whole
  const std::string_view lines = std::string_view(text).substr(0, end);
  const std::string_view rest = std::string_view(text).substr(end);
  bool good = rest.size() < limits_.line;
  for (size_t at = 0; good && at < lines.size();) {
    const size_t newline = lines.find('\n', at);
    good = newline + 1 - at <= limits_.line &&
           check_event_line(lines.substr(at, newline - at)) == EventLine::object;
    at = newline + 1;
  }
  if (!good) {
    keep_unfinished(writer, {});
    return fs::err(EINVAL);
  }
  if (log.guest_bytes + lines.size() > limits_.guest_bytes ||
      unfinished_bytes_ - unfinished + rest.size() > limits_.unfinished_bytes) {
    return fs::err(ENOSPC);
  }
  if (!lines.empty()) {
    if (auto written = write(file, log, lines); !written) return tl::make_unexpected(written.error());
    log.guest_bytes += lines.size();
  }
  keep_unfinished(writer, rest);
  return bytes.size();
}

void Events::closed(fs::Ino file, uint64_t handle) {
  keep_unfinished({file, handle}, {});
}

}  // namespace turnbox::turn
