// Fixtures of the cases: one host for all of them, a session begun anew for each, and a look afterwards at whether the
// server still lives.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cerrno>

#include "tests/support/fuse_host.h"

namespace turnbox::fs_cases {

using support::FuseHost;
using support::FusePeer;
using support::FuseReply;
using support::pack;

inline constexpr uint64_t kRoot = FusePeer::kRoot;

FuseHost& host();  // begun at first use, with its turn
void count_epoch();  // after host().new_epoch()

// A session on the workspace, in a directory of the case's own.
struct Workspace {
  Workspace();
  ~Workspace();  // the daemon lives on: a LOOKUP and a new directory are still answered
  uint64_t counter(const std::string& name) { return host().counter("workspace", name); }
  std::string read_all(uint64_t node);

  FusePeer& peer;
  uint64_t dir = 0;  // node id of ws/<epoch>/<case>
};

// A session on the turn device.
struct Turn {
  Turn();
  ~Turn();
  uint64_t counter(const std::string& name) { return host().counter("turn", name); }
  uint64_t outputs();
  uint64_t events();

  FusePeer& peer;
};

inline uint64_t node_of(const FuseReply& reply) { return reply.as<fuse_entry_out>().nodeid; }
inline fuse_open_out open_of(const FuseReply& created) {
  return created.body.size() < sizeof(fuse_entry_out) + sizeof(fuse_open_out)
             ? fuse_open_out{}
             : sys::load_le<fuse_open_out>(created.body.data() + sizeof(fuse_entry_out));
}

}  // namespace turnbox::fs_cases
