#include "fs/control/client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "fs/control/answer.h"
#include "fs/control/change_list.h"
#include "fs/control/object_stream.h"
#include "vmm/sys/memfd.h"
#include "vmm/sys/socket.h"

namespace turnbox::control {
namespace {

namespace json = boost::json;
using sys::ErrorKind;
using sys::Result;
using sys::Status;

Result<sys::Digest> digest_at(const json::object& from, std::string_view key) {
  TRY_ASSIGN(const std::string hex, text(from, key));
  const auto digest = sys::digest_from_hex(hex);
  if (!digest) return broken(key);
  return *digest;
}

Result<bool> flag(const json::object& from, std::string_view key) {
  const json::value* value = from.if_contains(key);
  if (value == nullptr || !value->is_bool()) return broken(key);
  return value->get_bool();
}

Result<const json::object*> member(const json::object& from, std::string_view key) {
  const json::value* value = from.if_contains(key);
  if (value == nullptr || !value->is_object()) return broken(key);
  return &value->get_object();
}

// The error object of an answer, as an Error.
sys::Error error_of(const json::value& error) {
  const json::object* object = error.if_object();
  const json::value* code = object ? object->if_contains("code") : nullptr;
  const json::value* message = object ? object->if_contains("message") : nullptr;
  if (code == nullptr || !code->is_int64() || message == nullptr || !message->is_string()) {
    return {ErrorKind::protocol, "turnbox-fsd sent an error without code and message"};
  }
  return {kind_of(static_cast<int>(code->get_int64())), std::string(message->get_string())};
}

Status wait_for(int fd, short events, std::chrono::steady_clock::time_point until) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return sys::fail(ErrorKind::unavailable, "turnbox-fsd did not answer in time");
    pollfd wait{fd, events, 0};
    const int n = ::poll(&wait, 1, static_cast<int>(std::min<int64_t>(left.count(), 60'000)));
    if (n > 0) return {};
    if (n < 0 && errno != EINTR) return sys::fail_errno("cannot wait for turnbox-fsd");
  }
}

tl::unexpected<sys::Error> ended() {
  return sys::fail(ErrorKind::unavailable, "turnbox-fsd ended; what its turns held is lost");
}

}  // namespace

Client::Client(sys::Fd socket, std::chrono::milliseconds deadline)
    : socket_(std::move(socket)), deadline_(deadline) {}

Status Client::send(std::string_view line, std::span<const int> fds, Clock::time_point until) {
  sys::ByteSpan rest = sys::as_bytes(line);
  while (!rest.empty()) {
    TRY(wait_for(socket_.get(), POLLOUT, until));
    const auto sent = sys::send_some_with_fds(socket_.get(), rest, fds);
    if (!sent) return ended();
    if (*sent > 0) fds = {};
    rest = rest.subspan(*sent);
  }
  return {};
}

Status Client::fill(Clock::time_point until) {
  TRY(wait_for(socket_.get(), POLLIN, until));
  std::byte buffer[16384];
  auto received = sys::receive_with_fds(socket_.get(), buffer);
  if (!received) return ended();
  if (received->size == 0) return ended();
  if (received->truncated) return sys::fail(ErrorKind::protocol, "turnbox-fsd's descriptors were cut off");
  if (!in_.feed({buffer, received->size}, std::move(received->fds))) {
    return sys::fail(ErrorKind::protocol, "turnbox-fsd sent too many descriptors");
  }
  return {};
}

Result<bool> Client::take_line(std::string& line) {
  switch (in_.next(line)) {
    case LineBuffer::Next::none:
      return false;
    case LineBuffer::Next::line:
      return true;
    case LineBuffer::Next::too_long:
      break;
  }
  return sys::fail(ErrorKind::protocol, "turnbox-fsd sent a line longer than the limit");
}

Result<Client::Incoming> Client::parse(const std::string& line) {
  boost::system::error_code failed;
  json::value value = json::parse(line, failed);
  if (failed || !value.is_object())
    return sys::fail(ErrorKind::protocol, "turnbox-fsd sent a line that is no object");
  Incoming message;
  message.body = std::move(value.get_object());
  if (message.body.contains("fds")) {
    TRY_ASSIGN(const uint64_t count, number(message.body, "fds"));
    auto fds = in_.take_fds(count);
    if (!fds) return sys::fail(ErrorKind::protocol, "turnbox-fsd sent fewer descriptors than it says");
    message.fds = std::move(*fds);
  }
  return message;
}

void Client::note(const json::object& notification) {
  const auto params = member(notification, "params");
  if (!params) return;
  if (const auto device = text(**params, "device")) gone_.push_back(*device);
  if (const auto mount = number(**params, "mount")) gone_mounts_.push_back(*mount);
}

Result<Client::Answer> Client::wait_answer(uint64_t id, Clock::time_point until) {
  std::string line;
  while (true) {
    TRY_ASSIGN(const bool whole, take_line(line));
    if (!whole) {
      TRY(fill(until));
      continue;
    }
    TRY_ASSIGN(Incoming message, parse(line));
    if (message.body.contains("method")) {
      note(message.body);
      continue;
    }
    // An operator that is not served is told so before it asked anything.
    if (const json::value* whose = message.body.if_contains("id"); whose != nullptr && whose->is_null()) {
      if (const json::value* error = message.body.if_contains("error"))
        return tl::make_unexpected(error_of(*error));
    }
    // An answer to a call that was given up at its deadline is dropped, with its descriptors.
    const auto answered = number(message.body, "id");
    if (!answered || *answered != id) continue;
    if (const json::value* error = message.body.if_contains("error"))
      return tl::make_unexpected(error_of(*error));
    TRY_ASSIGN(const json::object* result, member(message.body, "result"));
    return Answer{*result, std::move(message.fds)};
  }
}

Result<Client::Answer> Client::call(std::string_view method, json::object params,
                                    std::span<const int> send_fds, size_t fds) {
  const uint64_t id = next_id_++;
  const auto until = Clock::now() + deadline_;
  json::object request{{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}};
  if (!send_fds.empty()) request["fds"] = send_fds.size();
  const std::string line = json::serialize(request) + "\n";
  if (!sys::is_utf8(line)) {
    return sys::fail(ErrorKind::invalid, std::string(method) + ": a name in it is not UTF-8; rename it");
  }
  if (line.size() > kMaxLine) {
    return sys::fail(ErrorKind::limit,
                     std::string(method) + ": the message is longer than 1 MiB; make it smaller");
  }
  if (auto sent = send(line, send_fds, until); !sent) return sys::context(method, sent.error());
  auto answer = wait_answer(id, until);
  if (!answer) return sys::context(method, answer.error());
  if (answer->fds.size() != fds) {
    return sys::fail(ErrorKind::protocol,
                     std::string(method) + ": turnbox-fsd's answer lacks its memory file");
  }
  return answer;
}

Result<Info> Client::info() {
  TRY_ASSIGN(const Answer answer, call("fs.info", {}));
  TRY_ASSIGN(const json::object* budget, member(answer.result, "budget"));
  TRY_ASSIGN(const json::object* usage, member(answer.result, "usage"));
  TRY_ASSIGN(const json::object* confinement, member(answer.result, "confinement"));
  Info info;
  TRY_ASSIGN(const uint64_t version, number(answer.result, "version"));
  if (version != kVersion) {
    return sys::fail(ErrorKind::conflict, "turnbox-fsd speaks control version " + std::to_string(version) +
                                              "; install turnbox whole, from one release");
  }
  TRY_ASSIGN(info.budget_bytes, number(*budget, "bytes"));
  TRY_ASSIGN(info.budget_inodes, number(*budget, "inodes"));
  TRY_ASSIGN(info.used_bytes, number(*usage, "bytes"));
  TRY_ASSIGN(info.used_inodes, number(*usage, "inodes"));
  TRY_ASSIGN(info.workspace_epoch, number(answer.result, "workspace_epoch"));
  TRY_ASSIGN(info.own_user, flag(*confinement, "own_user"));
  TRY_ASSIGN(info.empty_root, flag(*confinement, "empty_root"));
  return info;
}

Result<Imported> Client::import(std::string_view target, int memfd, bool more) {
  TRY_ASSIGN(const Answer answer, call("fs.import", {{"target", target}, {"more", more}}, {&memfd, 1}));
  Imported imported;
  TRY_ASSIGN(imported.entries, number(answer.result, "entries"));
  TRY_ASSIGN(imported.bytes, number(answer.result, "bytes"));
  return imported;
}

Result<SnapshotId> Client::turn_begin(const TurnBegin& turn) {
  TRY_ASSIGN(const Answer answer,
             call("turn.begin", {{"turn", turn.turn},
                                 {"demand", turn.demand},
                                 {"thread", turn.thread},
                                 {"thread_seq", turn.thread_seq},
                                 {"tier", turn.tier},
                                 {"inputs", json::array(turn.inputs.begin(), turn.inputs.end())}}));
  return number(answer.result, "snapshot");
}

Result<std::string> Client::stage_begin(std::string_view turn, std::string_view stage) {
  TRY_ASSIGN(const Answer answer, call("stage.begin", {{"turn", turn}, {"stage", stage}}));
  return text(answer.result, "dir");
}

Result<SnapshotId> Client::stage_seal(std::string_view turn, std::string_view stage) {
  TRY_ASSIGN(const Answer answer, call("stage.seal", {{"turn", turn}, {"stage", stage}}));
  return number(answer.result, "snapshot");
}

Result<TurnEnd> Client::turn_end(std::string_view turn, std::string_view status) {
  TRY_ASSIGN(const Answer answer, call("turn.end", {{"turn", turn}, {"status", status}}));
  TurnEnd end;
  TRY_ASSIGN(end.snapshot, number(answer.result, "snapshot"));
  TRY_ASSIGN(end.events, number(answer.result, "events"));
  TRY_ASSIGN(end.events_digest, digest_at(answer.result, "events_digest"));
  return end;
}

Status Client::event_append(std::string_view turn, const json::object& event) {
  TRY(call("event.append", {{"turn", turn}, {"event", event}}));
  return {};
}

Result<uint64_t> Client::workspace_epoch() {
  TRY_ASSIGN(const Answer answer, call("workspace.epoch", {}));
  return number(answer.result, "epoch");
}

Result<SubtreeDigest> Client::digest(SnapshotId snapshot, std::string_view of) {
  TRY_ASSIGN(const Answer answer, call("snapshot.digest", {{"snapshot", snapshot}, {"of", of}}));
  SubtreeDigest digest;
  TRY_ASSIGN(const std::string kind, text(answer.result, "kind"));
  const auto known = object_kind(kind);
  if (!known) return broken("kind");
  digest.kind = *known;
  TRY_ASSIGN(digest.content, digest_at(answer.result, "content"));
  TRY_ASSIGN(digest.meta, digest_at(answer.result, "meta"));
  TRY_ASSIGN(digest.files, number(answer.result, "files"));
  TRY_ASSIGN(digest.dirs, number(answer.result, "dirs"));
  TRY_ASSIGN(digest.bytes, number(answer.result, "bytes"));
  return digest;
}

Result<ObjectPiece> Client::objects_piece(SnapshotId snapshot, std::string_view of,
                                          std::span<const sys::Digest> have, bool first) {
  sys::Fd known;
  if (first) {
    TRY_ASSIGN(known, sys::memfd_with("turnbox-have", std::as_bytes(have)));
  }
  const int known_fd = known.get();
  TRY_ASSIGN(Answer answer, call("snapshot.objects", {{"snapshot", snapshot}, {"of", of}, {"next", !first}},
                                 first ? std::span(&known_fd, 1) : std::span<const int>{}, 1));
  ObjectPiece piece;
  TRY_ASSIGN(piece.more, flag(answer.result, "more"));
  piece.memfd = std::move(answer.fds[0]);
  return piece;
}

Status Client::objects(SnapshotId snapshot, std::string_view of, std::span<const sys::Digest> have,
                       const std::function<Status(const Object&)>& visit) {
  bool more = true;
  for (bool first = true; more; first = false) {
    TRY_ASSIGN(const ObjectPiece piece, objects_piece(snapshot, of, have, first));
    more = piece.more;
    TRY_ASSIGN(const sys::Mapping bytes, sys::map_sealed(piece.memfd.get(), kMaxBulk));
    TRY(read_object_stream(bytes.bytes(),
                           [&](ObjectKind kind, const sys::Digest& digest, sys::ByteSpan object) {
                             return visit(Object{kind, digest, object});
                           }));
  }
  return {};
}

Result<Changes> Client::diff(SnapshotId from, SnapshotId to) {
  TRY_ASSIGN(Answer answer, call("snapshot.diff", {{"from", from}, {"to", to}}, {}, 1));
  Changes changes;
  TRY_ASSIGN(changes.added, number(answer.result, "added"));
  TRY_ASSIGN(changes.changed, number(answer.result, "changed"));
  TRY_ASSIGN(changes.removed, number(answer.result, "removed"));
  TRY_ASSIGN(const sys::Mapping list, sys::map_sealed(answer.fds[0].get(), kMaxBulk));
  TRY(read_change_list(list.bytes(), [&](char change, char type, std::string_view path) {
    changes.rows.push_back({change, type, std::string(path)});
  }));
  return changes;
}

Status Client::release(SnapshotId snapshot) {
  TRY(call("snapshot.release", {{"snapshot", snapshot}}));
  return {};
}

Result<std::string> Client::events(std::string_view turn) {
  TRY_ASSIGN(Answer answer, call("events.read", {{"turn", turn}}, {}, 1));
  TRY_ASSIGN(const sys::Mapping log, sys::map_sealed(answer.fds[0].get(), kMaxBulk));
  return std::string(sys::as_text(log.bytes()));
}

Result<json::object> Client::stats() {
  TRY_ASSIGN(Answer answer, call("fs.stats", {}));
  return std::move(answer.result);
}

Result<uint64_t> Client::mount_attach(std::string_view of, bool write, int device) {
  TRY_ASSIGN(const Answer answer, call("mount.attach", {{"of", of}, {"write", write}}, {&device, 1}));
  return number(answer.result, "mount");
}

Status Client::mount_detach(uint64_t mount) {
  TRY(call("mount.detach", {{"mount", mount}}));
  return {};
}

Status Client::take_notes() {
  pollfd ready{socket_.get(), POLLIN, 0};
  std::string line;
  while (true) {
    TRY_ASSIGN(const bool whole, take_line(line));
    if (whole) {
      TRY_ASSIGN(const Incoming message, parse(line));
      if (message.body.contains("method")) note(message.body);
      continue;
    }
    if (::poll(&ready, 1, 0) <= 0) break;
    TRY(fill(Clock::now() + deadline_));
  }
  return {};
}

Result<std::vector<std::string>> Client::take_gone() {
  TRY(take_notes());
  return std::exchange(gone_, {});
}

Result<std::vector<uint64_t>> Client::take_gone_mounts() {
  TRY(take_notes());
  return std::exchange(gone_mounts_, {});
}

}  // namespace turnbox::control
