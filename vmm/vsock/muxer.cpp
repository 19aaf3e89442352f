#include "vmm/vsock/muxer.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace turnbox::vsock {
namespace {

// Host ports of connections that the host began; the guest cannot tell them from any other client's.
constexpr uint32_t kFirstHostPort = 1U << 30;

uint64_t key_of(Ports ports) {
  return uint64_t{ports.guest} << 32 | ports.host;
}

bool known(Op op) {
  return op >= Op::request && op <= Op::credit_request;
}

}  // namespace

Muxer::Muxer(boost::asio::io_context& io, MuxerOptions options, Dialer dialer)
    : io_(io),
      options_(std::move(options)),
      dialer_(std::move(dialer)),
      held_timer_(io),
      requests_(options_.limits.requests_burst, options_.limits.requests_per_second),
      strays_(options_.limits.strays_burst, options_.limits.strays_per_second) {}

Muxer::~Muxer() {
  output_callback_ = nullptr;
  idle_callback_ = nullptr;
  for (const auto& [key, connection] : connections_) connection->close();
  for (const auto& connection : draining_) connection->close();
}

// --- connections
// ---------------------------------------------------------------------------------------------------

std::shared_ptr<Connection> Muxer::find(const Header& from_guest) const {
  const auto found = connections_.find(key_of({.guest = from_guest.src_port, .host = from_guest.dst_port}));
  return found == connections_.end() ? nullptr : found->second;
}

std::shared_ptr<Connection> Muxer::add(sys::Fd socket, Ports ports) {
  const Limits& limits = options_.limits;
  const bool many = connections_.size() + draining_.size() >= limits.many_connections;
  Connection::Owner& owner = *this;
  auto connection =
      std::make_shared<Connection>(owner, io_, std::move(socket), ports, options_.guest_cid,
                                   many ? limits.small_buf_alloc : limits.buf_alloc, limits.timeouts);
  connections_.emplace(key_of(ports), connection);
  return connection;
}

std::optional<uint32_t> Muxer::free_host_port(uint32_t guest_port) {
  // There are more ports than connections, so the search is short.
  for (size_t tries = 0; tries <= connections_.size(); ++tries) {
    const uint32_t port = kFirstHostPort + next_host_port_++ % kFirstHostPort;
    if (!connections_.contains(key_of({.guest = guest_port, .host = port}))) return port;
  }
  return std::nullopt;
}

void Muxer::connect(sys::Fd socket, uint32_t guest_port) {
  ++counters_.connects;
  const auto host_port = guest_up_ && !full() ? free_host_port(guest_port) : std::nullopt;
  if (!host_port) {
    ++counters_.connects_refused;
    return;  // the socket closes without OK
  }
  add(std::move(socket), {.guest = guest_port, .host = *host_port})->begin_host_side();
}

void Muxer::accept_request(const Header& header) {
  ++counters_.requests;
  const auto& allowed = options_.allowed_ports;
  const bool welcome = std::find(allowed.begin(), allowed.end(), header.dst_port) != allowed.end();
  if (!welcome || full() || !requests_.take()) {
    ++counters_.requests_refused;
    note(welcome ? "connections beyond the limit" : "a port that is not allowed", header);
    return answer_stray(header);
  }
  auto socket = dialer_({.port = header.dst_port, .guest_port = header.src_port});
  if (!socket) {
    ++counters_.requests_refused;
    if (log_limit_.pass()) spdlog::warn("{}", socket.error().text);
    return answer_stray(header);
  }
  add(std::move(*socket), {.guest = header.src_port, .host = header.dst_port})->begin_guest_side(header);
}

void Muxer::guest_side_over(Connection& connection, bool reset, const char* breach) {
  const Ports ports = connection.ports();
  const auto found = connections_.find(key_of(ports));
  if (found != connections_.end() && found->second.get() == &connection) {
    if (connection.state() == Connection::State::draining) draining_.insert(std::move(found->second));
    connections_.erase(found);
  }
  const Header rst{.src_cid = kHostCid,
                   .dst_cid = options_.guest_cid,
                   .src_port = ports.host,
                   .dst_port = ports.guest,
                   .op = Op::rst};
  if (breach != nullptr) {
    ++counters_.breaches;
    note(breach, rst);
  }
  if (reset) queue_reset(rst, options_.limits.resets);
  tell_idle();
}

