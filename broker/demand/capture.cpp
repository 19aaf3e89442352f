#include "broker/demand/capture.h"

namespace turnbox::demand {

PlaceSource::PlaceSource(control::Client& files, Place place, std::vector<const PlaceSource*> earlier)
    : files_(files),
      place_(std::move(place)),
      earlier_(std::move(earlier)),
      pieces_([this](bool restart) { return fetch(restart); }) {}

sys::Result<std::optional<sys::Fd>> PlaceSource::fetch(bool restart) {
  if (!restart && !more_) return std::optional<sys::Fd>();
  std::vector<sys::Digest> have;
  if (restart) {
    for (const PlaceSource* source : earlier_)
      have.insert(have.end(), source->given_.begin(), source->given_.end());
  }
  TRY_ASSIGN(control::ObjectPiece piece, files_.objects_piece(place_.snapshot, place_.of, have, restart));
  more_ = piece.more;
  return std::optional(std::move(piece.memfd));
}

sys::Status PlaceSource::rewind() {
  given_.clear();
  more_ = true;
  return pieces_.rewind();
}

sys::Result<std::optional<store::Object>> PlaceSource::next() {
  TRY_ASSIGN(auto object, pieces_.next());
  if (object) given_.push_back(object->digest);
  return object;
}

turn::TreeCapture Capture::tree(const Place& place) {
  auto found = files_.digest(place.snapshot, place.of);
  if (!found) return turn::NotCaptured{found.error().text};
  std::vector<const PlaceSource*> earlier;
  for (const PlaceSource& source : places_) earlier.push_back(&source);
  places_.emplace_back(files_, place, std::move(earlier));
  return turn::TreeRef{static_cast<store::ObjectKind>(found->kind), found->content, found->meta};
}

turn::EventsCapture Capture::events(const std::string& turn, const control::TurnEnd& end) {
  auto bytes = files_.events(turn);
  if (!bytes) return turn::NotCaptured{bytes.error().text};
  event_bytes_ = std::move(*bytes);
  event_objects_.emplace(sys::as_bytes(event_bytes_));
  if (event_objects_->digest() != end.events_digest) {
    event_objects_.reset();
    return turn::NotCaptured{"turnbox-fsd gave an event log that does not fit its own digest"};
  }
  return turn::EventsRef{end.events_digest, end.events};
}

store::ObjectSource& Capture::objects() {
  std::vector<store::ObjectSource*> parts;
  for (PlaceSource& source : places_) parts.push_back(&source);
  if (event_objects_) parts.push_back(&*event_objects_);
  return joined_.emplace(std::move(parts));
}

}  // namespace turnbox::demand
