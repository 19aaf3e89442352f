// One record of an import stream (docs/WIRE.md, «Import stream»), and what can be wrong with it by itself.
#pragma once

#include "fs/tree/types.h"
#include "vmm/sys/bytes.h"
#include "vmm/sys/result.h"

namespace turnbox::fs {

struct ImportRecord {
  char type;
  uint8_t zero;
  uint16_t mode;
  uint32_t uid, gid;
  Time mtime;
  uint32_t rdev;
  std::string_view path;
  sys::ByteSpan body;
};

// The next record; kind protocol when it is cut. The views point into what is read.
sys::Result<ImportRecord> take_record(sys::ByteReader& reader);

// What is wrong with it, or null.
const char* check_record(const ImportRecord& record);

}  // namespace turnbox::fs
