// The workspace device's root: a directory of the host with `ws/<epoch>`, of which the newest is the live
// one.
//
// Belongs to the thread that owns the tree.
#pragma once

#include <cstdint>
#include <optional>

#include "fs/tree/import.h"
#include "fs/tree/tree.h"
#include "fs/turn/sweeper.h"
#include "vmm/sys/result.h"

namespace turnbox::turn {

class Workspace {
 public:
  static sys::Result<Workspace> make(fs::Tree& tree, Sweeper& sweeper, fs::ZoneId host_zone);

  fs::Ino device_root() const { return device_root_; }
  fs::Ino root() const { return root_; }  // ws/<epoch>
  uint64_t epoch() const { return epoch_; }

  // A new empty epoch; the old one answers ESTALE and is removed by the sweeper.
  sys::Result<uint64_t> next_epoch();

  // A new epoch that begins as `root` of a view of this tree, or of a fork of it, pages shared; the old one
  // answers ESTALE. Nothing changes where it fails.
  sys::Result<uint64_t> restore(const fs::View& view, fs::Ino root);

  // Brings one piece of an import stream into the live epoch, which must be empty when the first piece comes.
  // A piece that is refused empties it again.
  sys::Result<const fs::Importer*> import(std::span<const std::byte> piece, bool more);

 private:
  Workspace(fs::Tree& tree, Sweeper& sweeper) : tree_(tree), sweeper_(sweeper) {}
  sys::Status make_epoch(uint64_t epoch);
  void move_to(fs::Ino root, fs::ZoneId zone, uint64_t epoch);
  sys::Status retire(uint64_t epoch, fs::ZoneId zone);
  sys::Status feed(std::span<const std::byte> piece, bool more);

  fs::Tree& tree_;
  Sweeper& sweeper_;
  fs::ZoneId host_zone_ = 0;
  fs::ZoneId zone_ = 0;  // of the live epoch
  fs::Ino device_root_ = fs::kNoIno, ws_ = fs::kNoIno, root_ = fs::kNoIno;
  uint64_t epoch_ = 0;
  std::optional<fs::Importer> importer_;
  bool importing_ = false;
};

}  // namespace turnbox::turn
