// A real back end on its own thread, with a device of two queues that answers a chain with its own bytes.
//
// Queue 0 echoes. Queue 1 keeps a chain that begins with 'h' in flight; any other one is echoed, and before
// it all that were kept. A chain that begins with 'f' is a breach the device itself finds.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "vmm/vhost/backend.h"

namespace turnbox::vhost {

class EchoDevice final : public Device {
 public:
  explicit EchoDevice(std::vector<std::byte> config = {}) : config_(std::move(config)) {}

  const char* name() const override { return "echo"; }
  unsigned queue_count() const override { return 2; }
  uint16_t max_queue_size() const override { return 256; }
  std::span<const std::byte> config() const override { return config_; }
  void serve(unsigned index, Queue& queue) override;
  void started(unsigned index, Queue& queue) override;
  void stopped(unsigned index) override;
  void reset() override;
  // Any thread: waits until the device was reset so often, which is when its front end's end was noticed.
  bool wait_for_resets(unsigned count);

  unsigned starts = 0, stops = 0;
  unsigned rounds = 0;

 private:
  std::mutex mutex_;
  std::condition_variable reset_;
  unsigned resets_ = 0;  // under mutex_
  std::vector<std::byte> config_;
  Queue* kept_in_ = nullptr;
  std::vector<Chain> kept_;
};

class EchoDaemon {
 public:
  struct Setup {
    std::vector<std::byte> config = {};
    BackendOptions options = {.peer_uid = {}, .accept_again = true};
  };
  EchoDaemon() : EchoDaemon(Setup{}) {}
  explicit EchoDaemon(Setup setup);
  ~EchoDaemon();

  const std::string& path() const { return path_; }
  bool wait_for_resets(unsigned count) { return device_.wait_for_resets(count); }
  bool gone() const { return gone_.wait_for(std::chrono::seconds(10)) == std::future_status::ready; }

  // Runs on the daemon's thread and returns what it gave; so the counters are read without a race, and a
  // daemon that spins or hangs is noticed.
  template <typename What>
  auto inside(What what) {
    using Given = decltype(what(*backend_, device_));
    auto task =
        std::make_shared<std::packaged_task<Given()>>([this, what] { return what(*backend_, device_); });
    auto result = task->get_future();
    boost::asio::post(io_, [task] { (*task)(); });
    if (result.wait_for(std::chrono::seconds(10)) != std::future_status::ready) {
      throw std::runtime_error("the daemon's loop does not turn");
    }
    return result.get();
  }
  Counters counters() {
    return inside([](Backend& backend, EchoDevice&) { return backend.counters(); });
  }

 private:
  std::string directory_, path_;
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  EchoDevice device_;
  std::promise<void> gone_promise_;
  std::shared_future<void> gone_;
  std::unique_ptr<Backend> backend_;
  std::thread thread_;
};

}  // namespace turnbox::vhost
