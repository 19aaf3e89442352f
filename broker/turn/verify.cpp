#include "broker/turn/verify.h"

#include <algorithm>
#include <map>

#include "broker/turn/checkpoint.h"
#include "broker/turn/meta_reader.h"
#include "broker/turn/object_walk.h"
#include "broker/turn/record.h"

namespace turnbox::turn {

using sys::ErrorKind;
using sys::Result;
using sys::Status;

namespace {

using Findings = std::vector<Finding>;

void wrong(Findings& findings, std::string what, std::string text) {
  findings.push_back({true, std::move(what), std::move(text)});
}

// Form, digest, key and signature of one stored record, and that its row says what it says.
std::optional<Record> check_record(const store::StoredRecord& stored, Findings& findings) {
  const std::string what = "record " + stored.turn;
  if (record_digest(stored.record.bytes) != stored.record.digest) {
    wrong(findings, what, "its bytes have another digest than the one it was stored under: it was edited");
  }
  auto record = read_record(stored.record.bytes);
  if (!record) {
    wrong(findings, what, record.error().text);
    return std::nullopt;
  }
  if (record->key != key_id(stored.record.public_key) ||
      !signature_is_good(stored.record.public_key, kRecordContext, record_digest(stored.record.bytes),
                         stored.record.signature)) {
    wrong(findings, what, "its signature is wrong");
  }
  const Draft& draft = record->draft;
  if (draft.turn != stored.turn || draft.account != stored.account || draft.project != stored.project ||
      draft.demand != stored.demand || record->chain_index != stored.chain_index) {
    wrong(findings, what, "it stands in the store as a record of another turn, owner or place");
  }
  return std::move(*record);
}

// The chain of one demand from its start up to `last`.
Status check_chain(const store::Reader& reader, const std::string& account, const std::string& demand,
                   uint64_t last, Findings& findings) {
  std::optional<sys::Digest> previous;
  for (uint64_t i = 0; i <= last; ++i) {
    const std::string what = "chain " + demand + "/" + std::to_string(i);
    auto stored = reader.record_at(account, demand, i);
    if (!stored) {
      if (stored.error().kind != ErrorKind::not_found) return tl::make_unexpected(std::move(stored).error());
      wrong(findings, what, "the record is missing");
      previous.reset();
      continue;
    }
    const auto record = check_record(*stored, findings);
    if (!record) continue;
    if (record->previous != previous || record->chain_index != i || record->draft.demand != demand ||
        record->draft.account != account) {
      wrong(findings, what, "turn " + stored->turn + " does not follow the record before it");
    }
    previous = record_digest(stored->record.bytes);
  }
  return {};
}

Status check_checkpoint(const store::Reader& reader, const std::string& state_dir, Findings& findings) {
  const auto checkpoint = load_checkpoint(state_dir);
  if (!checkpoint) {
    wrong(findings, "checkpoint", checkpoint.error().text);
    return {};
  }
  TRY_ASSIGN(const uint64_t count, reader.count());
  if (!*checkpoint) {
    if (count > 0) findings.push_back({false, "checkpoint", "there is none: a cut tail would not show"});
    return {};
  }
  TRY_ASSIGN(const auto lost, lost_since(**checkpoint, reader));
  for (const auto& text : lost) wrong(findings, "checkpoint", text);
  if (lost.empty() && count > (*checkpoint)->count) {
    findings.push_back(
        {false, "checkpoint",
         "it is behind by " + std::to_string(count - (*checkpoint)->count) + "; the next turn brings it up"});
  }
  return {};
}

std::string shown(const std::string& what, const std::string& path) {
  return path.empty() ? what : what + ": " + path;
}

// Content and meta of one tree. Findings instead of errors: the other trees are still worth a look.
class TreeCheck {
 public:
  TreeCheck(ObjectWalk& walk, Findings& findings) : walk_(walk), findings_(findings) {}

  void run(const TreeCapture& capture, const std::string& what) {
    const auto* ref = std::get_if<TreeRef>(&capture);
    if (ref == nullptr) return;
    entries_.clear();
    const auto visit = [&](const Entry& entry) -> Result<bool> {
      entries_.push_back(entry);
      check_entry(entry, what);
      return true;
    };
    const size_t before = findings_.size();
    const char type = ref->kind == store::ObjectKind::dir ? 'd' : 'f';
    if (auto walked = walk_.walk(type, ref->content, visit); !walked) {
      wrong(findings_, shown(what, entries_.empty() ? "" : entries_.back().path), walked.error().text);
    }
    if (findings_.size() == before) check_meta(ref->meta, what);
  }

