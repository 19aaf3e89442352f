// A tree with one root, a clock that the test moves, and short words for what tests do all the time.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "fs/tree/tree.h"

namespace turnbox::fs {

struct Fixture {
  explicit Fixture(const Budget& budget = {}) : tree(budget, [this] { return now; }) {
    root = tree.make_root(0, 0755);
  }

  Time now{1000, 0};
  Tree tree;
  Ino root;
  const Caller guest{.uid = 1000, .gid = 100};
  const Caller host{.host = true};

  Ino dir(Ino parent, const std::string& name, uint16_t mode = 0755) {
    return tree.create(parent, name, {.type = Type::directory, .mode = mode}, guest).value().ino;
  }
  Ino file(Ino parent, const std::string& name, const std::string& content = {}, uint16_t mode = 0644) {
    const Ino ino = tree.create(parent, name, {.mode = mode}, guest).value().ino;
    if (!content.empty()) write(ino, 0, content);
    return ino;
  }
  Ino symlink(Ino parent, const std::string& name, const std::string& target) {
    return tree.create(parent, name, {.type = Type::symlink, .target = target}, guest).value().ino;
  }
  Attr write(Ino ino, uint64_t offset, const std::string& content, bool kill = false) {
    return put(ino, offset, content, kill).value();
  }
  Expected<Attr> put(Ino ino, uint64_t offset, const std::string& content, bool kill = false) {
    const char* from = content.data();
    const auto fill = [&from](std::span<std::byte> to) {
      std::memcpy(to.data(), from, to.size());
      from += to.size();
    };
    return tree.write(ino, offset, content.size(), fill, kill, guest);
  }
  Expected<Attr> resize(Ino ino, uint64_t size) {
    return tree.setattr(ino, {.valid = SetAttr::kSize, .size = size}, guest);
  }
};

inline std::string read(const View& view, Ino ino, uint64_t offset = 0, size_t size = 1 << 20) {
  std::vector<std::span<const std::byte>> spans;
  const size_t count = view.read(ino, offset, size, spans).value();
  std::string bytes;
  for (const auto span : spans) bytes.append(reinterpret_cast<const char*>(span.data()), span.size());
  BOOST_TEST(bytes.size() == count);
  return bytes;
}

inline std::vector<std::string> names(const View& view, Ino dir) {
  std::vector<std::string> all;
  (void)view.readdir(dir, 0, [&all](const Dirent& entry) { return all.emplace_back(entry.name), true; });
  std::sort(all.begin(), all.end());
  return all;
}

// The errno of a result, 0 for success.
template <typename T>
int error_of(const Expected<T>& result) {
  return result ? 0 : static_cast<int>(result.error());
}

}  // namespace turnbox::fs
