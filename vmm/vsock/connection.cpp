#include "vmm/vsock/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "vmm/vsock/connect.h"

namespace turnbox::vsock {
namespace {

constexpr size_t kMostParts = 64;        // iovecs of one system call; far below IOV_MAX
constexpr uint32_t kSmallPacket = 1024;  // below it, a packet is worth waiting a moment for more

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

// One sendmsg of the front of `parts`. Bytes taken, 0 when the socket is full, -1 when the host reads no
// more.
ssize_t send_some(int fd, std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = std::min(parts.size(), kMostParts);
  const ssize_t n = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n >= 0) return n;
  return would_block(errno) ? 0 : -1;
}

}  // namespace

Connection::Connection(Owner& owner, boost::asio::io_context& io, sys::Fd socket, Ports ports,
                       uint64_t guest_cid, uint32_t buf_alloc, const Timeouts& timeouts)
    : owner_(owner),
      socket_(io, socket.release()),
      timer_(io),
      ports_(ports),
      guest_cid_(guest_cid),
      timeouts_(timeouts),
      receive_(buf_alloc) {}

Connection::~Connection() = default;

void Connection::begin_host_side() {
  state_ = State::requesting;
  due_ = kRequest;
  start_timer(timeouts_.request);
  wait_hangup();
  schedule();
}

void Connection::begin_guest_side(const Header& request) {
  state_ = State::open;
  due_ = kResponse;
  if (!send_.update(request.buf_alloc, request.fwd_cnt))
    return on_breach("fwd_cnt counts bytes that were never sent");
  wait_hangup();
  wait_readable();
  schedule();
}

// --- from the guest
// ------------------------------------------------------------------------------------------------

void Connection::on_packet(const Header& header, std::span<const iovec> payload) {
  const bool had_credit = send_.free() > 0;
  if (!send_.update(header.buf_alloc, header.fwd_cnt))
    return on_breach("fwd_cnt counts bytes that were never sent");
  if (!had_credit && send_.free() > 0) credit_asked_ = false;
  switch (header.op) {
    case Op::response:
      on_response();
      break;
    case Op::rw:
      on_data(payload, header.len);
      break;
    case Op::shutdown:
      on_shutdown(header.flags);
      break;
    case Op::credit_request:
      due_ |= kCreditUpdate;
      break;
    default:
      break;
  }
  schedule();
}

void Connection::on_guest_reset() {
  end_guest_side(false);
}

void Connection::on_response() {
  if (state_ != State::requesting) return on_breach("a response to no request");
  state_ = State::open;
  timer_.cancel();
  timer_on_ = false;
  const std::string answer = connect_answer(ports_.host);
  // The first bytes on this socket: there is room, or nobody to read them.
  iovec part{const_cast<char*>(answer.data()), answer.size()};
  if (send_some(socket_.native_handle(), {&part, 1}) != static_cast<ssize_t>(answer.size()))
    return host_reads_no_more();
  wait_readable();
}

void Connection::on_data(std::span<const iovec> payload, uint32_t length) {
  if (state_ == State::requesting) return on_breach("data before the response");
  if (state_ != State::open && state_ != State::closing) return;
  if ((guest_shutdown_ & kShutdownSend) != 0) return on_breach("data after a shutdown for sending");
  if (!receive_.receive(length)) return on_breach("data beyond the credit");
  if (host_deaf_) {
    receive_.forward(length);
    return;
  }
  size_t sent = 0;
  if (backlog_.empty() && length > 0) {
    const ssize_t n = send_some(socket_.native_handle(), payload);
    if (n < 0) return host_reads_no_more();
    sent = static_cast<size_t>(n);
    receive_.forward(static_cast<uint32_t>(sent));
  }
  if (sent < length) {
    backlog_.append(payload, sent);
    wait_writable();
  }
  if (receive_.worth_telling()) due_ |= kCreditUpdate;
}

void Connection::on_shutdown(uint32_t flags) {
  if (state_ == State::requesting) return on_breach("a shutdown before the response");
  const uint32_t fresh = flags & kShutdownBoth & ~guest_shutdown_;
  guest_shutdown_ |= fresh;
  if ((fresh & kShutdownReceive) != 0) (void)::shutdown(socket_.native_handle(), SHUT_RD);
  settle();
}