void Muxer::drained(Connection& connection) {
  const auto self = connection.shared_from_this();
  draining_.erase(self);
  self->close();
  tell_idle();
}

void Muxer::reset() {
  resets_.clear();
  const auto connections = connections_;  // each takes itself out
  for (const auto& [key, connection] : connections) connection->abandon();
  tell_idle();
}

// --- from the guest
// ------------------------------------------------------------------------------------------------

void Muxer::receive(const Header& header, std::span<const iovec> payload) {
  ++counters_.packets;
  if (header.src_cid != options_.guest_cid || header.dst_cid != kHostCid) {
    ++counters_.wrong_cid;
    return note("a foreign CID", header);
  }
  if (header.type != kTypeStream) {
    ++counters_.wrong_type;
    note("a socket type other than stream", header);
    return answer_stray(header);
  }
  const auto connection = find(header);
  if (!known(header.op)) {
    ++counters_.unknown_op;
    return connection ? connection->on_breach("an unknown operation") : answer_stray(header);
  }
  if (!connection) return header.op == Op::request ? accept_request(header) : answer_stray(header);
  switch (header.op) {
    case Op::request:
      ++counters_.duplicates;
      return connection->on_breach("a request for a connection that exists");
    case Op::rst:
      return connection->on_guest_reset();
    default:
      return connection->on_packet(header, payload);
  }
}

void Muxer::receive_malformed(const Header& header) {
  ++counters_.packets;
  ++counters_.malformed;
  if (header.src_cid != options_.guest_cid || header.dst_cid != kHostCid) return;
  const auto connection = header.type == kTypeStream ? find(header) : nullptr;
  if (connection) return connection->on_breach("a length beyond the packet");
  note("a length beyond the packet", header);
  answer_stray(header);
}

void Muxer::receive_short() {
  ++counters_.packets;
  ++counters_.malformed;
  note("a packet shorter than its header", {});
}

void Muxer::answer_stray(const Header& header) {
  ++counters_.strays;
  if (header.op == Op::rst) return;
  if (!strays_.take()) {
    ++counters_.resets_dropped;
    return;
  }
  // Half of the room stays for connections that end.
  queue_reset({.src_cid = kHostCid,
               .dst_cid = options_.guest_cid,
               .src_port = header.dst_port,
               .dst_port = header.src_port,
               .type = header.type,
               .op = Op::rst},
              options_.limits.resets / 2);
}

void Muxer::queue_reset(const Header& reset, size_t most) {
  if (resets_.size() >= most) {
    ++counters_.resets_dropped;
    return;
  }
  resets_.push_back(reset);
  tell_output();
}

void Muxer::note(const char* what, const Header& header) {
  if (!log_limit_.pass()) return;
  if (const uint64_t suppressed = log_limit_.take_suppressed(); suppressed > 0) {
    spdlog::warn("{} lines about the guest were left out", suppressed);
  }
  spdlog::warn("the guest sent {} (ports {} and {}, cids {} and {})", what, header.src_port, header.dst_port,
               header.src_cid, header.dst_cid);
}

// --- to the guest
// --------------------------------------------------------------------------------------------------

void Muxer::output_ready(Connection& connection) {
  if (connection.hook.is_linked()) {
    if (!connection.held) return;
    connection.hook.unlink();
  }
  connection.held = false;
  ready_.push_back(connection);
  tell_output();
}

void Muxer::output_later(Connection& connection) {
  if (connection.hook.is_linked()) return;
  const bool first = held_.empty();
  connection.held = true;
  held_.push_back(connection);
  if (!first) return;
  held_timer_.expires_after(options_.limits.timeouts.coalesce);
  held_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    for (Connection& each : held_) each.held = false;
    ready_.splice(ready_.end(), held_);
    if (!ready_.empty()) tell_output();
  });
}

std::optional<Header> Muxer::next_packet(std::span<const iovec> room) {
  if (!resets_.empty()) {
    const Header header = resets_.front();
    resets_.pop_front();
    ++counters_.resets_sent;
    return header;
  }
  while (!ready_.empty()) {
    const auto connection = ready_.front().shared_from_this();
    ready_.pop_front();
    auto header = connection->take_packet(room);
    connection->schedule();
    if (header) return header;
  }
  return std::nullopt;
}

void Muxer::tell_output() {
  if (output_callback_) output_callback_();
}

void Muxer::tell_idle() {
  if (idle() && idle_callback_) idle_callback_();
}

}  // namespace turnbox::vsock
