// The broker's end of the control socket (docs/WIRE.md, «Control messages»): one blocking call per method.
//
// A Client belongs to one thread. Every call ends within the deadline: an answer, or an error of kind
// unavailable («turnbox-fsd ended», «did not answer within …»). Error kinds of answers: not_found, conflict,
// refused, limit, unavailable, invalid (bad parameters); protocol when fsd's answer breaks the format. An
// answer that comes after its deadline is dropped, so a Client stays usable after one.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fs/control/entry_list.h"
#include "fs/control/protocol.h"
#include "vmm/sys/digest.h"
#include "vmm/sys/fd.h"
#include "vmm/sys/result.h"

namespace turnbox::control {

using SnapshotId = uint64_t;

struct Info {
  uint64_t budget_bytes = 0, budget_inodes = 0;
  uint64_t used_bytes = 0, used_inodes = 0;
  uint64_t workspace_epoch = 0;
  bool own_user = false, empty_root = false;
};

struct Imported {
  uint64_t entries = 0, bytes = 0;  // of the import so far
};

struct TurnBegin {
  std::string turn;  // ULID, 26 characters
  std::string demand;
  std::string thread;  // a name; not `by-id`
  uint64_t thread_seq = 0;
  std::string tier;                 // `hardware` or `emulated`
  std::vector<std::string> inputs;  // imported before, as `input:NAME`
};

struct TurnEnd {
  SnapshotId snapshot = 0;
  uint64_t events = 0;        // lines
  sys::Digest events_digest;  // the `file` object's digest over the log's bytes
};

struct SubtreeDigest {
  ObjectKind kind{};    // dir or file
  sys::Digest content;  // of the object of that kind
  sys::Digest meta;     // of the meta's `file` object
  uint64_t files = 0, dirs = 0, bytes = 0;
};

struct Object {
  ObjectKind kind;
  sys::Digest digest;   // as fsd says; whoever stores it hashes again
  sys::ByteSpan bytes;  // valid inside the visitor only
};

// One piece of an object stream (docs/WIRE.md), sealed; `more`: another follows.
struct ObjectPiece {
  sys::Fd memfd;
  bool more = false;
};

struct ChangeRow {
  char change;       // '+', '~' or '-'
  char type;         // f d l p c b s
  std::string path;  // raw bytes, relative to the workspace
};

struct Version {
  std::string name;
  bool fork = false;
  SnapshotId snapshot = 0;  // of a fork: the one it began as
  int64_t made_sec = 0;
};

struct Changes {
  uint64_t added = 0, changed = 0, removed = 0;
  std::vector<ChangeRow> rows;  // sorted by path
};

class Client {
 public:
  explicit Client(sys::Fd socket, std::chrono::milliseconds deadline = std::chrono::seconds(60));
  Client(Client&&) noexcept = default;
  Client& operator=(Client&&) noexcept = default;

  void set_deadline(std::chrono::milliseconds deadline) { deadline_ = deadline; }
  int fd() const { return socket_.get(); }  // to wait for: readable when fsd has something to say, or ended

  sys::Result<Info> info();
  // `target`: `workspace`, or `input:NAME`. `memfd` is sealed (sys::seal_memfd); `more`: another piece
  // follows.
  sys::Result<Imported> import(std::string_view target, int memfd, bool more);
  sys::Result<SnapshotId> turn_begin(const TurnBegin& turn);
  sys::Result<std::string> stage_begin(std::string_view turn, std::string_view stage);  // gives `01-run`
  sys::Result<SnapshotId> stage_seal(std::string_view turn, std::string_view stage);
  sys::Result<TurnEnd> turn_end(std::string_view turn, std::string_view status);
  sys::Status event_append(std::string_view turn, const boost::json::object& event);
  sys::Result<uint64_t> workspace_epoch();
  // `of`: `workspace`, or, in the turn whose call made the snapshot, `inputs/NAME` or `outputs/STAGE`.
  sys::Result<SubtreeDigest> digest(SnapshotId snapshot, std::string_view of);
  // The next piece of a subtree's objects; `first` starts over and names what the asker has (else `have` is
  // not looked at).
  sys::Result<ObjectPiece> objects_piece(SnapshotId snapshot, std::string_view of,
                                         std::span<const sys::Digest> have, bool first);
  // Visits every object of the subtree that is not in `have`, children before parents, the meta's included. A
  // failed visit ends the walk with that error.
  sys::Status objects(SnapshotId snapshot, std::string_view of, std::span<const sys::Digest> have,
                      const std::function<sys::Status(const Object&)>& visit);
  sys::Result<Changes> diff(SnapshotId from, SnapshotId to);
  sys::Status release(SnapshotId snapshot);
  sys::Result<std::string> events(std::string_view turn);  // the log's bytes

  // Versions (client_versions.cpp). `of`: `workspace`, `@NAME`, or `snapshot:N`. An unnamed snapshot goes
  // with this connection.
  sys::Result<SnapshotId> snapshot_take(std::string_view of, std::string_view name = {});
  sys::Result<std::vector<Version>> versions();
  sys::Status snapshot_fork(SnapshotId snapshot, std::string_view name);
  sys::Status drop(std::string_view name);
  sys::Result<uint64_t> workspace_restore(std::string_view of);  // gives the new epoch
  // A directory's entries, in no order; one entry without a name where the path is no directory. Follows no
  // symlink.
  sys::Result<std::vector<ListedEntry>> list(std::string_view of, std::string_view path);
  // A file's bytes, or a symlink's target, in pieces.
  sys::Status read(std::string_view of, std::string_view path,
                   const std::function<sys::Status(sys::ByteSpan)>& sink);

  // A mount of a version (`workspace`), made by the caller, whose /dev/fuse descriptor is lent for the call.
  sys::Result<uint64_t> mount_attach(std::string_view of, bool write, int device);
  sys::Status mount_detach(uint64_t mount);
  sys::Result<boost::json::object> stats();

  // What went away since the last call: devices (`workspace`, `turn`) whose front end did, and mounts by
  // number. Reads what is there without waiting; kind unavailable once fsd ended.
  sys::Result<std::vector<std::string>> take_gone();
  sys::Result<std::vector<uint64_t>> take_gone_mounts();

 private:
  struct Incoming {
    boost::json::object body;
    std::vector<sys::Fd> fds;
  };
  struct Answer {
    boost::json::object result;
    std::vector<sys::Fd> fds;
  };
  using Clock = std::chrono::steady_clock;
  // Sends one request and waits for its answer, which has exactly `fds` descriptors.
  sys::Result<Answer> call(std::string_view method, boost::json::object params,
                           std::span<const int> send_fds = {}, size_t fds = 0);
  sys::Status send(std::string_view line, std::span<const int> fds, Clock::time_point until);
  sys::Result<Answer> wait_answer(uint64_t id, Clock::time_point until);
  sys::Status fill(Clock::time_point until);       // receives once, at least one byte
  sys::Result<bool> take_line(std::string& line);  // false: no whole line yet
  sys::Result<Incoming> parse(const std::string& line);
  void note(const boost::json::object& notification);

  sys::Fd socket_;
  std::chrono::milliseconds deadline_;
  uint64_t next_id_ = 1;
  LineBuffer in_{kMaxLine};
  sys::Status take_notes();  // without waiting
  std::vector<std::string> gone_;
  std::vector<uint64_t> gone_mounts_;
};

}  // namespace turnbox::control
