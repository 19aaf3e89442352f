// One stream between a guest port and a host socket.
//
// Owned by the muxer (muxer.h) through a shared_ptr, which the handlers that wait on the host socket share;
// close() ends them. One thread. Nothing here waits: a packet of the guest's is worked off in on_packet(), a
// packet for the guest is made in take_packet() when the guest has a buffer for it.
//
//   requesting ──RESPONSE──► open ──both ways ended──► closing ──RST, or 2 s──► ended
//                             └──RST or full SHUTDOWN of the guest's──► draining ──backlog written──► ended
//
// Invariants:
//  1. The guest's bytes held here never exceed the buf_alloc it was told (credit.h).
//  2. The host socket is read only when the guest has credit and a buffer for what is read: bytes for the
//  guest are
//     never held here at all.
//  3. Shutdown is carried over bit by bit: the guest's SEND is shutdown(SHUT_WR) on the host socket once the
//  backlog
//     is written, its RCV is shutdown(SHUT_RD); end of file of the host is SEND, a host that reads no more is
//     RCV.
//  4. What the guest sent before it went away still reaches the host (draining).
#pragma once

#include <sys/uio.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "vmm/sys/fd.h"
#include "vmm/vsock/backlog.h"
#include "vmm/vsock/credit.h"
#include "vmm/vsock/packet.h"

namespace turnbox::vsock {

struct Timeouts {
  std::chrono::milliseconds request{5'000};  // REQUEST to RESPONSE: an emulated guest under load is slow
  std::chrono::milliseconds shutdown{
      2'000};  // SHUTDOWN to RST, and a closed host whose last bytes are not taken
  std::chrono::microseconds coalesce{
      500};  // after a small packet, the next small one waits this long for company
};

struct Ports {
  uint32_t guest = 0;
  uint32_t host = 0;
};

using ListHook =
    boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  enum class State : uint8_t { requesting, open, closing, draining, ended };

  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void output_ready(Connection& connection) = 0;  // take_packet() has something to give
    virtual void output_later(Connection& connection) = 0;  // the same, after Timeouts::coalesce
    // The guest side is over: the tuple is free. `reset`: the guest is to be told. `breach` names the rule
    // that the guest broke, or is null.
    virtual void guest_side_over(Connection& connection, bool reset, const char* breach) = 0;
    virtual void drained(Connection& connection) = 0;  // after draining: forget it
  };

  Connection(Owner& owner, boost::asio::io_context& io, sys::Fd socket, Ports ports, uint64_t guest_cid,
             uint32_t buf_alloc, const Timeouts& timeouts);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void begin_host_side();                        // the host asked: REQUEST goes to the guest
  void begin_guest_side(const Header& request);  // the guest asked: RESPONSE goes to the guest

  // A packet of this tuple, neither REQUEST nor RST; `payload` is guest memory and holds header.len bytes.
  void on_packet(const Header& header, std::span<const iovec> payload);
  void on_guest_reset();
  void on_breach(const char* rule) { end_guest_side(true, rule); }

  bool has_output() const { return due_ != 0 || can_read(); }
  // The next packet for the guest, its payload read into `room` (guest memory); nothing when the host socket
  // turned out to be empty.
  std::optional<Header> take_packet(std::span<const iovec> room);
  // Tells the owner about output, at once or later.
  void schedule();

  // Ends the guest side without a word (the guest's session is gone); the backlog still drains.
  void abandon();
  void close();  // everything, now

  State state() const { return state_; }
  Ports ports() const { return ports_; }

  ListHook hook;      // the muxer's: in its list of ready or of held connections
  bool held = false;  // the muxer's: in which

 private:
  enum Due : uint8_t { kRequest = 1, kResponse = 2, kShutdown = 4, kCreditUpdate = 8, kCreditRequest = 16 };

  bool can_read() const;
  Header stamp(Op op);
  std::optional<Header> read_host(std::span<const iovec> room);
  void wait_readable();
  void wait_writable();
  void wait_hangup();
  void start_timer(std::chrono::milliseconds after);

  void on_response();
  void on_data(std::span<const iovec> payload, uint32_t length);
  void on_shutdown(uint32_t flags);
  void on_host_end();
  void on_hangup();
  void flush_backlog();
  void host_reads_no_more();
  void announce(uint32_t shutdown_flags);
  void settle();
  void end_guest_side(bool reset, const char* breach = nullptr);

  Owner& owner_;
  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer timer_;
  const Ports ports_;
  const uint64_t guest_cid_;
  const Timeouts& timeouts_;

  State state_ = State::open;
  uint8_t due_ = 0;
  uint32_t our_shutdown_ = 0;    // announced, or about to be
  uint32_t guest_shutdown_ = 0;  // what the guest announced
  SendCredit send_;
  ReceiveCredit receive_;
  Backlog backlog_;
  std::chrono::steady_clock::time_point hold_until_{};

  bool readable_ = false;  // the host socket may hold bytes or its end
  bool waiting_read_ = false;
  bool waiting_write_ = false;
  bool host_ended_ = false;    // its end of file was read
  bool host_deaf_ = false;     // it reads no more
  bool host_hung_up_ = false;  // both ways are closed at the host
  bool credit_asked_ = false;
  bool write_shut_ = false;
  bool timer_on_ = false;
};

}  // namespace turnbox::vsock
