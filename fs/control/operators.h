// The second control door (docs/WIRE.md, «Operators»): operators come and go on a listening socket, each with
// a connection of its own that may read and make versions, while the owner's connection goes on.
//
// Owned by the daemon's main; runs on the owner's loop. At most kMostOperators are served at a time: one more
// is told so and closed. A connection that breaks its protocol, or is another user's, ends alone.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <list>
#include <memory>
#include <optional>

#include "fs/control/server.h"
#include "vmm/sys/log.h"

namespace turnbox::control {

inline constexpr size_t kMostOperators = 16;

struct OperatorCounters {
  uint64_t accepted = 0, refused = 0, broken = 0;
};

class Operators {
 public:
  // `user`: who may connect beside root; empty: whoever the socket's mode lets in.
  Operators(boost::asio::io_context& io, sys::Fd listener, std::optional<uid_t> user, Methods& methods);
  Operators(const Operators&) = delete;
  Operators& operator=(const Operators&) = delete;

  // To every operator.
  void notify(std::string_view method, const boost::json::object& params);
  const OperatorCounters& counters() const { return counters_; }

 private:
  void wait();
  void accept();
  void take(sys::Fd peer);
  void serve(sys::Fd peer);

  boost::asio::io_context& io_;
  boost::asio::posix::stream_descriptor listener_;
  const std::optional<uid_t> user_;
  Methods& methods_;
  std::list<std::unique_ptr<Server>> servers_;
  OperatorCounters counters_;
  sys::LogLimit log_;
};

}  // namespace turnbox::control
