// Brings an import stream (docs/WIRE.md, «Import stream») into the tree.
#pragma once

#include <span>
#include <string>
#include <unordered_map>

#include "fs/tree/tree.h"
#include "vmm/sys/result.h"

namespace turnbox::fs {

struct ImportRecord;

// One import: feed() as many whole-record pieces as come. The peer is the broker; what it sends is still
// checked.
class Importer {
 public:
  // The imported root becomes `parent`/`name`, in `zone`, as the host: a directory, which may stand there
  // already (a root record then sets its attributes), or a new regular file where the root record has type
  // `f`.
  Importer(Tree& tree, Ino parent, std::string name, ZoneId zone);
  sys::Status feed(std::span<const std::byte> records);
  // After the end record; kind protocol when it has not come.
  sys::Status finish();
  Ino root() const { return root_; }  // kNoIno until it is known
  uint64_t entries() const { return entries_; }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Place {
    Ino dir;
    std::string name;
  };
  sys::Status apply(const ImportRecord& record);
  sys::Status apply_root(const ImportRecord& record);
  sys::Status apply_link(const ImportRecord& record);
  sys::Status make(const Place& place, const ImportRecord& record);
  sys::Result<Ino> find(std::string_view path, std::string_view record_path);
  sys::Result<Place> place_of(std::string_view path);
  sys::Status set_attributes(Ino ino, const ImportRecord& record);
  sys::Status set_xattrs(const ImportRecord& record);
  sys::Status append(const ImportRecord& record);
  sys::Status write(Ino ino, const ImportRecord& record, uint64_t size);

  Tree& tree_;
  Ino parent_;
  std::string name_;
  ZoneId zone_;
  Ino root_ = kNoIno;
  std::unordered_map<Ino, Time> directory_times_;  // set at the end: each entry moves its directory's mtime
  std::string last_dir_;                           // where the last entry went
  Ino last_dir_ino_ = kNoIno;
  uint64_t entries_ = 0, bytes_ = 0;
  bool begun_ = false, ended_ = false;
};

}  // namespace turnbox::fs