 private:
  void check_entry(const Entry& entry, const std::string& what) {
    if (entry.type == 'd') return;
    Status good;
    if (entry.type == 'f') {
      if (auto size = walk_.check_file(entry.digest); !size) good = tl::make_unexpected(size.error());
    } else {
      sys::Bytes scratch;
      const auto kind = store::kind_of_row(entry.type);
      if (auto bytes = walk_.read(kind, entry.digest, scratch); !bytes)
        good = tl::make_unexpected(bytes.error());
    }
    if (!good) wrong(findings_, shown(what, entry.path), good.error().text);
  }

  void check_meta(const sys::Digest& meta, const std::string& what) {
    size_t at = 0;
    std::map<uint64_t, std::pair<char, sys::Digest>> inodes;
    MetaReader reader([&](const MetaRow& row) -> Status {
      if (at == entries_.size() || entries_[at].path != row.path ||
          (at > 0 && entries_[at].mode != row.mode)) {
        return sys::fail(ErrorKind::invalid, "the row of '" + row.path + "' does not fit the tree");
      }
      const std::pair object(entries_[at].type, entries_[at].digest);
      if (inodes.emplace(row.ino, object).first->second != object) {
        return sys::fail(ErrorKind::invalid, "the row of '" + row.path + "' has the inode of another file");
      }
      ++at;
      return {};
    });
    const auto feed = [&](sys::ByteSpan bytes) { return reader.feed(bytes); };
    auto read = [&]() -> Status {
      TRY(walk_.check_file(meta));
      TRY(walk_.content(meta, feed));
      TRY(reader.finish());
      if (at != entries_.size())
        return sys::fail(ErrorKind::invalid, "it lacks a row of '" + entries_[at].path + "'");
      return {};
    }();
    if (!read) wrong(findings_, what + " meta", read.error().text);
  }

  ObjectWalk& walk_;
  Findings& findings_;
  std::vector<Entry> entries_;
};

void check_events(ObjectWalk& walk, const EventsCapture& capture, Findings& findings) {
  const auto* ref = std::get_if<EventsRef>(&capture);
  if (ref == nullptr) return;
  uint64_t lines = 0;
  const auto count = [&](sys::ByteSpan bytes) -> Status {
    lines += static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), std::byte{'\n'}));
    return {};
  };
  auto read = [&]() -> Status {
    TRY(walk.check_file(ref->digest));
    return walk.content(ref->digest, count);
  }();
  if (!read) return wrong(findings, "events", read.error().text);
  if (lines != ref->count) {
    wrong(findings, "events",
          "the log has " + std::to_string(lines) + " lines, the record says " + std::to_string(ref->count));
  }
}

}  // namespace

bool Verification::good() const {
  return std::none_of(findings.begin(), findings.end(), [](const Finding& f) { return f.wrong; });
}

Result<Verification> verify(Ledger& ledger, std::string_view turn_or_prefix) {
  TRY_ASSIGN(const store::Reader reader, ledger.store().read());
  TRY_ASSIGN(const store::StoredRecord stored, reader.load_record(turn_or_prefix));
  Verification result{stored.turn, stored.record.digest, 0, 0, {}};
  TRY(check_chain(reader, stored.account, stored.demand, stored.chain_index, result.findings));
  TRY(check_checkpoint(reader, ledger.store().state_dir(), result.findings));
  const auto placed = reader.record_at(stored.account, stored.demand, stored.chain_index);
  Findings own;
  const auto record = check_record(stored, own);
  if (!placed || placed->turn != stored.turn) {
    wrong(result.findings, "chain",
          "turn " + stored.turn + " is not at its place in the chain of " + stored.demand);
    result.findings.insert(result.findings.end(), own.begin(), own.end());
  }
  if (!record) return result;
  const Draft& draft = record->draft;
  ObjectWalk walk(reader, draft.account);
  TreeCheck trees(walk, result.findings);
  trees.run(draft.workspace_before, "workspace before");
  trees.run(draft.workspace_after, "workspace after");
  for (const Input& input : draft.inputs) trees.run(input.tree, "input " + input.name);
  for (const Stage& stage : draft.stages) trees.run(stage.outputs, "outputs of " + stage.name);
  check_events(walk, draft.events, result.findings);
  result.objects = walk.seen().size();
  result.bytes = walk.bytes();
  return result;
}

Result<std::vector<Finding>> verify_chains(Ledger& ledger) {
  TRY_ASSIGN(const store::Reader reader, ledger.store().read());
  Findings findings;
  uint64_t records = 0;
  TRY_ASSIGN(const auto heads, reader.heads());
  for (const store::Head& head : heads) {
    TRY(check_chain(reader, head.account, head.demand, head.chain_index, findings));
    records += head.chain_index + 1;
  }
  TRY_ASSIGN(const uint64_t count, reader.count());
  if (records != count) {
    wrong(findings, "store",
          "it counts " + std::to_string(count) + " records, its chains have " + std::to_string(records));
  }
  TRY(check_checkpoint(reader, ledger.store().state_dir(), findings));
  return findings;
}

}  // namespace turnbox::turn
