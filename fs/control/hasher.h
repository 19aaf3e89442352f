// The one thread beside the owner's: it reads snapshots and computes, and changes no node of the tree.
//
// Owned by the daemon's main. submit() from the owner's thread only. A job has two halves: `work` runs on the
// hasher's thread; then `done` runs on the owner's loop, and both are destroyed there. Jobs run one after
// another.
#pragma once

#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "fs/tree/digest.h"

namespace turnbox::control {

class Hasher {
 public:
  struct Job {
    std::function<void(fs::DigestCache&)> work;
    std::function<void()> done;
  };

  explicit Hasher(boost::asio::io_context& io);
  ~Hasher();  // waits for the job that runs; drops the others
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void submit(Job job);

 private:
  void run();

  boost::asio::io_context& io_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;   // under mutex_
  bool stopping_ = false;  // under mutex_
  std::thread thread_;     // last: it starts when all else stands
};

}  // namespace turnbox::control