// --- to the guest
// --------------------------------------------------------------------------------------------------

bool Connection::can_read() const {
  return readable_ && state_ == State::open && !host_ended_ && (guest_shutdown_ & kShutdownReceive) == 0 &&
         send_.free() > 0;
}

void Connection::schedule() {
  if (state_ == State::draining || state_ == State::ended) return;
  if (readable_ && send_.free() == 0 && state_ == State::open && !credit_asked_ && !host_ended_) {
    credit_asked_ = true;
    due_ |= kCreditRequest;
  }
  if (due_ != 0) {
    owner_.output_ready(*this);
  } else if (can_read()) {
    if (std::chrono::steady_clock::now() < hold_until_) {
      owner_.output_later(*this);
    } else {
      owner_.output_ready(*this);
    }
  }
}

Header Connection::stamp(Op op) {
  receive_.told();
  due_ &= static_cast<uint8_t>(~kCreditUpdate);
  return {.src_cid = kHostCid,
          .dst_cid = guest_cid_,
          .src_port = ports_.host,
          .dst_port = ports_.guest,
          .op = op,
          .buf_alloc = receive_.buf_alloc(),
          .fwd_cnt = receive_.fwd_cnt()};
}

std::optional<Header> Connection::take_packet(std::span<const iovec> room) {
  const auto take_due = [&](Due which) {
    const bool was = (due_ & which) != 0;
    due_ &= static_cast<uint8_t>(~which);
    return was;
  };
  if (take_due(kRequest)) return stamp(Op::request);
  if (take_due(kResponse)) return stamp(Op::response);
  if (can_read()) {
    if (auto data = read_host(room)) return data;
  }
  if (state_ == State::draining || state_ == State::ended) return std::nullopt;
  if (take_due(kShutdown)) {
    Header header = stamp(Op::shutdown);
    header.flags = our_shutdown_;
    return header;
  }
  if (take_due(kCreditUpdate)) return stamp(Op::credit_update);
  if (take_due(kCreditRequest)) return stamp(Op::credit_request);
  return std::nullopt;
}

std::optional<Header> Connection::read_host(std::span<const iovec> room) {
  std::array<iovec, kMostParts> parts;
  size_t count = 0;
  size_t most = std::min(kMaxPayload, send_.free());
  size_t asked = 0;
  for (const iovec& part : room) {
    if (most == 0 || count == parts.size()) break;
    parts[count] = {part.iov_base, std::min(part.iov_len, most)};
    most -= parts[count].iov_len;
    asked += parts[count].iov_len;
    ++count;
  }
  const ssize_t n = ::readv(socket_.native_handle(), parts.data(), static_cast<int>(count));
  if (n < 0 && would_block(errno)) {
    readable_ = false;
    wait_readable();
    return std::nullopt;
  }
  if (n <= 0) {  // the end, or ECONNRESET: closed with bytes of ours unread
    on_host_end();
    return std::nullopt;
  }
  const auto length = static_cast<uint32_t>(n);
  send_.sent(length);
  if (length < asked) {
    readable_ = false;
    wait_readable();
  }
  if (length < kSmallPacket) hold_until_ = std::chrono::steady_clock::now() + timeouts_.coalesce;
  if (timer_on_) start_timer(timeouts_.shutdown);  // a closed host whose bytes are being taken is not stuck
  Header header = stamp(Op::rw);
  header.len = length;
  return header;
}

// --- from the host socket
// ------------------------------------------------------------------------------------------

void Connection::wait_readable() {
  if (waiting_read_ || !socket_.is_open()) return;
  waiting_read_ = true;
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->waiting_read_ = false;
                       if (error) return;
                       self->readable_ = true;
                       self->schedule();
                     });
}

void Connection::wait_writable() {
  if (waiting_write_ || !socket_.is_open()) return;
  waiting_write_ = true;
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       self->waiting_write_ = false;
                       if (!error) self->flush_backlog();
                     });
}

void Connection::wait_hangup() {
  if (!socket_.is_open()) return;
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_error,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       if (!error) self->on_hangup();
                     });
}

