// The record: draft and chain fields to canonical JSON, and back (docs/RECORD.md, «Fields»). Pure; any
// thread.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "broker/store/store.h"
#include "broker/turn/draft.h"

namespace turnbox::turn {

inline constexpr uint64_t kRecordFormat = 1;

struct Record {
  Draft draft;
  uint64_t chain_index = 0;
  std::optional<sys::Digest> previous;
  sys::Digest key;  // key id: plain SHA-256 of the public key
};

// Refuses (invalid) a draft that the format cannot hold: numbers beyond 2^53-1, unknown tier, text that is
// not UTF-8 where the format wants text, a reason that does not go with the status.
sys::Result<std::string> write_record(const Record& record);
// Strict: what it accepts, write_record gives back byte for byte.
sys::Result<Record> read_record(std::string_view bytes);

sys::Digest record_digest(std::string_view bytes);  // digest("record", bytes)

// Every object that the record names.
std::vector<store::Root> roots_of(const Draft& draft);

std::string_view name_of(TurnStatus status);
std::string_view name_of(Reason reason);

}  // namespace turnbox::turn
