// Turns for the store's tests: the least that Store::commit takes.
#pragma once

#include <string>
#include <vector>

#include "broker/store/store.h"

namespace turnbox::store {

// 26 characters, in the order of their numbers.
inline std::string turn_id(unsigned number) {
  std::string digits = std::to_string(number);
  return "01J" + std::string(23 - digits.size(), '0') + digits;
}

// Objects held in memory, handed over in the order they were added.
class SampleObjects : public ObjectSource {
 public:
  sys::Digest add(ObjectKind kind, sys::Bytes bytes) {
    const auto digest = sys::digest_of(name_of(kind), bytes);
    add_as(kind, digest, std::move(bytes));
    return digest;
  }
  void add_as(ObjectKind kind, const sys::Digest& digest, sys::Bytes bytes) {
    kept_.push_back({kind, digest, std::move(bytes)});
  }
  sys::Digest add_file(std::string_view content) {  // of at most one chunk
    sys::Bytes file;
    sys::append_le<uint64_t>(file, content.size());
    if (!content.empty()) {
      const auto span = sys::as_bytes(content);
      sys::append(file, add(ObjectKind::chunk, {span.begin(), span.end()}).bytes);
    }
    return add(ObjectKind::file, std::move(file));
  }
  sys::Status rewind() override {
    at_ = 0;
    ++rewinds;
    return {};
  }
  sys::Result<std::optional<Object>> next() override {
    if (at_ == kept_.size()) return std::optional<Object>();
    const auto& one = kept_[at_++];
    return Object{one.kind, one.digest, one.bytes};
  }
  unsigned rewinds = 0;

 private:
  struct Kept {
    ObjectKind kind;
    sys::Digest digest;
    sys::Bytes bytes;
  };
  std::vector<Kept> kept_;
  size_t at_ = 0;
};

inline Store::Finish plain_record(std::string bytes) {
  return [bytes](const ChainPlace& place) -> sys::Result<SignedRecord> {
    SignedRecord record;
    record.bytes = bytes + " " + std::to_string(place.chain_index);
    record.digest = sys::digest_of("record", sys::as_bytes(record.bytes));
    return record;
  };
}

inline TurnKey key_of(unsigned number, std::string demand = "demand", std::string account = "local") {
  return {turn_id(number), std::move(account), "default", std::move(demand), 1};
}

// A turn without objects.
inline sys::Result<ChainPlace> commit_plain(Store& store, unsigned number, std::string demand = "demand") {
  SampleObjects none;
  return store.commit(key_of(number, std::move(demand)), {}, none,
                      plain_record("record " + std::to_string(number)));
}

}  // namespace turnbox::store
