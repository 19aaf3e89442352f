#include <algorithm>
#include <map>

#include "broker/store/env.h"
#include "broker/store/layout.h"

namespace turnbox::store {

using sys::as_bytes;
using sys::ByteSpan;
using sys::ErrorKind;
using sys::Result;
using sys::Status;

namespace {

constexpr size_t kTurnBytes = 26;
constexpr size_t kShortestPrefix = 4;

}  // namespace

struct Reader::State {
  Txn txn;
  mutable std::map<std::string, AccountNumber, std::less<>> accounts;  // seen so far

  Result<std::optional<AccountNumber>> account(std::string_view name) const {
    if (const auto seen = accounts.find(name); seen != accounts.end()) return std::optional(seen->second);
    TRY_ASSIGN(const auto row, txn.get(Db::accounts, as_bytes(name)));
    if (!row || row->size() < 4) return std::optional<AccountNumber>();
    return std::optional(accounts.emplace(name, sys::load_le<uint32_t>(row->data())).first->second);
  }
};

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

Result<Reader> Store::read() {
  TRY_ASSIGN(Txn txn, env_->begin_read());
  return Reader(std::unique_ptr<Reader::State>(new Reader::State{std::move(txn), {}}));
}

Result<StoredRecord> Reader::load_record(std::string_view turn_or_prefix) const {
  std::string prefix(turn_or_prefix);
  std::transform(prefix.begin(), prefix.end(), prefix.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  if (prefix.size() < kShortestPrefix) {
    return sys::fail(ErrorKind::usage,
                     "'" + std::string(turn_or_prefix) +
                         "' is too short for a turn id: give at least its first 4 characters");
  }
  std::optional<StoredRecord> found;
  TRY(state_->txn.scan(Db::records, as_bytes(prefix), [&](ByteSpan turn, ByteSpan value) -> Result<bool> {
    if (found) {
      return sys::fail(ErrorKind::usage, "several turns start with '" + prefix + "', among them " +
                                             found->turn + " and " + std::string(sys::as_text(turn)) +
                                             ": give more characters of the one you mean");
    }
    TRY_ASSIGN(found, read_record_row(sys::as_text(turn), value));
    return prefix.size() < kTurnBytes;
  }));
  if (!found) {
    return sys::fail(ErrorKind::not_found, "there is no turn '" + std::string(turn_or_prefix) +
                                               "'; `turnbox turn list` shows them");
  }
  return std::move(*found);
}

Status Reader::list(const std::function<bool(const StoredRecord&)>& visit) const {
  return state_->txn.scan(Db::turns, {}, [&](ByteSpan, ByteSpan turn) -> Result<bool> {
    TRY_ASSIGN(const auto value, state_->txn.get(Db::records, turn));
    if (!value) {
      return sys::fail(ErrorKind::invalid,
                       "the record of turn " + std::string(sys::as_text(turn)) + " is missing");
    }
    TRY_ASSIGN(const StoredRecord row, read_record_row(sys::as_text(turn), *value));
    return visit(row);
  });
}

Result<StoredRecord> Reader::record_at(std::string_view account, std::string_view demand,
                                       uint64_t chain_index) const {
  const auto missing = [&] {
    return sys::fail(ErrorKind::not_found, "demand '" + std::string(demand) + "' has no record " +
                                               std::to_string(chain_index) + " in its chain");
  };
  TRY_ASSIGN(const auto number, state_->account(account));
  if (!number) return missing();
  TRY_ASSIGN(const auto turn, state_->txn.get(Db::chains, chain_key(*number, demand, chain_index)));
  if (!turn) return missing();
  TRY_ASSIGN(const auto value, state_->txn.get(Db::records, *turn));
  if (!value) return missing();
  return read_record_row(sys::as_text(*turn), *value);
}

Result<StoredRecord> Reader::record_number(uint64_t sequence) const {
  TRY_ASSIGN(const auto turn, state_->txn.get(Db::turns, number_key(sequence)));
  const auto missing = [&] {
    return sys::fail(ErrorKind::not_found, "the store has no record number " + std::to_string(sequence));
  };
  if (!turn) return missing();
  TRY_ASSIGN(const auto value, state_->txn.get(Db::records, *turn));
  if (!value) return missing();
  return read_record_row(sys::as_text(*turn), *value);
}

Result<std::vector<Head>> Reader::heads() const {
  std::map<AccountNumber, std::string> names;
  TRY(state_->txn.scan(Db::accounts, {}, [&](ByteSpan name, ByteSpan value) -> Result<bool> {
    if (value.size() >= 4) names[sys::load_le<uint32_t>(value.data())] = sys::as_text(name);
    return true;
  }));
  std::vector<Head> heads;
  TRY(state_->txn.scan(Db::heads, {}, [&](ByteSpan key, ByteSpan value) -> Result<bool> {
    TRY_ASSIGN(Head head, read_head(value));
    AccountNumber number = 0;
    for (size_t i = 0; i < 4 && i < key.size(); ++i) number = number << 8 | std::to_integer<uint32_t>(key[i]);
    head.account = names[number];
    head.demand = sys::as_text(key.subspan(std::min<size_t>(4, key.size())));
    heads.push_back(std::move(head));
    return true;
  }));
  std::sort(heads.begin(), heads.end(), [](const Head& a, const Head& b) {
    return std::tie(a.account, a.demand) < std::tie(b.account, b.demand);
  });
  return heads;
}

Result<uint64_t> Reader::count() const {
  TRY_ASSIGN(const auto value, state_->txn.get(Db::meta, as_bytes("records")));
  return value && value->size() == 8 ? sys::load_le<uint64_t>(value->data()) : uint64_t{0};
}

Result<Reader::Found> Reader::object(std::string_view account, const sys::Digest& digest,
                                     sys::Bytes& scratch) const {
  const auto missing = [&] {
    return sys::fail(ErrorKind::not_found, "object " + sys::to_hex(digest) + " is not in the store");
  };
  TRY_ASSIGN(const auto number, state_->account(account));
  if (!number) return missing();
  TRY_ASSIGN(const auto value, state_->txn.get(Db::objects, account_key(*number, digest.bytes)));
  if (!value) return missing();
  TRY_ASSIGN(const ObjectPlace place, read_place(*value));
  if (place.length == 0) return Found{place.kind, {}};
  scratch.clear();
  size_t offset = place.offset;
  for (uint64_t segment = place.segment;; ++segment, offset = 0) {
    TRY_ASSIGN(const auto bytes, state_->txn.get(Db::segments, segment_key(*number, segment)));
    if (!bytes || bytes->size() <= offset) {
      return sys::fail(ErrorKind::invalid,
                       "a segment of object " + sys::to_hex(digest) + " is missing or cut");
    }
    const size_t part = std::min(bytes->size() - offset, place.length - scratch.size());
    if (part == place.length) return Found{place.kind, bytes->subspan(offset, part)};
    sys::append(scratch, bytes->subspan(offset, part));
    if (scratch.size() == place.length) return Found{place.kind, scratch};
  }
}

}  // namespace turnbox::store
