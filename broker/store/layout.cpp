#include "broker/store/layout.h"

#include <algorithm>

namespace turnbox::store {

using sys::Bytes;
using sys::ByteSpan;
using sys::ErrorKind;
using sys::Result;

namespace {

void append_be(Bytes& to, uint64_t value, size_t width) {
  for (size_t i = width; i-- > 0;) to.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void append_text(Bytes& to, std::string_view text) {
  sys::append_le<uint32_t>(to, static_cast<uint32_t>(text.size()));
  sys::append(to, sys::as_bytes(text));
}

std::optional<std::string> take_text(sys::ByteReader& reader) {
  const auto length = reader.take_le<uint32_t>();
  const auto bytes = length ? reader.take(*length) : std::nullopt;
  if (!bytes) return std::nullopt;
  return std::string(sys::as_text(*bytes));
}

template <size_t N>
void take_array(sys::ByteReader& reader, std::array<std::byte, N>& into) {
  if (const auto bytes = reader.take(N)) std::copy(bytes->begin(), bytes->end(), into.begin());
}

tl::unexpected<sys::Error> bad_row(std::string_view what) {
  return sys::fail(ErrorKind::invalid, "the store has a damaged row: " + std::string(what));
}

}  // namespace

Bytes account_key(AccountNumber account, ByteSpan rest) {
  Bytes key;
  append_be(key, account, 4);
  sys::append(key, rest);
  return key;
}

Bytes number_key(uint64_t number) {
  Bytes key;
  append_be(key, number, 8);
  return key;
}

Bytes segment_key(AccountNumber account, uint64_t segment) {
  Bytes key = account_key(account);
  append_be(key, segment, 8);
  return key;
}

Bytes chain_key(AccountNumber account, std::string_view demand, uint64_t chain_index) {
  Bytes key = account_key(account, sys::as_bytes(demand));
  key.push_back(std::byte{0});
  append_be(key, chain_index, 8);
  return key;
}

Bytes write_place(const ObjectPlace& place) {
  Bytes value;
  sys::append_le(value, static_cast<uint32_t>(place.kind));
  sys::append_le(value, place.length);
  sys::append_le(value, place.segment);
  sys::append_le(value, place.offset);
  return value;
}

Result<ObjectPlace> read_place(ByteSpan value) {
  sys::ByteReader reader(value);
  const auto kind = reader.take_le<uint32_t>();
  const auto length = reader.take_le<uint32_t>();
  const auto segment = reader.take_le<uint64_t>();
  const auto offset = reader.take_le<uint32_t>();
  if (!offset || reader.remaining() != 0 || *kind < 1 || *kind > 6) return bad_row("an object's place");
  return ObjectPlace{static_cast<ObjectKind>(*kind), *length, *segment, *offset};
}

Bytes write_record_row(const StoredRecord& row) {
  Bytes value;
  sys::append_le(value, row.sequence);
  sys::append_le(value, row.chain_index);
  sys::append(value, row.record.digest.bytes);
  sys::append(value, row.record.signature);
  sys::append(value, row.record.public_key);
  append_text(value, row.account);
  append_text(value, row.project);
  append_text(value, row.demand);
  sys::append(value, sys::as_bytes(row.record.bytes));
  return value;
}

Result<StoredRecord> read_record_row(std::string_view turn, ByteSpan value) {
  sys::ByteReader reader(value);
  StoredRecord row;
  row.turn = turn;
  row.sequence = reader.take_le<uint64_t>().value_or(0);
  row.chain_index = reader.take_le<uint64_t>().value_or(0);
  take_array(reader, row.record.digest.bytes);
  take_array(reader, row.record.signature);
  take_array(reader, row.record.public_key);
  row.account = take_text(reader).value_or("");
  row.project = take_text(reader).value_or("");
  row.demand = take_text(reader).value_or("");
  if (reader.failed()) return bad_row("record " + std::string(turn));
  row.record.bytes = sys::as_text(*reader.take(reader.remaining()));
  return row;
}

Bytes write_head(const Head& head) {
  Bytes value;
  sys::append_le(value, head.chain_index);
  sys::append(value, head.record.bytes);
  append_text(value, head.turn);
  return value;
}

Result<Head> read_head(ByteSpan value) {
  sys::ByteReader reader(value);
  Head head;
  head.chain_index = reader.take_le<uint64_t>().value_or(0);
  take_array(reader, head.record.bytes);
  head.turn = take_text(reader).value_or("");
  if (reader.failed() || reader.remaining() != 0) return bad_row("a chain's head");
  return head;
}

Bytes write_demand(const DemandRow& row) {
  Bytes value;
  sys::append_le(value, row.account);
  sys::append_le(value, row.created_ns);
  sys::append_le(value, row.sandboxes);
  append_text(value, row.project);
  return value;
}

Result<DemandRow> read_demand(ByteSpan value) {
  sys::ByteReader reader(value);
  DemandRow row;
  row.account = reader.take_le<uint32_t>().value_or(0);
  row.created_ns = reader.take_le<int64_t>().value_or(0);
  row.sandboxes = reader.take_le<uint64_t>().value_or(0);
  row.project = take_text(reader).value_or("");
  if (reader.failed()) return bad_row("a demand");
  return row;
}

Bytes write_sandbox(const SandboxRow& row) {
  Bytes value;
  sys::append_le(value, row.created_ns);
  sys::append_le(value, row.ordinal);
  for (const auto* text : {&row.account, &row.project, &row.demand, &row.runtime_dir})
    append_text(value, *text);
  return value;
}

Result<SandboxRow> read_sandbox(std::string_view id, ByteSpan value) {
  sys::ByteReader reader(value);
  SandboxRow row;
  row.id = id;
  row.created_ns = reader.take_le<int64_t>().value_or(0);
  row.ordinal = reader.take_le<uint64_t>().value_or(0);
  for (auto* text : {&row.account, &row.project, &row.demand, &row.runtime_dir})
    *text = take_text(reader).value_or("");
  if (reader.failed()) return bad_row("sandbox " + std::string(id));
  return row;
}

Bytes write_workspace(const WorkspaceRow& row) {
  Bytes value;
  sys::append_le(value, row.created_ns);
  sys::append_le(value, static_cast<uint32_t>(row.kind));
  sys::append(value, row.content.bytes);
  sys::append(value, row.meta.bytes);
  append_text(value, row.account);
  append_text(value, row.origin);
  return value;
}

Result<WorkspaceRow> read_workspace(std::string_view name, ByteSpan value) {
  sys::ByteReader reader(value);
  WorkspaceRow row;
  row.name = name;
  row.created_ns = reader.take_le<int64_t>().value_or(0);
  const uint32_t kind = reader.take_le<uint32_t>().value_or(0);
  take_array(reader, row.content.bytes);
  take_array(reader, row.meta.bytes);
  row.account = take_text(reader).value_or("");
  row.origin = take_text(reader).value_or("");
  if (reader.failed() || kind < 1 || kind > 6) return bad_row("workspace " + std::string(name));
  row.kind = static_cast<ObjectKind>(kind);
  return row;
}

sys::Status check_name(std::string_view what, std::string_view name, size_t most) {
  const bool letters = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  if (name.empty() || name.size() > most || !letters || name.front() == '-' || name.back() == '-' ||
      name.find("--") != std::string_view::npos) {
    return sys::fail(ErrorKind::invalid, std::string(what) + " '" + std::string(name) +
                                             "' is no name: use 1 to " + std::to_string(most) +
                                             " lower-case letters, digits and single hyphens between them");
  }
  return {};
}

}  // namespace turnbox::store
