// The two turns of tests/golden/record/generate.py, as the run path would hand them over.
#pragma once

#include <cstdlib>
#include <string>

#include "broker/store/object_source.h"
#include "broker/turn/draft.h"
#include "vmm/sys/fd.h"

namespace turnbox::turn {

inline std::string golden_dir() {
  const char* dir = std::getenv("GOLDEN_RECORD");
  TURNBOX_ASSERT(dir != nullptr);
  return dir;
}

inline std::string golden(const std::string& name) {
  return sys::read_file(golden_dir() + "/" + name, 1 << 20).value();
}

// Seed of the golden signing key: bytes 0..31. Puts it where the state directory keeps its key.
void place_golden_key(const std::string& state_dir);

Draft golden_first();
Draft golden_second();

// second.objects: every object of the second turn, children first.
class GoldenObjects : public store::StreamSource {
 public:
  GoldenObjects();
};

class NoObjects : public store::ObjectSource {
 public:
  sys::Status rewind() override { return {}; }
  sys::Result<std::optional<store::Object>> next() override { return std::optional<store::Object>(); }
};

}  // namespace turnbox::turn
