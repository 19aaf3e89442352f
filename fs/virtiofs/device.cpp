#include "fs/virtiofs/device.h"

#include "fs/virtiofs/server.h"

namespace turnbox::virtiofs {

namespace {
constexpr unsigned kHiprio = 0;  // the queue of FORGETs
}

Device::Device(fs::Tree& tree, Options options)
    : server_(std::make_unique<Server>(tree, std::move(options))) {}
Device::~Device() = default;

const char* Device::name() const {
  return server_->options().name.c_str();
}

void Device::serve(unsigned index, vhost::Queue& queue) {
  while (!queue.round_over()) {
    auto chain = queue.pop();
    if (!chain) return;
    const uint32_t written = server_->serve(*chain, index == kHiprio);
    queue.push(std::move(*chain), written);
  }
}

void Device::reset() {
  server_->end_session();
}

const Counters& Device::counters() const {
  return server_->counters();
}
uint64_t Device::lookups() const {
  return server_->session().nodes();
}
uint64_t Device::open_handles() const {
  return server_->session().open_handles();
}

void Device::each_counter(const std::function<void(const char* name, uint64_t value)>& visit) const {
  const Counters& c = counters();
  visit("requests", c.requests);
  visit("errors", c.errors);
  visit("malformed", c.malformed);
  visit("dropped", c.dropped);
  visit("before_init", c.before_init);
  visit("unknown_nodes", c.unknown_nodes);
  visit("bad_handles", c.bad_handles);
  visit("forgets_clamped", c.forgets_clamped);
  visit("sessions", c.sessions);
  visit("bytes_read", c.bytes_read);
  visit("bytes_written", c.bytes_written);
  visit("lookups", lookups());
  visit("open_handles", open_handles());
  for (const Opcode& op : all_opcodes()) {
    if (server_->seen(op.code) != 0) visit(op.name, server_->seen(op.code));
  }
}

}  // namespace turnbox::virtiofs
