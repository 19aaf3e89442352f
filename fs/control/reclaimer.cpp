#include "fs/control/reclaimer.h"

#include <algorithm>
#include <boost/asio/post.hpp>

namespace turnbox::control {

void Reclaimer::poke() {
  if (running_) return;
  running_ = true;
  boost::asio::post(io_, [this] { step(); });
}

void Reclaimer::poke(std::shared_ptr<turn::Fork> fork) {
  if (std::find(forks_.begin(), forks_.end(), fork) == forks_.end()) forks_.push_back(std::move(fork));
  poke();
}

void Reclaimer::step() {
  const bool to_sweep = sweeper_.step(kStepUs);
  const bool to_free = tree_.reclaim(kStepUs);
  if (!forks_.empty() && !forks_.front()->tree->reclaim(kStepUs)) forks_.pop_front();
  running_ = to_sweep || to_free || !forks_.empty();
  if (running_) boost::asio::post(io_, [this] { step(); });
}

}  // namespace turnbox::control
