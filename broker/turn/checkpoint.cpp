#include "broker/turn/checkpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "broker/turn/canonical.h"
#include "vmm/sys/fd.h"
#include "vmm/sys/memfd.h"

namespace turnbox::turn {

using sys::ErrorKind;
using sys::Result;
using sys::Status;

namespace {

std::string path_of(const std::string& state_dir) {
  return state_dir + "/checkpoint.json";
}

template <size_t N>
bool bytes_from(const Json::Object& object, std::string_view name, std::array<std::byte, N>& into) {
  const auto at = object.find(name);
  const auto* hex = at == object.end() ? nullptr : at->second.get<std::string>();
  const auto bytes = hex ? sys::from_hex(*hex) : std::nullopt;
  if (!bytes || bytes->size() != N) return false;
  std::copy(bytes->begin(), bytes->end(), into.begin());
  return true;
}

const int64_t* number_in(const Json::Object& object, std::string_view name) {
  const auto at = object.find(name);
  return at == object.end() ? nullptr : at->second.get<int64_t>();
}

const std::string* text_in(const Json::Object& object, std::string_view name) {
  const auto at = object.find(name);
  return at == object.end() ? nullptr : at->second.get<std::string>();
}

tl::unexpected<sys::Error> malformed(std::string_view why) {
  return sys::fail(ErrorKind::invalid, "the checkpoint " + std::string(why));
}

Json inner_of(const Checkpoint& checkpoint, const PublicKey& key) {
  Json::Array heads;
  for (const auto& head : checkpoint.heads) {
    heads.push_back(Json::Object{{"account", head.account},
                                 {"demand", head.demand},
                                 {"chain_index", static_cast<int64_t>(head.chain_index)},
                                 {"record", sys::to_hex(head.record)}});
  }
  return Json::Object{{"format", int64_t{1}},
                      {"count", static_cast<int64_t>(checkpoint.count)},
                      {"heads", std::move(heads)},
                      {"key", sys::to_hex(key_id(key))}};
}

Result<store::Head> read_head(const Json& value) {
  const auto* object = value.get<Json::Object>();
  if (object == nullptr) return malformed("has a bad head");
  const auto* account = text_in(*object, "account");
  const auto* demand = text_in(*object, "demand");
  const auto* index = number_in(*object, "chain_index");
  store::Head head;
  if (!account || !demand || !index || *index < 0 || !bytes_from(*object, "record", head.record.bytes)) {
    return malformed("has a bad head");
  }
  head.account = *account;
  head.demand = *demand;
  head.chain_index = static_cast<uint64_t>(*index);
  return head;
}

}  // namespace

Result<std::string> write_checkpoint(const Checkpoint& checkpoint, const SigningKey& key) {
  const Json inner = inner_of(checkpoint, key.public_key());
  TRY_ASSIGN(const std::string bytes, inner.write());
  const Signature signature =
      key.sign(kCheckpointContext, sys::digest_of("checkpoint", sys::as_bytes(bytes)));
  return Json(Json::Object{{"checkpoint", inner},
                           {"public_key", sys::to_hex(sys::ByteSpan(key.public_key()))},
                           {"signature", sys::to_hex(sys::ByteSpan(signature))}})
      .write();
}

Result<Checkpoint> read_checkpoint(std::string_view bytes) {
  TRY_ASSIGN(const Json whole, Json::read(bytes));
  const auto* outer = whole.get<Json::Object>();
  const auto inner_at = outer ? outer->find("checkpoint") : Json::Object::const_iterator();
  const auto* inner = outer && inner_at != outer->end() ? inner_at->second.get<Json::Object>() : nullptr;
  if (inner == nullptr) return malformed("is no checkpoint");
  Checkpoint checkpoint;
  Signature signature{};
  if (!bytes_from(*outer, "public_key", checkpoint.key) || !bytes_from(*outer, "signature", signature)) {
    return malformed("has no key or no signature");
  }
  const auto* format = number_in(*inner, "format");
  if (format == nullptr || *format != 1) return malformed("has a format that this turnbox does not know");
  const auto* count = number_in(*inner, "count");
  const auto heads = inner->find("heads");
  const auto* list = heads == inner->end() ? nullptr : heads->second.get<Json::Array>();
  if (!count || *count < 0 || !list) return malformed("has no count or no heads");
  checkpoint.count = static_cast<uint64_t>(*count);
  for (const Json& value : *list) {
    TRY_ASSIGN(store::Head head, read_head(value));
    checkpoint.heads.push_back(std::move(head));
  }
  TRY_ASSIGN(const std::string signed_bytes, inner_at->second.write());
  const auto* key = text_in(*inner, "key");
  if (key == nullptr || *key != sys::to_hex(key_id(checkpoint.key)) ||
      !signature_is_good(checkpoint.key, kCheckpointContext,
                         sys::digest_of("checkpoint", sys::as_bytes(signed_bytes)), signature)) {
    return malformed("has a wrong signature");
  }
  return checkpoint;
}

Result<std::optional<Checkpoint>> load_checkpoint(const std::string& state_dir) {
  auto fd = sys::open_fd(path_of(state_dir).c_str(), O_RDONLY);
  if (!fd && fd.error().kind == ErrorKind::not_found) return std::optional<Checkpoint>();
  if (!fd) return tl::make_unexpected(std::move(fd).error());
  TRY_ASSIGN(const size_t size, sys::file_size(fd->get()));
  std::string bytes(size, '\0');
  TRY_ASSIGN(const size_t got, sys::read_full(fd->get(), std::as_writable_bytes(std::span(bytes))));
  bytes.resize(got);
  auto checkpoint = read_checkpoint(bytes);
  if (!checkpoint) {
    auto error = std::move(checkpoint).error();
    error.text += "; put back a copy, or move it away to go on without its protection";
    return sys::context(path_of(state_dir), std::move(error));
  }
  return std::optional(std::move(*checkpoint));
}

Result<std::vector<std::string>> lost_since(const Checkpoint& checkpoint, const store::Reader& reader) {
  std::vector<std::string> lost;
  TRY_ASSIGN(const uint64_t count, reader.count());
  if (count < checkpoint.count) {
    lost.push_back("the store has " + std::to_string(count) + " records, the checkpoint counts " +
                   std::to_string(checkpoint.count) + ": " + std::to_string(checkpoint.count - count) +
                   " are missing");
  }
  // It was written by whoever made the last record that it counts.
  const auto last = reader.record_number(checkpoint.count);
  if (last && last->record.public_key != checkpoint.key) {
    lost.push_back("the checkpoint is signed with key " + sys::to_hex(key_id(checkpoint.key)) +
                   ", which did not sign the last record that it counts");
  }
  for (const auto& head : checkpoint.heads) {
    const auto found = reader.record_at(head.account, head.demand, head.chain_index);
    if (found && found->record.digest == head.record) continue;
    lost.push_back("demand '" + head.demand + "': record " + std::to_string(head.chain_index) +
                   " of its chain " + (found ? "is another one than the checkpoint says" : "is missing"));
  }
  return lost;
}

Status advance_checkpoint(store::Store& store, const SigningKey& key) {
  const std::string lock_path = store.state_dir() + "/checkpoint.lock";
  TRY_ASSIGN(const sys::Fd lock, sys::open_fd(lock_path.c_str(), O_RDWR | O_CREAT, 0600));
  while (::flock(lock.get(), LOCK_EX) < 0) {
    if (errno != EINTR) return sys::fail_errno("cannot lock " + lock_path);
  }
  TRY_ASSIGN(const store::Reader reader, store.read());
  TRY_ASSIGN(const auto old, load_checkpoint(store.state_dir()));
  if (old) {
    TRY_ASSIGN(const auto lost, lost_since(*old, reader));
    if (!lost.empty()) return sys::fail(ErrorKind::conflict, lost.front());
  }
  Checkpoint now;
  TRY_ASSIGN(now.count, reader.count());
  TRY_ASSIGN(now.heads, reader.heads());
  TRY_ASSIGN(const std::string bytes, write_checkpoint(now, key));
  return sys::replace_file(path_of(store.state_dir()), bytes, 0600);
}

}  // namespace turnbox::turn
