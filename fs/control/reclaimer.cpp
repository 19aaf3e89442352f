#include "fs/control/reclaimer.h"

#include <boost/asio/post.hpp>

namespace turnbox::control {

void Reclaimer::poke() {
  if (running_) return;
  running_ = true;
  boost::asio::post(io_, [this] { step(); });
}

void Reclaimer::step() {
  const bool to_sweep = sweeper_.step(kStepUs);
  const bool to_free = tree_.reclaim(kStepUs);
  running_ = to_sweep || to_free;
  if (running_) boost::asio::post(io_, [this] { step(); });
}

}  // namespace turnbox::control
