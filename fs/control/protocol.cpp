#include "fs/control/protocol.h"

#include <array>
#include <utility>

namespace turnbox::control {
namespace {

using sys::ErrorKind;
constexpr std::array<std::pair<ErrorKind, Code>, 6> kCodes{{
    {ErrorKind::invalid, kInvalidParams},
    {ErrorKind::not_found, kNotFound},
    {ErrorKind::conflict, kConflict},
    {ErrorKind::refused, kRefused},
    {ErrorKind::limit, kLimit},
    {ErrorKind::unavailable, kUnavailable},
}};

constexpr std::array<std::pair<std::string_view, ObjectKind>, 6> kKinds{{
    {"chunk", ObjectKind::chunk},
    {"list", ObjectKind::list},
    {"file", ObjectKind::file},
    {"dir", ObjectKind::dir},
    {"symlink", ObjectKind::symlink},
    {"node", ObjectKind::node},
}};

}  // namespace

Code code_of(ErrorKind kind) {
  for (const auto& [ours, code] : kCodes) {
    if (ours == kind) return code;
  }
  // A peer's bulk bytes that break their format are bad parameters of that call.
  return kind == ErrorKind::protocol ? kInvalidParams : kInternal;
}

ErrorKind kind_of(int code) {
  for (const auto& [kind, ours] : kCodes) {
    if (ours == code) return kind;
  }
  return code == kInternal ? ErrorKind::io : ErrorKind::protocol;
}

std::optional<ObjectKind> object_kind(std::string_view name) {
  for (const auto& [ours, kind] : kKinds) {
    if (ours == name) return kind;
  }
  return std::nullopt;
}

bool LineBuffer::feed(sys::ByteSpan bytes, std::vector<sys::Fd> fds) {
  if (start_ > 0) {
    bytes_.erase(0, start_);
    scanned_ -= start_;
    start_ = 0;
  }
  bytes_.append(sys::as_text(bytes));
  for (auto& fd : fds) fds_.push_back(std::move(fd));
  return fds_.size() <= kMaxQueuedFds;
}

LineBuffer::Next LineBuffer::next(std::string& line) {
  while (true) {
    const size_t end = bytes_.find('\n', scanned_);
    if (end == std::string::npos) {
      scanned_ = bytes_.size();
      if (dropping_) {
        start_ = scanned_;
        return Next::none;
      }
      if (bytes_.size() - start_ < longest_) return Next::none;
      start_ = scanned_;
      dropping_ = true;
      return Next::too_long;
    }
    const size_t begin = std::exchange(start_, end + 1);
    scanned_ = start_;
    if (std::exchange(dropping_, false)) continue;
    if (end + 1 - begin > longest_) return Next::too_long;
    line.assign(bytes_, begin, end - begin);
    return Next::line;
  }
}

std::optional<std::vector<sys::Fd>> LineBuffer::take_fds(size_t count) {
  if (fds_.size() < count) return std::nullopt;
  std::vector<sys::Fd> taken;
  for (size_t i = 0; i < count; ++i) {
    taken.push_back(std::move(fds_.front()));
    fds_.pop_front();
  }
  return taken;
}

size_t LineBuffer::drop_stray_fds() {
  if (start_ < bytes_.size()) return 0;
  const size_t stray = fds_.size();
  fds_.clear();
  return stray;
}

}  // namespace turnbox::control
