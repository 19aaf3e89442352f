#include "fs/virtiofs/request.h"

#include <cerrno>

#include "vmm/sys/result.h"

namespace turnbox::virtiofs {

namespace {

// Cuts the string that ends at the next NUL off the front of `text`.
fs::Expected<std::string_view> take_string(std::string_view& text) {
  const size_t end = text.find('\0');
  if (end == std::string_view::npos) return fs::err(EINVAL);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end + 1);
  return taken;
}

fs::Expected<void> check_target(std::string_view target) {
  if (target.empty()) return fs::err(ENOENT);  // as symlink(2)
  if (target.size() > kMaxTarget) return fs::err(ENAMETOOLONG);
  return {};
}

fs::Expected<void> take_names(Tail tail, std::string_view text, std::array<std::string_view, 2>& names) {
  const size_t count = tail == Tail::name ? 1 : 2;
  for (size_t i = 0; i < count; ++i) {
    TRY_ASSIGN(names[i], take_string(text));
    TRY(i == 1 && tail == Tail::name_and_target ? check_target(names[i]) : check_name(names[i]));
  }
  if (!text.empty()) return fs::err(EINVAL);
  return {};
}

// The name of an attribute ends inside the bytes that were copied, or is too long.
fs::Expected<void> check_attribute(std::string_view name) {
  if (name.empty()) return fs::err(EINVAL);
  if (name.size() > kMaxName) return fs::err(ERANGE);
  return {};
}

}  // namespace

fs::Expected<void> check_name(std::string_view name) {
  if (name.empty() || name == "." || name == "..") return fs::err(EINVAL);
  if (name.size() > kMaxName) return fs::err(ENAMETOOLONG);
  if (name.find('/') != std::string_view::npos || name.find('\0') != std::string_view::npos)
    return fs::err(EINVAL);
  return {};
}

fs::Expected<Request> decode(const Opcode& op, const fuse_in_header& head, vhost::ChainReader reader,
                             ArgBuffer& buffer) {
  Request request{.head = head, .args = {}, .names = {}, .rest = reader};
  size_t copy = op.args;
  switch (op.tail) {
    case Tail::nothing:
      if (reader.remaining() != op.args) return fs::err(EINVAL);
      break;
    case Tail::bytes:
      if (reader.remaining() < op.args) return fs::err(EINVAL);
      break;
    case Tail::unread:
      if (reader.remaining() < op.args) return fs::err(EINVAL);
      copy = std::min(reader.remaining(), kMaxArgs);
      break;
    case Tail::name:
    case Tail::two_names:
    case Tail::name_and_target:
      if (reader.remaining() < op.args) return fs::err(EINVAL);
      if (reader.remaining() > kMaxArgs) return fs::err(ENAMETOOLONG);
      copy = reader.remaining();
      break;
    case Tail::xattr:
    case Tail::xattr_and_bytes:
      if (reader.remaining() < op.args) return fs::err(EINVAL);
      copy = std::min(reader.remaining(), op.args + kMaxName + 1);
      break;
  }
  const vhost::ChainReader whole = reader;
  if (!reader.read(std::span(buffer).first(copy))) return fs::err(EINVAL);
  request.args = std::span(buffer).first(copy);
  request.rest = reader;
  if (op.tail == Tail::name || op.tail == Tail::two_names || op.tail == Tail::name_and_target) {
    TRY(take_names(op.tail, sys::as_text(request.args.subspan(op.args)), request.names));
  }
  if (op.tail == Tail::xattr || op.tail == Tail::xattr_and_bytes) {
    std::string_view text = sys::as_text(request.args.subspan(op.args));
    if (text.size() > kMaxName && text.find('\0') == text.npos) return fs::err(ERANGE);
    TRY_ASSIGN(request.names[0], take_string(text));
    TRY(check_attribute(request.names[0]));
    request.rest = whole;
    TURNBOX_ASSERT(request.rest.skip(op.args + request.names[0].size() + 1));
    if (op.tail == Tail::xattr && request.rest.remaining() > 0) return fs::err(EINVAL);
  }
  return request;
}

}  // namespace turnbox::virtiofs
