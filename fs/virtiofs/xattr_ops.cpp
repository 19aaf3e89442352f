// Extended attributes. They are data; namespaces other than user., trusted. and security. answer EOPNOTSUPP.

#include <sys/xattr.h>

#include <cerrno>

#include "fs/virtiofs/server.h"
#include "vmm/sys/result.h"

namespace turnbox::virtiofs {

namespace {

constexpr uint32_t kMaxValue = 65'536;

// Bytes of fuse_setxattr_in as long as FUSE_SETXATTR_EXT is not agreed on.
struct SetxattrIn {
  uint32_t size, flags;
};

}  // namespace

fs::Expected<void> Server::setxattr(const Request& request, Reply&) {
  const auto in = request.arg<SetxattrIn>();
  if (in.size != request.rest.remaining()) return malformed(EINVAL, request.head, "size of an attribute");
  if (in.size > kMaxValue) return fs::err(E2BIG);
  fs::Tree::XattrMode mode = fs::Tree::XattrMode::either;
  switch (in.flags) {
    case 0:
      break;
    case XATTR_CREATE:
      mode = fs::Tree::XattrMode::create;
      break;
    case XATTR_REPLACE:
      mode = fs::Tree::XattrMode::replace;
      break;
    case XATTR_CREATE | XATTR_REPLACE:  // always fails, with one or the other errno
      mode = tree_.getxattr(request.ino, request.names[0]) ? fs::Tree::XattrMode::create
                                                           : fs::Tree::XattrMode::replace;
      break;
    default:
      return malformed(EINVAL, request.head, "flags of an attribute");
  }
  line_.resize(in.size);
  vhost::ChainReader rest = request.rest;
  if (!rest.read(line_)) return fs::err(EINVAL);
  return tree_.setxattr(request.ino, request.names[0], line_, mode, request.caller());
}

// Size 0 asks how much there is.
fs::Expected<void> Server::put_sized(const Request& request, std::span<const std::byte> bytes, Reply& reply) {
  const auto in = request.arg<fuse_getxattr_in>();
  if (in.size == 0) {
    if (reply.room() < sizeof(fuse_getxattr_out))
      return malformed(EINVAL, request.head, "no room for the reply");
    return reply.put_value(fuse_getxattr_out{.size = static_cast<uint32_t>(bytes.size()), .padding = 0});
  }
  if (in.size > reply.room()) return malformed(EINVAL, request.head, "size of an answer");
  if (bytes.size() > in.size) return fs::err(ERANGE);
  return reply.put(bytes);
}

fs::Expected<void> Server::getxattr(const Request& request, Reply& reply) {
  TRY_ASSIGN(const auto value, tree_.getxattr(request.ino, request.names[0]));
  return put_sized(request, value, reply);
}

// As on tmpfs, who is not root does not see names of trusted.
fs::Expected<void> Server::listxattr(const Request& request, Reply& reply) {
  line_.clear();
  TRY(tree_.listxattr(request.ino, [&](std::string_view name) {
    if (request.head.uid != 0 && name.starts_with("trusted.")) return true;
    sys::append(line_, sys::as_bytes(name));
    line_.push_back(std::byte{0});
    return true;
  }));
  return put_sized(request, line_, reply);
}

fs::Expected<void> Server::removexattr(const Request& request, Reply&) {
  return tree_.removexattr(request.ino, request.names[0], request.caller());
}

}  // namespace turnbox::virtiofs
