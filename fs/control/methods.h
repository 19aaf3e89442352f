// The control methods: one row and one function each (docs/WIRE.md, «Control messages»).
//
// Belongs to the thread that owns the tree.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "fs/control/hasher.h"
#include "fs/control/mounts.h"
#include "fs/control/object_feed.h"
#include "fs/control/reclaimer.h"
#include "fs/turn/snapshots.h"
#include "fs/turn/turns.h"
#include "fs/turn/versions.h"
#include "fs/turn/workspace.h"
#include "vmm/sys/sandbox.h"

namespace turnbox::control {

struct Answer {
  boost::json::object result;
  std::vector<sys::Fd> fds;
};
using Reply = std::function<void(sys::Result<Answer>)>;

// One connection, as the methods see it. What it took (unnamed snapshots) goes when it ends: Methods::left().
struct Session {
  enum class Rights : uint8_t {
    owner,      // the socket handed over at start: everything
    operators,  // an operator's connection: what reads, and what makes versions
  };
  uint64_t id = 0;  // never used again in this process
  Rights rights = Rights::owner;
  std::function<void(std::string_view method, boost::json::object params)> notify;  // to this peer
};

// One request.
struct Call {
  Session& session;
  const boost::json::object& params;
  std::vector<sys::Fd>& fds;
};

struct World {
  boost::asio::io_context& io;
  fs::Tree& tree;
  turn::Workspace& workspace;
  turn::Turns& turns;
  turn::Events& events;
  turn::Snapshots& snapshots;
  turn::Versions& versions;
  Hasher& hasher;            // the owner's
  Hasher& operators_hasher;  // so that no operator's question waits before, or ends, one of the owner's
  Reclaimer& reclaimer;
  Mounts& mounts;
  bool guest;  // somebody's guest has the workspace: its device stands
  sys::Confinement confinement;
  std::function<boost::json::object()> stats;  // of both devices
};

class Methods {
 public:
  explicit Methods(World world) : world_(std::move(world)) {}
  ~Methods();
  Methods(const Methods&) = delete;
  Methods& operator=(const Methods&) = delete;

  using Now = sys::Result<Answer> (Methods::*)(Call& call);
  using Later = void (Methods::*)(Call& call, const Reply& reply);
  enum class Who : uint8_t { owner, anyone };
  struct Row {
    std::string_view name;
    Who who;
    std::variant<Now, Later> run;
    bool ordered = true;  // later messages wait for the answer
  };
  static const Row* find(std::string_view name);

  // The connection ended: what it took goes.
  void left(const Session& session);

 private:
  sys::Result<Answer> info(Call& call);
  sys::Result<Answer> import(Call& call);
  sys::Result<Answer> turn_begin(Call& call);
  sys::Result<Answer> stage_begin(Call& call);
  sys::Result<Answer> stage_seal(Call& call);
  void turn_end(Call& call, const Reply& reply);
  sys::Result<Answer> event_append(Call& call);
  sys::Result<Answer> workspace_epoch(Call& call);
  void snapshot_digest(Call& call, const Reply& reply);
  void snapshot_objects(Call& call, const Reply& reply);
  void snapshot_diff(Call& call, const Reply& reply);
  sys::Result<Answer> snapshot_release(Call& call);
  sys::Result<Answer> events_read(Call& call);
  sys::Result<Answer> snapshot_take(Call& call);
  sys::Result<Answer> snapshot_list(Call& call);
  sys::Result<Answer> snapshot_fork(Call& call);
  sys::Result<Answer> snapshot_drop(Call& call);
  sys::Result<Answer> workspace_restore(Call& call);
  sys::Result<Answer> tree_list(Call& call);
  sys::Result<Answer> tree_read(Call& call);
  sys::Result<Answer> mount_attach(Call& call);
  sys::Result<Answer> mount_detach(Call& call);
  sys::Result<Answer> stats(Call& call);

  // A hasher with the object stream that is open on it, which keeps the hasher for itself.
  struct Lane {
    Hasher& hasher;
    std::shared_ptr<ObjectFeed> feed = {};
    uint64_t session = 0, snapshot = 0;
    std::string of = {};

    void abandon();
    void submit(Hasher::Job job);  // abandons an open stream first
  };
  Lane& lane_of(const Session& session) {
    return session.rights == Session::Rights::owner ? owner_lane_ : operators_lane_;
  }

  sys::Result<uint64_t> take_snapshot(const std::string& turn);
  sys::Status start_feed(Call& call, uint64_t snapshot, const std::string& of);

  fuse::Options live(const std::shared_ptr<turn::Fork>& fork, bool write);
  sys::Result<fuse::Options> shown(const std::string& of, bool write);
  sys::Result<fuse::Options> shown_version(const std::string& of, bool write);

  struct Subtree {
    turn::Lease lease;
    fs::Ino root;
  };
  sys::Result<Subtree> subtree(const boost::json::object& params);

  World world_;
  Lane owner_lane_{world_.hasher};
  Lane operators_lane_{world_.operators_hasher};
};

}  // namespace turnbox::control
