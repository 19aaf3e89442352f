#include "broker/store/store.h"

#include <algorithm>
#include <limits>

#include "broker/store/env.h"
#include "broker/store/layout.h"
#include "broker/store/object_writer.h"

namespace turnbox::store {

using sys::as_bytes;
using sys::ErrorKind;
using sys::Result;
using sys::Status;

namespace {

constexpr size_t kMostDemand = 40;  // with a service it has to fit a DNS label
constexpr size_t kMostName = 63;

Result<uint64_t> counter(const Txn& txn, std::string_view name) {
  TRY_ASSIGN(const auto value, txn.get(Db::meta, as_bytes(name)));
  if (!value) return uint64_t{0};
  if (value->size() != 8) return sys::fail(ErrorKind::invalid, "the store has a damaged counter");
  return sys::load_le<uint64_t>(value->data());
}

Status set_counter(Txn& txn, std::string_view name, uint64_t number) {
  sys::Bytes value;
  sys::append_le(value, number);
  return txn.put(Db::meta, as_bytes(name), value);
}

sys::Bytes time_value(int64_t ns) {
  sys::Bytes value;
  sys::append_le(value, ns);
  return value;
}

// The account's number; it is made at first use.
Result<AccountNumber> ensure_account(Txn& txn, const std::string& account, int64_t now_ns) {
  TRY(check_name("account", account, kMostName));
  TRY_ASSIGN(const auto found, txn.get(Db::accounts, as_bytes(account)));
  if (found) return sys::load_le<uint32_t>(found->data());
  TRY_ASSIGN(const uint64_t last, counter(txn, "accounts"));
  if (last == std::numeric_limits<uint32_t>::max())
    return sys::fail(ErrorKind::limit, "the store has no account number left");
  sys::Bytes value;
  sys::append_le(value, static_cast<uint32_t>(last + 1));
  sys::append_le(value, now_ns);
  TRY(txn.put(Db::accounts, as_bytes(account), value));
  TRY(set_counter(txn, "accounts", last + 1));
  return static_cast<AccountNumber>(last + 1);
}

struct Owner {
  AccountNumber account = 0;
  DemandRow demand;
};

// Account, project and demand rows, made where missing; conflict when the demand is somebody else's.
Result<Owner> ensure_demand(Txn& txn, const std::string& account, const std::string& project,
                            const std::string& demand, int64_t now_ns) {
  TRY(check_name("project", project, kMostName));
  TRY(check_name("demand", demand, kMostDemand));
  Owner owner;
  TRY_ASSIGN(owner.account, ensure_account(txn, account, now_ns));
  const auto project_key = account_key(owner.account, as_bytes(project));
  TRY_ASSIGN(const auto has_project, txn.get(Db::projects, project_key));
  if (!has_project) TRY(txn.put(Db::projects, project_key, time_value(now_ns)));
  TRY_ASSIGN(const auto row, txn.get(Db::demands, as_bytes(demand)));
  if (!row) {
    owner.demand = {owner.account, now_ns, 0, project};
    TRY(txn.put(Db::demands, as_bytes(demand), write_demand(owner.demand)));
    return owner;
  }
  TRY_ASSIGN(owner.demand, read_demand(*row));
  if (owner.demand.account != owner.account || owner.demand.project != project) {
    return sys::fail(ErrorKind::conflict, "demand '" + demand + "' belongs to another account or project");
  }
  return owner;
}

Status put_objects(Txn& txn, AccountNumber account, std::span<const Root> roots, ObjectSource& objects) {
  TRY_ASSIGN(const uint64_t segment, counter(txn, "segments"));
  ObjectWriter writer(txn, account, segment);
  TRY(objects.rewind());
  for (;;) {
    TRY_ASSIGN(const std::optional<Object> object, objects.next());
    if (!object) break;
    TRY(writer.put(*object));
  }
  TRY(writer.finish());
  for (const Root& root : roots) {
    TRY_ASSIGN(const bool there, writer.has(root.kind, root.digest));
    if (there) continue;
    return sys::fail(ErrorKind::invalid, "the record names " + std::string(name_of(root.kind)) + " " +
                                             sys::to_hex(root.digest) + ", which was not handed over");
  }
  return set_counter(txn, "segments", writer.next_segment());
}

Result<ChainPlace> next_place(const Txn& txn, AccountNumber account, const std::string& demand) {
  ChainPlace place;
  TRY_ASSIGN(place.count, counter(txn, "records"));
  TRY_ASSIGN(const auto head, txn.get(Db::heads, account_key(account, as_bytes(demand))));
  if (head) {
    TRY_ASSIGN(const Head last, read_head(*head));
    place.chain_index = last.chain_index + 1;
    place.previous = last.record;
  }
  return place;
}

Status put_record(Txn& txn, AccountNumber account, const StoredRecord& row) {
  TRY(txn.put(Db::records, as_bytes(row.turn), write_record_row(row)));
  TRY(txn.put(Db::turns, number_key(row.sequence), as_bytes(row.turn)));
  TRY(txn.put(Db::chains, chain_key(account, row.demand, row.chain_index), as_bytes(row.turn)));
  TRY(txn.put(Db::heads, account_key(account, as_bytes(row.demand)),
              write_head({row.account, row.demand, row.chain_index, row.turn, row.record.digest})));
  TRY(txn.put(Db::keys, sys::plain_sha256(row.record.public_key).bytes, row.record.public_key));
  return set_counter(txn, "records", row.sequence);
}

}  // namespace

Store::Store(std::unique_ptr<Env> env) : env_(std::move(env)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Result<Store> Store::open(const std::string& state_dir, const OpenOptions& options) {
  TRY_ASSIGN(auto env, Env::open(state_dir, options));
  return Store(std::move(env));
}

const std::string& Store::state_dir() const {
  return env_->state_dir();
}

Result<std::vector<sys::Digest>> Store::missing(std::string_view account,
                                                std::span<const sys::Digest> digests) {
  TRY_ASSIGN(const Txn txn, env_->begin_read());
  TRY_ASSIGN(const auto number, txn.get(Db::accounts, as_bytes(account)));
  std::vector<sys::Digest> absent;
  for (const sys::Digest& digest : digests) {
    if (number) {
      const auto key = account_key(sys::load_le<uint32_t>(number->data()), digest.bytes);
      TRY_ASSIGN(const auto found, txn.get(Db::objects, key));
      if (found) continue;
    }
    absent.push_back(digest);
  }
  return absent;
}

Result<ChainPlace> Store::commit(const TurnKey& key, std::span<const Root> roots, ObjectSource& objects,
                                 const Finish& finish) {
  if (key.turn.size() != 26) return sys::fail(ErrorKind::invalid, "turn id '" + key.turn + "' is no ULID");
  ChainPlace place;
  const auto body = [&](Txn& txn) -> Status {
    TRY_ASSIGN(const auto stored, txn.get(Db::records, as_bytes(key.turn)));
    if (stored) return sys::fail(ErrorKind::conflict, "turn " + key.turn + " has a record already");
    TRY_ASSIGN(const Owner owner, ensure_demand(txn, key.account, key.project, key.demand, key.now_ns));
    TRY(put_objects(txn, owner.account, roots, objects));
    TRY_ASSIGN(place, next_place(txn, owner.account, key.demand));
    TRY_ASSIGN(SignedRecord record, finish(place));
    TURNBOX_ASSERT(record.digest == sys::digest_of("record", as_bytes(record.bytes)));
    return put_record(txn, owner.account,
                      {key.turn, key.account, key.project, key.demand, place.chain_index, place.count + 1,
                       std::move(record)});
  };
  TRY(env_->write(body));
  return place;
}

Result<uint64_t> Store::add_sandbox(const SandboxRow& row) {
  uint64_t ordinal = 0;
  const auto refuse_second = [&](sys::ByteSpan id, sys::ByteSpan value) -> Result<bool> {
    TRY_ASSIGN(const SandboxRow other, read_sandbox(sys::as_text(id), value));
    if (other.demand != row.demand && other.id != row.id) return true;
    return sys::fail(ErrorKind::conflict, "demand '" + other.demand + "' has a sandbox already, " + other.id +
                                              " in " + other.runtime_dir);
  };
  const auto body = [&](Txn& txn) -> Status {
    TRY(txn.scan(Db::sandboxes, {}, refuse_second));
    TRY_ASSIGN(Owner owner, ensure_demand(txn, row.account, row.project, row.demand, row.created_ns));
    ordinal = ++owner.demand.sandboxes;
    TRY(txn.put(Db::demands, as_bytes(row.demand), write_demand(owner.demand)));
    SandboxRow kept = row;
    kept.ordinal = ordinal;
    return txn.put(Db::sandboxes, as_bytes(row.id), write_sandbox(kept));
  };
  TRY(env_->write(body));
  return ordinal;
}

Status Store::erase_sandbox(const std::string& id) {
  return env_->write([&](Txn& txn) { return txn.erase(Db::sandboxes, as_bytes(id)); });
}

Result<std::vector<SandboxRow>> Store::sandboxes() {
  TRY_ASSIGN(const Txn txn, env_->begin_read());
  std::vector<SandboxRow> rows;
  TRY(txn.scan(Db::sandboxes, {}, [&](sys::ByteSpan id, sys::ByteSpan value) -> Result<bool> {
    TRY_ASSIGN(SandboxRow row, read_sandbox(sys::as_text(id), value));
    rows.push_back(std::move(row));
    return true;
  }));
  return rows;
}

Status Store::add_workspace(const WorkspaceRow& row) {
  TRY(check_name("fork", row.name, kMostName));
  const sys::Digest roots[] = {row.content, row.meta};
  TRY_ASSIGN(const auto absent, missing(row.account, roots));
  if (!absent.empty()) {
    return sys::fail(ErrorKind::invalid, "object " + sys::to_hex(absent.front()) + " of the fork '" +
                                             row.name + "' is not in the store");
  }
  return env_->write([&](Txn& txn) -> Status {
    TRY_ASSIGN(const auto taken, txn.get(Db::workspaces, as_bytes(row.name)));
    if (taken) {
      return sys::fail(ErrorKind::conflict,
                       "there is a fork '" + row.name +
                           "' already; remove it with `turnbox workspace rm`, or take another name");
    }
    return txn.put(Db::workspaces, as_bytes(row.name), write_workspace(row));
  });
}

Status Store::move_workspace(const std::optional<WorkspaceRow>& was, const WorkspaceRow& now,
                             ObjectSource& objects) {
  TURNBOX_ASSERT(!was || (was->name == now.name && was->account == now.account));
  TRY(check_name("fork", now.name, kMostName));
  const Root roots[] = {{now.kind, now.content}, {ObjectKind::file, now.meta}};
  return env_->write([&](Txn& txn) -> Status {
    TRY_ASSIGN(const auto row, txn.get(Db::workspaces, as_bytes(now.name)));
    if (was ? !row || !std::ranges::equal(*row, write_workspace(*was)) : row.has_value()) {
      return sys::fail(ErrorKind::conflict,
                       "the fork '" + now.name + "' was changed, made or removed meanwhile");
    }
    TRY_ASSIGN(const auto number, txn.get(Db::accounts, as_bytes(now.account)));
    if (!number) return sys::fail(ErrorKind::invalid, "the store does not know the account " + now.account);
    TRY(put_objects(txn, sys::load_le<uint32_t>(number->data()), roots, objects));
    return txn.put(Db::workspaces, as_bytes(now.name), write_workspace(now));
  });
}

Status Store::erase_workspace(const std::string& name) {
  return env_->write([&](Txn& txn) -> Status {
    TRY_ASSIGN(const auto there, txn.get(Db::workspaces, as_bytes(name)));
    if (!there) return sys::fail(ErrorKind::not_found, "there is no fork '" + name + "' in the store");
    return txn.erase(Db::workspaces, as_bytes(name));
  });
}

Result<std::optional<WorkspaceRow>> Store::find_workspace(std::string_view name) {
  TRY_ASSIGN(const Txn txn, env_->begin_read());
  TRY_ASSIGN(const auto value, txn.get(Db::workspaces, as_bytes(name)));
  if (!value) return std::optional<WorkspaceRow>();
  TRY_ASSIGN(WorkspaceRow row, read_workspace(name, *value));
  return std::optional(std::move(row));
}

Result<std::vector<WorkspaceRow>> Store::workspaces() {
  TRY_ASSIGN(const Txn txn, env_->begin_read());
  std::vector<WorkspaceRow> rows;
  TRY(txn.scan(Db::workspaces, {}, [&](sys::ByteSpan name, sys::ByteSpan value) -> Result<bool> {
    TRY_ASSIGN(WorkspaceRow row, read_workspace(sys::as_text(name), value));
    rows.push_back(std::move(row));
    return true;
  }));
  return rows;
}

Result<StoredRecord> Store::load_record(std::string_view turn_or_prefix) {
  TRY_ASSIGN(const Reader reader, read());
  return reader.load_record(turn_or_prefix);
}

Result<std::vector<StoredRecord>> Store::list() {
  TRY_ASSIGN(const Reader reader, read());
  std::vector<StoredRecord> rows;
  TRY(reader.list([&](const StoredRecord& row) {
    rows.push_back(row);
    return true;
  }));
  return rows;
}

}  // namespace turnbox::store
