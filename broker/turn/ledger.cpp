#include "broker/turn/ledger.h"

#include "broker/turn/checkpoint.h"
#include "broker/turn/record.h"
#include "broker/turn/signing_key.h"

namespace turnbox::turn {

using sys::ErrorKind;
using sys::Result;
using sys::Status;

namespace {

// Before anything is written: a commit after a cut tail would hide it.
Status refuse_lost_records(store::Store& store) {
  TRY_ASSIGN(const store::Reader reader, store.read());
  TRY_ASSIGN(const auto checkpoint, load_checkpoint(store.state_dir()));
  if (!checkpoint) return {};
  TRY_ASSIGN(const auto lost, lost_since(*checkpoint, reader));
  if (lost.empty()) return {};
  return sys::fail(ErrorKind::conflict,
                   "the store in " + store.state_dir() + " is behind its checkpoint (" + lost.front() +
                       "): put a newer copy of the store back, or, to go on without what is "
                       "lost, move " +
                       store.state_dir() + "/checkpoint.json away");
}

// Sentences for people may quote anything, a guest's console included; they must not cost the turn its
// record.
void make_plain(std::string& text) {
  if (sys::is_utf8(text)) return;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
}

template <typename Capture>
void make_plain(Capture& capture) {
  auto* why = std::get_if<NotCaptured>(&capture);
  if (why == nullptr) return;
  if (why->reason.empty()) why->reason = NotCaptured{}.reason;
  make_plain(why->reason);
}

Draft with_plain_sentences(Draft draft) {
  make_plain(draft.detail);
  make_plain(draft.workspace_before);
  make_plain(draft.workspace_after);
  make_plain(draft.events);
  for (Input& input : draft.inputs) make_plain(input.tree);
  for (Stage& stage : draft.stages) make_plain(stage.outputs);
  return draft;
}

}  // namespace

Result<Ledger> Ledger::open(const std::string& state_dir, const store::OpenOptions& options) {
  TRY_ASSIGN(auto store, store::Store::open(state_dir, options));
  return Ledger(std::move(store));
}

Result<Committed> Ledger::commit(const Draft& given, store::ObjectSource& objects) {
  const Draft draft = with_plain_sentences(given);
  TRY_ASSIGN(const SigningKey key, SigningKey::load_or_make(store_.state_dir()));
  TRY(refuse_lost_records(store_));
  Committed committed;
  const auto finish = [&](const store::ChainPlace& place) -> Result<store::SignedRecord> {
    store::SignedRecord record;
    TRY_ASSIGN(record.bytes,
               write_record({draft, place.chain_index, place.previous, key_id(key.public_key())}));
    record.digest = record_digest(record.bytes);
    record.signature = key.sign(kRecordContext, record.digest);
    record.public_key = key.public_key();
    committed.record = record.digest;
    committed.bytes = record.bytes;
    return record;
  };
  const store::TurnKey turn{draft.turn, draft.account, draft.project, draft.demand, draft.ended_ns};
  const auto roots = roots_of(draft);
  TRY_ASSIGN(const store::ChainPlace place, store_.commit(turn, roots, objects, finish));
  committed.chain_index = place.chain_index;
  // The record stands, whatever becomes of the checkpoint: the next commit brings it up.
  if (auto advanced = advance_checkpoint(store_, key); !advanced) {
    committed.checkpoint_late = std::move(advanced).error().text;
  }
  return committed;
}

}  // namespace turnbox::turn
