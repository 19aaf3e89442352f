// The tree with the shapes of fs/turn on it, as the daemon's main wires them, without devices and sockets.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "fs/turn/snapshots.h"
#include "fs/turn/turns.h"
#include "fs/turn/workspace.h"
#include "vmm/sys/bytes.h"

namespace turnbox::turn {

inline constexpr char kTurnA[] = "01JDRY0000000000000000000A";
inline constexpr char kTurnB[] = "01JDRY0000000000000000000B";

inline const fs::Caller kGuest{.uid = 1000, .gid = 1000};

// A root directory record, files named name=content, and the end record, as docs/WIRE.md lays them down.
class ImportBytes {
 public:
  ImportBytes() { sys::append(bytes_, sys::as_bytes("TBIMPRT1")); }
  ImportBytes& root() { return record('d', 0755, "", {}); }
  ImportBytes& dir(std::string_view path) { return record('d', 0755, path, {}); }
  ImportBytes& file(std::string_view path, std::string_view content, uint16_t mode = 0644) {
    sys::Bytes body;
    sys::append_le(body, static_cast<uint64_t>(content.size()));
    if (!content.empty()) {
      sys::append_le(body, uint64_t{0});
      sys::append_le(body, static_cast<uint32_t>(content.size()));
      sys::append(body, sys::as_bytes(content));
    }
    return record('f', mode, path, body);
  }
  const sys::Bytes& end() { return record('e', 0, "", {}).bytes_; }
  const sys::Bytes& so_far() const { return bytes_; }

 private:
  ImportBytes& record(char type, uint16_t mode, std::string_view path, const sys::Bytes& body) {
    sys::append_le(bytes_, type);
    sys::append_le(bytes_, uint8_t{0});
    sys::append_le(bytes_, mode);
    sys::append_le(bytes_, uint32_t{0});
    sys::append_le(bytes_, uint32_t{0});
    sys::append_le(bytes_, int64_t{1'700'000'000});
    sys::append_le(bytes_, uint32_t{0});
    sys::append_le(bytes_, uint32_t{0});
    sys::append_le(bytes_, static_cast<uint32_t>(path.size()));
    sys::append_le(bytes_, static_cast<uint64_t>(body.size()));
    sys::append(bytes_, sys::as_bytes(path));
    sys::append(bytes_, body);
    return *this;
  }
  sys::Bytes bytes_;
};

struct World {
  fs::Tree tree;
  fs::ZoneId host_zone;
  Sweeper sweeper;
  Events events;
  Workspace workspace;
  Turns turns;
  unsigned released = 0;
  Snapshots snapshots;

  explicit World(const fs::Budget& budget = {}, EventLimits limits = {})
      : tree(budget,
             [] {
               return fs::Time{1'700'000'000, 0};
             }),
        host_zone(tree.add_zone({fs::ZoneState::sealed, fs::ZoneUse::shared})),
        sweeper(tree),
        events(tree, limits),
        workspace(Workspace::make(tree, sweeper, host_zone).value()),
        turns(Turns::make(tree, events, sweeper, host_zone).value()),
        snapshots(tree, [this] { ++released; }) {}

  void settle() {
    while (sweeper.step(1000)) {
    }
    while (tree.reclaim(1000)) {
    }
  }

  // Follows names from a directory; throws where one is missing.
  fs::Attr at(fs::Ino dir, std::string_view path) const {
    std::optional<fs::Attr> attr;
    while (!path.empty()) {
      const size_t slash = path.find('/');
      const auto next = tree.lookup(attr ? attr->ino : dir, path.substr(0, slash));
      if (!next) throw std::runtime_error("no " + std::string(path.substr(0, slash)));
      attr = *next;
      path = slash == path.npos ? std::string_view{} : path.substr(slash + 1);
    }
    return *attr;
  }
  fs::Ino turn_dir(const std::string& turn) const { return at(turns.device_root(), "by-id/" + turn).ino; }

  std::string content(fs::Ino file) const {
    std::vector<std::span<const std::byte>> spans;
    std::string text;
    (void)tree.read(file, 0, 1 << 20, spans).value();
    for (const auto& span : spans) text.append(sys::as_text(span));
    return text;
  }

  fs::Expected<fs::Attr> guest_create(fs::Ino dir, std::string_view name) {
    return tree.create(dir, name, {.type = fs::Type::regular, .mode = 0644}, kGuest);
  }
};

inline BeginTurn begin_main(const std::string& turn, std::vector<std::string> inputs = {}) {
  return {.turn = turn,
          .demand = "run-1",
          .thread = "main",
          .thread_seq = 7,
          .tier = "emulated",
          .inputs = inputs};
}

}  // namespace turnbox::turn
