#include "tests/property/compare.h"

#include <cerrno>
#include <set>

namespace turnbox::fs::plain {
namespace {

std::string at(Ino ino, const std::string& what) {
  return "inode " + std::to_string(ino) + ": " + what;
}

std::string compare_dir(const View& view, const State& state, Ino ino) {
  const Inode& inode = state.inodes.at(ino);
  if (const auto parent = view.parent(ino); !parent || *parent != inode.parent) return at(ino, "parent");
  std::map<std::string, Ino> listed;
  uint64_t last = 255;
  std::string wrong;
  std::vector<uint64_t> cookies;
  const auto read = view.readdir(ino, 0, [&](const Dirent& entry) {
    if (entry.cookie <= last || entry.cookie >= (uint64_t{1} << 63) - 256) wrong = "cookies out of order";
    last = entry.cookie;
    cookies.push_back(last);
    if (!listed.emplace(entry.name, entry.ino).second) wrong = "a name comes twice";
    if (state.inodes.contains(entry.ino) && state.inodes.at(entry.ino).attr.type != entry.type)
      wrong = "entry type";
    return true;
  });
  if (!read || !wrong.empty()) return at(ino, "readdir: " + wrong);
  if (listed != inode.entries) return at(ino, "listing");
  for (const auto& [name, child] : inode.entries) {
    const auto found = view.lookup(ino, name);
    if (!found || found->ino != child) return at(ino, "lookup of " + name);
  }
  if (const auto none = view.lookup(ino, "no such name"); none || none.error() != Errno{ENOENT})
    return at(ino, "lookup");
  if (cookies.empty()) return {};
  size_t rest = 0;
  const size_t middle = cookies.size() / 2;
  (void)view.readdir(ino, cookies[middle], [&](const Dirent& entry) {
    if (entry.cookie != cookies[middle + 1 + rest]) wrong = "resumed listing";
    return ++rest, true;
  });
  return wrong.empty() && rest == cookies.size() - middle - 1 ? "" : at(ino, "resumed listing");
}

// SEEK_DATA and SEEK_HOLE at every border and beside it.
std::string compare_seeks(const View& view, const State& state, Ino ino) {
  const Inode& inode = state.inodes.at(ino);
  std::set<uint64_t> offsets{0, inode.size, inode.size - 1};
  for (const auto& [index, page] : inode.pages) {
    for (const uint64_t near : {index * kPage, index * kPage + 1, (index + 1) * kPage}) offsets.insert(near);
  }
  for (const uint64_t offset : offsets) {
    if (offset >= inode.size) {
      for (const int whence : {3, 4}) {
        const auto none = view.lseek(ino, offset, whence);
        if (none || none.error() != Errno{ENXIO}) return at(ino, "seek past the end");
      }
      continue;
    }
    const auto data = inode.pages.lower_bound(offset / kPage);
    const auto found = view.lseek(ino, offset, 3);
    if (data == inode.pages.end()) {
      if (found || found.error() != Errno{ENXIO}) return at(ino, "SEEK_DATA behind the last data");
    } else if (!found || *found != std::max(offset, data->first * kPage)) {
      return at(ino, "SEEK_DATA");
    }
    uint64_t hole = offset / kPage;
    while (inode.pages.contains(hole)) ++hole;
    const auto gap = view.lseek(ino, offset, 4);
    if (!gap || *gap != std::min(inode.size, std::max(offset, hole * kPage))) return at(ino, "SEEK_HOLE");
  }
  return {};
}

std::string compare_file(const View& view, const State& state, Ino ino) {
  const Inode& inode = state.inodes.at(ino);
  // Every held page with its neighbourhood, and the end: files are sparse and may be huge.
  for (const auto& [index, page] : inode.pages) {
    const uint64_t from = index == 0 ? 0 : index * kPage - 7;
    if (read_all(view, ino, from, kPage + 14) != state.content(ino, from, kPage + 14))
      return at(ino, "content");
  }
  const uint64_t tail = inode.size > 100 ? inode.size - 100 : 0;
  if (read_all(view, ino, tail, 200'000) != state.content(ino, tail, 200'000))
    return at(ino, "content at the end");
  if (read_all(view, ino, 0, 300'000) != state.content(ino, 0, 300'000))
    return at(ino, "content at the start");
  return inode.size == 0 ? "" : compare_seeks(view, state, ino);
}

std::string compare_xattrs(const View& view, const State& state, Ino ino) {
  std::map<std::string, std::string> listed;
  std::string last;
  bool sorted = true;
  (void)view.listxattr(ino, [&](std::string_view name) {
    sorted = sorted && last < name;
    last = name;
    const auto value = view.getxattr(ino, name);
    if (value) listed[last] = {reinterpret_cast<const char*>(value->data()), value->size()};
    return true;
  });
  if (!sorted) return at(ino, "order of xattrs");
  return listed == state.inodes.at(ino).xattrs ? "" : at(ino, "xattrs");
}

}  // namespace

std::string read_all(const View& view, Ino ino, uint64_t offset, size_t size) {
  std::vector<std::span<const std::byte>> spans;
  const auto read = view.read(ino, offset, size, spans);
  if (!read) return "error";
  std::string bytes;
  for (const auto span : spans) bytes.append(reinterpret_cast<const char*>(span.data()), span.size());
  return bytes.size() == *read ? bytes : "spans and count differ";
}

std::string difference(const Attr& tree, const Attr& model) {
  if (tree.ino != model.ino) return "ino";
  if (tree.type != model.type) return "type";
  if (tree.mode != model.mode) return "mode";
  if (tree.nlink != model.nlink) return "nlink";
  if (tree.uid != model.uid || tree.gid != model.gid) return "owner";
  if (tree.rdev != model.rdev) return "rdev";
  if (tree.size != model.size) return "size";
  if (tree.blocks != model.blocks) return "blocks";
  if (tree.atime != model.atime) return "atime";
  if (tree.mtime != model.mtime) return "mtime";
  if (tree.ctime != model.ctime) return "ctime";
  return tree.zone == model.zone ? "" : "zone";
}

std::string difference(const View& view, const State& state) {
  for (const auto& [ino, inode] : state.inodes) {
    const auto attr = view.getattr(ino);
    if (!attr) return at(ino, "is not there");
    if (const auto wrong = difference(*attr, state.attr(ino)); !wrong.empty()) return at(ino, wrong);
    std::string wrong = compare_xattrs(view, state, ino);
    if (!wrong.empty()) return wrong;
    if (inode.attr.type == Type::directory) wrong = compare_dir(view, state, ino);
    if (inode.attr.type == Type::regular) wrong = compare_file(view, state, ino);
    if (inode.attr.type == Type::symlink) {
      const auto target = view.readlink(ino);
      if (!target || *target != inode.target) wrong = at(ino, "target");
    }
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace turnbox::fs::plain
