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
#include "fs/control/object_feed.h"
#include "fs/control/reclaimer.h"
#include "fs/turn/snapshots.h"
#include "fs/turn/turns.h"
#include "fs/turn/workspace.h"
#include "vmm/sys/sandbox.h"

namespace turnbox::control {

struct Answer {
  boost::json::object result;
  std::vector<sys::Fd> fds;
};
using Reply = std::function<void(sys::Result<Answer>)>;

struct World {
  boost::asio::io_context& io;
  fs::Tree& tree;
  turn::Workspace& workspace;
  turn::Turns& turns;
  turn::Events& events;
  turn::Snapshots& snapshots;
  Hasher& hasher;
  Reclaimer& reclaimer;
  sys::Confinement confinement;
  std::function<boost::json::object()> stats;  // of both devices
};

class Methods {
 public:
  explicit Methods(World world) : world_(std::move(world)) {}
  ~Methods();
  Methods(const Methods&) = delete;
  Methods& operator=(const Methods&) = delete;

  using Fds = std::vector<sys::Fd>;
  using Now = sys::Result<Answer> (Methods::*)(const boost::json::object& params, Fds& fds);
  using Later = void (Methods::*)(const boost::json::object& params, Fds& fds, const Reply& reply);
  struct Row {
    std::string_view name;
    std::variant<Now, Later> run;
    bool ordered = true;  // later messages wait for the answer
  };
  static const Row* find(std::string_view name);

 private:
  sys::Result<Answer> info(const boost::json::object& params, Fds& fds);
  sys::Result<Answer> import(const boost::json::object& params, Fds& fds);
  sys::Result<Answer> turn_begin(const boost::json::object& params, Fds& fds);
  sys::Result<Answer> stage_begin(const boost::json::object& params, Fds& fds);
  sys::Result<Answer> stage_seal(const boost::json::object& params, Fds& fds);
  void turn_end(const boost::json::object& params, Fds& fds, const Reply& reply);
  sys::Result<Answer> event_append(const boost::json::object& params, Fds& fds);
  sys::Result<Answer> workspace_epoch(const boost::json::object& params, Fds& fds);
  void snapshot_digest(const boost::json::object& params, Fds& fds, const Reply& reply);
  void snapshot_objects(const boost::json::object& params, Fds& fds, const Reply& reply);
  void snapshot_diff(const boost::json::object& params, Fds& fds, const Reply& reply);
  sys::Result<Answer> snapshot_release(const boost::json::object& params, Fds& fds);
  sys::Result<Answer> events_read(const boost::json::object& params, Fds& fds);
  sys::Result<Answer> stats(const boost::json::object& params, Fds& fds);

  sys::Result<uint64_t> take_snapshot(const std::string& turn);
  sys::Status start_feed(uint64_t snapshot, const std::string& of, Fds& fds);
  void submit(Hasher::Job job);  // abandons an open feed first: it would keep the hasher for itself

  struct Subtree {
    turn::Lease lease;
    fs::Ino root;
  };
  sys::Result<Subtree> subtree(const boost::json::object& params);

  World world_;
  std::shared_ptr<ObjectFeed> feed_;
  uint64_t feed_snapshot_ = 0;
  std::string feed_of_;
};

}  // namespace turnbox::control
