#include "vmm/vhost/backend.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cstring>

#include "vmm/sys/log.h"
#include "vmm/sys/socket.h"
#include "vmm/vhost/session.h"

namespace turnbox::vhost {
namespace {

using Descriptor = boost::asio::posix::stream_descriptor;
using sys::ErrorKind;

constexpr unsigned kMessagesPerTurn = 8;  // then others have theirs

bool has_reply(Request request) {
  switch (request) {
    case Request::get_features:
    case Request::get_protocol_features:
    case Request::get_queue_num:
    case Request::get_vring_base:
    case Request::get_config:
    case Request::get_max_mem_slots:
      return true;
    default:
      return false;
  }
}

}  // namespace

// The listener, and the one connection with its session.
class Backend::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(boost::asio::io_context& io, sys::Fd listener, Device& device, BackendOptions options,
       std::function<void()> gone)
      : io_(io), device_(device), options_(options), gone_(std::move(gone)), listener_(io), socket_(io) {
    TURNBOX_ASSERT(sys::set_nonblocking(listener.get()).has_value());
    listener_.assign(listener.release());
  }

  void listen();
  void shut();
  const Counters& counters() const { return counters_; }

 private:
  void accept_one();
  void take(sys::Fd peer);
  void wait_for_messages();
  void receive();
  bool handle(Message message);
  bool refuse(const Header& header, const sys::Error& error);
  bool reply(uint32_t request, sys::ByteSpan payload);
  void complain(const std::string& what);
  void hang_up();
  void end();

  // Calls `what` once `on` is readable, unless the back end or this wait ended before.
  template <typename What>
  void when_readable(Descriptor& on, What what);

  boost::asio::io_context& io_;
  Device& device_;
  BackendOptions options_;
  std::function<void()> gone_;
  Counters counters_;
  sys::LogLimit log_;

  Descriptor listener_;
  Descriptor socket_;
  uint64_t connection_ = 0;  // numbers the front ends: a wait of an earlier one is recognised
  Receiver receiver_;
  std::unique_ptr<Session> session_;
};

template <typename What>
void Backend::Impl::when_readable(Descriptor& on, What what) {
  on.async_wait(Descriptor::wait_read,
                [weak = weak_from_this(), what](const boost::system::error_code& failed) {
                  const auto self = weak.lock();
                  if (self && failed != boost::asio::error::operation_aborted) what(*self);
                });
}

void Backend::Impl::listen() {
  when_readable(listener_, [](Impl& self) {
    if (self.listener_.is_open()) self.accept_one();
  });
}

void Backend::Impl::accept_one() {
  sys::Fd peer(::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!peer && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
    spdlog::error("{}: cannot accept a front end: {}", device_.name(),
                  sys::fail_errno("accept").value().text);
    listener_.close();
    if (!session_) end();
    return;
  }
  if (peer) take(std::move(peer));
  listen();
}

void Backend::Impl::take(sys::Fd peer) {
  const auto who = sys::peer_of(peer.get());
  const bool welcome = who && (!options_.peer_uid || who->uid == *options_.peer_uid);
  if (session_ || !welcome) {
    ++counters_.peers_refused;
    complain(session_ ? "a second front end is refused" : "a front end of another user is refused");
    return;
  }
  ++connection_;
  receiver_ = {};
  session_ = std::make_unique<Session>(io_, device_, counters_, [this](unsigned queue, const char* rule) {
    complain("queue " + std::to_string(queue) + " is broken: " + rule);
  });
  socket_.assign(peer.release());
  wait_for_messages();
}

void Backend::Impl::wait_for_messages() {
  when_readable(socket_, [connection = connection_](Impl& self) {
    if (self.session_ && self.connection_ == connection) self.receive();
  });
}

void Backend::Impl::receive() {
  for (unsigned i = 0; i < kMessagesPerTurn; ++i) {
    auto message = receiver_.next(socket_.native_handle());
    if (!message && message.error().kind == ErrorKind::unavailable) break;
    if (!message) {
      if (message.error().kind == ErrorKind::protocol) ++counters_.messages_refused;
      complain("the front end is dropped: " + message.error().text);
      return hang_up();
    }
    if (!*message || !handle(std::move(**message))) return hang_up();
  }
  wait_for_messages();
}

// False: the connection ends.
bool Backend::Impl::handle(Message message) {
  ++counters_.messages;
  const Header header = message.header;
  spdlog::debug("{}: request {}, {} bytes, {} descriptors, flags {}", device_.name(), header.request,
                header.size, message.fds.size(), header.flags);
  const auto checked = check_shape(header, message.payload, message.fds.size());
  if (!checked) return refuse(header, checked.error());
  const auto answer = session_->handle(message);
  if (!answer) return refuse(header, answer.error());
  if (*answer) return reply(header.request, **answer);
  if (session_->reply_ack() && (header.flags & kFlagNeedReply) != 0) {
    return reply(header.request, std::array<std::byte, 8>{});
  }
  return true;
}

// Told where the front end listens for it: a configuration reply of no bytes, or an acknowledgement that is
// not 0. A front end that asked for neither believes what is not so; it is dropped.
bool Backend::Impl::refuse(const Header& header, const sys::Error& error) {
  ++counters_.messages_refused;
  const auto request = static_cast<Request>(header.request);
  complain(std::string(name_of(request)) + " is refused: " + error.text);
  if (request == Request::get_config) return reply(header.request, {});
  if (!session_->reply_ack() || (header.flags & kFlagNeedReply) == 0 || has_reply(request)) return false;
  return reply(header.request, std::array<std::byte, 8>{std::byte{1}});
}

// A front end that does not read its replies is dropped; the loop never waits for it.
bool Backend::Impl::reply(uint32_t request, sys::ByteSpan payload) {
  sys::Bytes bytes;
  sys::append_le(bytes, Header{request, kFlagVersion | kFlagReply, static_cast<uint32_t>(payload.size())});
  sys::append(bytes, payload);
  return ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

// Lines that a peer can cause are limited, and those left out are counted.
void Backend::Impl::complain(const std::string& what) {
  if (!log_.pass()) return;
  const uint64_t left_out = log_.take_suppressed();
  spdlog::warn("{}: {}", device_.name(), what);
  if (left_out > 0) spdlog::warn("{}: {} such lines were left out before", device_.name(), left_out);
}

void Backend::Impl::hang_up() {
  session_.reset();
  socket_.close();
  if (!options_.accept_again || !listener_.is_open()) end();
}

void Backend::Impl::end() {
  boost::system::error_code ignored;
  listener_.close(ignored);
  if (!gone_) return;
  boost::asio::post(io_, [weak = weak_from_this(), gone = std::exchange(gone_, nullptr)] {
    const auto self = weak.lock();  // stands until `gone` returns, even if that destroys the back end
    if (self) gone();
  });
}

void Backend::Impl::shut() {
  session_.reset();
  gone_ = nullptr;
}

Backend::Backend(boost::asio::io_context& io, sys::Fd listener, Device& device, BackendOptions options,
                 std::function<void()> gone)
    : impl_(std::make_shared<Impl>(io, std::move(listener), device, options, std::move(gone))) {
  impl_->listen();
}

Backend::~Backend() {
  impl_->shut();
}

const Counters& Backend::counters() const {
  return impl_->counters();
}

}  // namespace turnbox::vhost