void Connection::on_hangup() {
  pollfd state{socket_.native_handle(), 0, 0};
  // Urgent data wakes this wait too. It is not waited for again: that would spin, and the end is still read
  // as such.
  if (::poll(&state, 1, 0) <= 0 || (state.revents & (POLLHUP | POLLERR)) == 0) return;
  host_hung_up_ = true;
  switch (state_) {
    case State::requesting:  // the host gave up before the guest answered
      end_guest_side((due_ & kRequest) == 0);
      break;
    case State::open:
      // Bytes it left behind are still read, but not for ever: see the timer.
      start_timer(timeouts_.shutdown);
      host_reads_no_more();
      break;
    case State::draining:
      owner_.drained(*this);
      break;
    case State::closing:
    case State::ended:
      break;
  }
}

void Connection::on_host_end() {
  readable_ = false;
  host_ended_ = true;
  pollfd state{socket_.native_handle(), 0, 0};
  const bool gone = ::poll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR)) != 0;
  announce(kShutdownSend);
  if (gone || host_hung_up_) host_reads_no_more();
  settle();
}

void Connection::host_reads_no_more() {
  if (!host_deaf_) {
    host_deaf_ = true;
    backlog_.clear();
    receive_.forward(receive_.held());
    if (state_ == State::draining) return owner_.drained(*this);
    announce(kShutdownReceive);
    settle();
  }
  schedule();
}

void Connection::flush_backlog() {
  const auto bytes = backlog_.front();
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  const ssize_t n = bytes.empty() ? 0 : send_some(socket_.native_handle(), {&part, 1});
  if (n < 0) return host_reads_no_more();
  receive_.forward(static_cast<uint32_t>(n));
  backlog_.consume(static_cast<size_t>(n));
  if (!backlog_.empty()) {
    wait_writable();
  } else if (state_ == State::draining) {
    return owner_.drained(*this);
  } else {
    settle();
  }
  if (receive_.worth_telling()) due_ |= kCreditUpdate;
  schedule();
}

// --- the end
// -------------------------------------------------------------------------------------------------------

void Connection::announce(uint32_t shutdown_flags) {
  if ((our_shutdown_ | shutdown_flags) == our_shutdown_) return;
  our_shutdown_ |= shutdown_flags;
  due_ |= kShutdown;
}

// Draws the conclusions once a direction has ended.
void Connection::settle() {
  if (state_ == State::closing && guest_shutdown_ == kShutdownBoth) return end_guest_side(true);
  if (state_ != State::open) return;
  if ((guest_shutdown_ & kShutdownSend) != 0 && backlog_.empty() && !write_shut_) {
    write_shut_ = true;
    (void)::shutdown(socket_.native_handle(), SHUT_WR);
  }
  if (guest_shutdown_ == kShutdownBoth) return end_guest_side(true);
  const bool nothing_to_guest = host_ended_ || (guest_shutdown_ & kShutdownReceive) != 0;
  const bool nothing_to_host = host_deaf_ || write_shut_;
  if (nothing_to_guest && nothing_to_host) {
    state_ = State::closing;
    our_shutdown_ = kShutdownBoth;
    due_ |= kShutdown;
    start_timer(timeouts_.shutdown);
  }
}

void Connection::start_timer(std::chrono::milliseconds after) {
  timer_on_ = true;
  timer_.expires_after(after);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    // A wait that was over before it was cancelled or set anew comes here all the same.
    if (error || !self->timer_on_ || std::chrono::steady_clock::now() < self->timer_.expiry()) return;
    self->end_guest_side(true);
  });
}

void Connection::abandon() {
  end_guest_side(false);
}

void Connection::end_guest_side(bool reset, const char* breach_of) {
  if (state_ == State::draining || state_ == State::ended) return;
  timer_.cancel();
  timer_on_ = false;
  due_ = 0;
  hook.unlink();
  const bool drains = !backlog_.empty() && breach_of == nullptr;
  const auto self = shared_from_this();  // the owner lets go of it
  state_ = drains ? State::draining : State::ended;
  if (drains) (void)::shutdown(socket_.native_handle(), SHUT_RD);
  owner_.guest_side_over(*this, reset, breach_of);
  if (!drains) close();
}

void Connection::close() {
  state_ = State::ended;
  hook.unlink();
  timer_.cancel();
  timer_on_ = false;
  backlog_.clear();
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace turnbox::vsock
