#include "fs/control/hasher.h"

#include <boost/asio/post.hpp>

namespace turnbox::control {

Hasher::Hasher(boost::asio::io_context& io) : io_(io), thread_([this] { run(); }) {}

Hasher::~Hasher() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Hasher::submit(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void Hasher::run() {
  fs::DigestCache cache;
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job.work(cache);
    boost::asio::post(io_, [finished = std::move(job)]() mutable { finished.done(); });
  }
}

}  // namespace turnbox::control
