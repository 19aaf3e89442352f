// Gives back what released snapshots, discarded directories and removed files held, in steps between which the devices
// are served.
#pragma once

#include <boost/asio/io_context.hpp>
#include <deque>
#include <memory>

#include "fs/tree/tree.h"
#include "fs/turn/sweeper.h"
#include "fs/turn/versions.h"

namespace turnbox::control {

class Reclaimer {
 public:
  static constexpr unsigned kStepUs = 250;  // each of two steps a round: half a millisecond at most

  Reclaimer(boost::asio::io_context& io, fs::Tree& tree, turn::Sweeper& sweeper)
      : io_(io), tree_(tree), sweeper_(sweeper) {
    tree_.on_garbage([this] { poke(); });
  }
  ~Reclaimer() { tree_.on_garbage({}); }
  Reclaimer(const Reclaimer&) = delete;
  Reclaimer& operator=(const Reclaimer&) = delete;

  void poke();                                  // there may be work; it is done from the loop
  void poke(std::shared_ptr<turn::Fork> fork);  // in a fork's tree, which is kept until that is done

 private:
  void step();

  boost::asio::io_context& io_;
  fs::Tree& tree_;
  turn::Sweeper& sweeper_;
  std::deque<std::shared_ptr<turn::Fork>> forks_;
  bool running_ = false;
};

}  // namespace turnbox::control
