#include "tests/guest/vhost/echo_daemon.h"

#include <stdlib.h>

#include <filesystem>
#include <utility>

#include "vmm/sys/result.h"
#include "vmm/sys/socket.h"

namespace turnbox::vhost {
namespace {

void echo(Queue& queue, Chain chain) {
  std::vector<std::byte> bytes(std::min(chain.readable_bytes(), chain.writable_bytes()));
  TURNBOX_ASSERT(chain.reader().read(bytes));
  ChainWriter writer = chain.writer();
  TURNBOX_ASSERT(writer.write(bytes));
  queue.push(std::move(chain), static_cast<uint32_t>(writer.written()));
}

}  // namespace

void EchoDevice::serve(unsigned index, Queue& queue) {
  ++rounds;
  while (!queue.round_over()) {
    auto chain = queue.pop();
    if (!chain) return;
    std::byte first{0};
    if (chain->readable_bytes() > 0) TURNBOX_ASSERT(chain->reader().read({&first, 1}));
    if (first == std::byte{'f'}) return queue.fault("the device found a breach");
    if (index == 1 && first == std::byte{'h'}) {
      kept_.push_back(std::move(*chain));
      continue;
    }
    if (index == 1) {
      for (Chain& kept : std::exchange(kept_, {})) echo(queue, std::move(kept));
    }
    echo(queue, std::move(*chain));
  }
}

void EchoDevice::started(unsigned index, Queue& queue) {
  ++starts;
  if (index == 1) kept_in_ = &queue;
}

void EchoDevice::stopped(unsigned index) {
  ++stops;
  if (index != 1) return;
  for (Chain& kept : std::exchange(kept_, {})) kept_in_->push(std::move(kept), 0);
  kept_in_ = nullptr;
}

void EchoDevice::reset() {
  const std::lock_guard lock(mutex_);
  ++resets_;
  reset_.notify_all();
}

bool EchoDevice::wait_for_resets(unsigned count) {
  std::unique_lock lock(mutex_);
  return reset_.wait_for(lock, std::chrono::seconds(10), [&] { return resets_ >= count; });
}

EchoDaemon::EchoDaemon(Setup setup)
    : work_(boost::asio::make_work_guard(io_)),
      device_(std::move(setup.config)),
      gone_(gone_promise_.get_future()) {
  std::string pattern = (std::filesystem::temp_directory_path() / "turnbox-vhost-XXXXXX").string();
  TURNBOX_ASSERT(::mkdtemp(pattern.data()) != nullptr);
  directory_ = pattern;
  path_ = directory_ + "/device.sock";
  auto listener = sys::listen_unix(path_, 0600);
  TURNBOX_ASSERT(listener.has_value());
  backend_ = std::make_unique<Backend>(io_, std::move(*listener), device_, setup.options,
                                       [this] { gone_promise_.set_value(); });
  thread_ = std::thread([this] { io_.run(); });
}

EchoDaemon::~EchoDaemon() {
  boost::asio::post(io_, [this] {
    backend_.reset();
    work_.reset();
    io_.stop();
  });
  thread_.join();
  std::filesystem::remove_all(directory_);
}

}  // namespace turnbox::vhost
