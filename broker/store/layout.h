// Keys and values of the store's databases (docs/STORE.md). Private to broker/store.
//
// Numbers in keys are big-endian, so that keys sort as numbers do; numbers in values are little-endian.
#pragma once

#include <optional>
#include <string_view>

#include "broker/store/store.h"

namespace turnbox::store {

using AccountNumber = uint32_t;

// A segment holds at most 1 MiB with LMDB's own 16-byte page header, so that it takes whole pages.
inline constexpr size_t kSegmentBytes = 1'048'576 - 16;

struct ObjectPlace {
  ObjectKind kind;
  uint32_t length;
  uint64_t segment;
  uint32_t offset;  // in the segment; an object may go on in the segments that follow
};

sys::Bytes account_key(AccountNumber account, sys::ByteSpan rest = {});
sys::Bytes number_key(uint64_t number);
sys::Bytes segment_key(AccountNumber account, uint64_t segment);
sys::Bytes chain_key(AccountNumber account, std::string_view demand, uint64_t chain_index);

sys::Bytes write_place(const ObjectPlace& place);
sys::Result<ObjectPlace> read_place(sys::ByteSpan value);

sys::Bytes write_record_row(const StoredRecord& row);
sys::Result<StoredRecord> read_record_row(std::string_view turn, sys::ByteSpan value);

// A head's value; account and demand are in its key.
sys::Bytes write_head(const Head& head);
sys::Result<Head> read_head(sys::ByteSpan value);

struct DemandRow {
  AccountNumber account = 0;
  int64_t created_ns = 0;
  uint64_t sandboxes = 0;  // made so far
  std::string project;
};
sys::Bytes write_demand(const DemandRow& row);
sys::Result<DemandRow> read_demand(sys::ByteSpan value);

sys::Bytes write_sandbox(const SandboxRow& row);
sys::Result<SandboxRow> read_sandbox(std::string_view id, sys::ByteSpan value);

sys::Bytes write_workspace(const WorkspaceRow& row);
sys::Result<WorkspaceRow> read_workspace(std::string_view name, sys::ByteSpan value);

// Lower-case letters, digits and single hyphens between them, 1 to `most` characters.
sys::Status check_name(std::string_view what, std::string_view name, size_t most);

}  // namespace turnbox::store
