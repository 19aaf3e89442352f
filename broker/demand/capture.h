// What of a turn goes into the record: digests of its trees as fsd computed them, and the objects behind
// them, which the store hashes again.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "broker/store/object_source.h"
#include "broker/turn/draft.h"
#include "fs/control/client.h"

namespace turnbox::demand {

// A subtree of a snapshot, in the words of the control socket.
struct Place {
  control::SnapshotId snapshot = 0;
  std::string of;  // workspace, inputs/NAME, outputs/STAGE
};

// The objects of one place, asked from fsd piece by piece; what earlier places gave is not sent again.
class PlaceSource : public store::ObjectSource {
 public:
  PlaceSource(control::Client& files, Place place, std::vector<const PlaceSource*> earlier);
  sys::Status rewind() override;
  sys::Result<std::optional<store::Object>> next() override;

 private:
  sys::Result<std::optional<sys::Fd>> fetch(bool restart);

  control::Client& files_;
  const Place place_;
  const std::vector<const PlaceSource*> earlier_;
  std::vector<sys::Digest> given_;
  bool more_ = true;
  store::StreamSource pieces_;
};

// Asks for digests and remembers what was captured, so that objects() hands out everything that the draft
// names. Lives as long as the commit, and the client longer. Capturing never fails: what cannot be had is
// NotCaptured with the reason.
class Capture {
 public:
  explicit Capture(control::Client& files) : files_(files) {}
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  turn::TreeCapture tree(const Place& place);
  turn::EventsCapture events(const std::string& turn, const control::TurnEnd& end);

  store::ObjectSource& objects();  // once, after everything was captured

 private:
  control::Client& files_;
  std::deque<PlaceSource> places_;
  std::string event_bytes_;
  std::optional<store::FileSource> event_objects_;
  std::optional<store::JoinedSource> joined_;
};

}  // namespace turnbox::demand
