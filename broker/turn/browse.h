// Looking into a stored turn: its trees' entries, and one file's bytes.
//
// Places are named as the control socket names them: `workspace` (after the turn), `workspace-before`,
// `inputs/NAME`, `outputs/STAGE`, and `events`.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "broker/turn/ledger.h"
#include "broker/turn/record.h"

namespace turnbox::turn {

struct FileEntry {
  std::string path;  // raw bytes: place, '/', path inside it
  char type;         // f d l c b p s
  std::optional<uint32_t> mode;  // empty for a place's own root: its mode stands in the meta only
  uint64_t size;  // of a file's content, a symlink's target; else 0
  sys::Digest digest;
};

// Every place of the record and everything below, depth first, names in byte order. The visitor returns false
// to stop.
sys::Status list_files(Ledger& ledger, const store::StoredRecord& stored,
                       const std::function<bool(const FileEntry&)>& visit);

// The bytes of one file (or a symlink's target), in pieces. not_found names the path; a directory is `usage`.
// Each object is hashed again on the way: bytes that do not fit their digest are an error, not output.
sys::Status cat(Ledger& ledger, const store::StoredRecord& stored, std::string_view path,
                const std::function<sys::Status(sys::ByteSpan)>& sink);

}  // namespace turnbox::turn
