// All streams of one guest: finds the connection of a packet, makes and ends connections, and keeps the
// packets that are due to the guest in order. Knows packets and host sockets; rings are device.h's, listening
// sockets host_door.h's.
//
// Owns the connections. One thread (the io_context's).
// Invariants, whatever the guest sends:
//  1. O(1) work for each packet, and memory bounded by Limits: connections (draining ones count), bytes held
//  for each,
//     resets that wait for a guest buffer.
//  2. A packet of another CID, or for another than the host, is dropped and counted; it reaches nobody.
//  3. RST is never answered. Every other packet that has no connection gets at most one RST.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "vmm/sys/log.h"
#include "vmm/vsock/connection.h"
#include "vmm/vsock/dial.h"
#include "vmm/vsock/packet.h"
#include "vmm/vsock/token_bucket.h"

namespace turnbox::vsock {

struct Limits {
  size_t connections = 1023;
  // The buffer told to the guest, for each connection. The small one once there are many: 1,023 connections
  // hold at most about 88 MiB.
  uint32_t buf_alloc = 256 * 1024;
  uint32_t small_buf_alloc = 64 * 1024;
  size_t many_connections = 128;
  size_t resets = 2048;  // waiting for a guest buffer; more are dropped
  unsigned requests_burst = 1024, requests_per_second = 1000;
  unsigned strays_burst = 1024, strays_per_second = 1000;  // RSTs for packets that have no connection
  Timeouts timeouts;
};

struct MuxerOptions {
  uint64_t guest_cid = 3;
  std::vector<uint32_t> allowed_ports;  // what the guest may connect to on the host
  Limits limits;
};

struct MuxerCounters {
  uint64_t packets = 0, wrong_cid = 0, wrong_type = 0, unknown_op = 0, malformed = 0;
  uint64_t strays = 0, duplicates = 0, breaches = 0;
  uint64_t requests = 0, requests_refused = 0, connects = 0, connects_refused = 0;
  uint64_t resets_sent = 0, resets_dropped = 0;
};

class Muxer final : private Connection::Owner {
 public:
  using Dialer = std::function<sys::Result<sys::Fd>(const Dial&)>;

  Muxer(boost::asio::io_context& io, MuxerOptions options, Dialer dialer);
  ~Muxer() override;

  // Called when has_output() became true, possibly from inside receive().
  void on_output(std::function<void()> callback) { output_callback_ = std::move(callback); }
  // Called when the last connection, draining ones included, is gone.
  void on_idle(std::function<void()> callback) { idle_callback_ = std::move(callback); }

  // Whether the guest's driver serves its rings. Connections outlive a pause; connect() is refused in it.
  void set_guest_up(bool up) { guest_up_ = up; }
  // A host process asked for a guest port. Refused: the socket closes.
  void connect(sys::Fd socket, uint32_t guest_port);

  // A packet from the guest; `payload` is guest memory and holds header.len bytes.
  void receive(const Header& header, std::span<const iovec> payload);
  // A packet whose `len` is beyond the limit or beyond its chain.
  void receive_malformed(const Header& header);
  // A chain too short for a header.
  void receive_short();

  bool has_output() const { return !resets_.empty() || !ready_.empty(); }
  // The next packet for the guest; its payload, header.len bytes, was read into `room`.
  std::optional<Header> next_packet(std::span<const iovec> room);

  // The guest's session is gone. What it had sent still drains to the host.
  void reset();

  bool idle() const { return connections_.empty() && draining_.empty(); }
  size_t connection_count() const { return connections_.size(); }
  const MuxerCounters& counters() const { return counters_; }

 private:
  using Hook = boost::intrusive::member_hook<Connection, ListHook, &Connection::hook>;
  using List = boost::intrusive::list<Connection, Hook, boost::intrusive::constant_time_size<false>>;

  void output_ready(Connection& connection) override;
  void output_later(Connection& connection) override;
  void guest_side_over(Connection& connection, bool reset, const char* breach) override;
  void drained(Connection& connection) override;

  std::shared_ptr<Connection> find(const Header& from_guest) const;
  std::shared_ptr<Connection> add(sys::Fd socket, Ports ports);
  void accept_request(const Header& header);
  void answer_stray(const Header& header);
  void queue_reset(const Header& reset, size_t most);
  std::optional<uint32_t> free_host_port(uint32_t guest_port);
  bool full() const { return connections_.size() + draining_.size() >= options_.limits.connections; }
  void note(const char* what, const Header& header);
  void tell_output();
  void tell_idle();

  boost::asio::io_context& io_;
  const MuxerOptions options_;
  const Dialer dialer_;
  std::function<void()> output_callback_;
  std::function<void()> idle_callback_;
  bool guest_up_ = false;

  std::unordered_map<uint64_t, std::shared_ptr<Connection>> connections_;  // guest port << 32 | host port
  std::unordered_set<std::shared_ptr<Connection>> draining_;
  List ready_;
  List held_;
  boost::asio::steady_timer held_timer_;
  std::deque<Header> resets_;
  TokenBucket requests_;
  TokenBucket strays_;
  sys::LogLimit log_limit_;
  uint32_t next_host_port_ = 0;
  MuxerCounters counters_;
};

}  // namespace turnbox::vsock
