// What a case of tests/guest/fs has opposite: the two devices of one sandbox, and the host's verbs beside them.
//
// The cases are linked twice: with the devices in this process and descriptors made by hand (tests/unit/virtiofs),
// and with a real turnbox-fsd behind real rings (tests/guest/fs).
#pragma once

#include <memory>
#include <string>

#include "tests/support/fuse_peer.h"

namespace turnbox::support {

class FuseHost {
 public:
  virtual ~FuseHost() = default;

  virtual FusePeer& workspace() = 0;  // no session has begun on either
  virtual FusePeer& turn() = 0;

  // The server has not ended.
  virtual bool alive() = 0;

  // Begins turn kTurn of thread main, with a stage `run`.
  virtual void begin_turn() = 0;
  virtual void seal_stage() = 0;
  virtual void new_epoch() = 0;  // of the workspace; the first is ws/1
  // Lets the server do what it does when nobody asks anything of it: free what was removed.
  virtual void rest() {}
  // A counter of the device («workspace» or «turn»), by the name in Device::each_counter; 0 if it was never counted.
  virtual uint64_t counter(const std::string& device, const std::string& name) = 0;

  static constexpr const char* kTurn = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
  static std::string in_turn(const std::string& path) { return std::string("by-id/") + kTurn + "/" + path; }
};

std::unique_ptr<FuseHost> make_fuse_host();  // defined by whoever links the cases

}  // namespace turnbox::support
