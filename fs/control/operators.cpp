#include "fs/control/operators.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>

#include "vmm/sys/socket.h"

namespace turnbox::control {

Operators::Operators(boost::asio::io_context& io, sys::Fd listener, std::optional<uid_t> user,
                     Methods& methods)
    : io_(io), listener_(io, listener.release()), user_(user), methods_(methods) {
  listener_.non_blocking(true);
  wait();
}

void Operators::wait() {
  listener_.async_wait(listener_.wait_read, [this](const boost::system::error_code& failed) {
    if (!failed) accept();
  });
}

// One at a time: whoever connects without end waits his turn behind the devices.
void Operators::accept() {
  sys::Fd peer(::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (peer) take(std::move(peer));
  wait();
}

void Operators::take(sys::Fd peer) {
  const auto who = sys::peer_of(peer.get());
  const bool welcome = who && (!user_ || who->uid == *user_ || who->uid == 0);
  if (welcome && servers_.size() < kMostOperators) return serve(std::move(peer));
  ++counters_.refused;
  if (log_.pass()) {
    spdlog::warn("an operator's connection is refused: {}",
                 welcome ? "too many of them" : "it is another user's");
  }
  constexpr std::string_view kMany =
      R"({"jsonrpc":"2.0","id":null,"error":{"code":-32004,"message":"16 operators are connected already; try again when one has gone","data":{"reason":"limit"}}})"
      "\n";
  constexpr std::string_view kOther =
      R"({"jsonrpc":"2.0","id":null,"error":{"code":-32003,"message":"only root and the sandbox's owner may connect","data":{"reason":"refused"}}})"
      "\n";
  (void)sys::send_some_with_fds(peer.get(), sys::as_bytes(welcome ? kMany : kOther));
}

void Operators::serve(sys::Fd peer) {
  ++counters_.accepted;
  const auto at = servers_.emplace(servers_.end());
  // The server is still on the stack when it says that it ended.
  const auto ended = [this, at](const sys::Status& how) {
    if (!how) {
      ++counters_.broken;
      if (log_.pass()) spdlog::warn("an operator's connection: {}", how.error().text);
    }
    boost::asio::post(io_, [this, at] { servers_.erase(at); });
  };
  *at = std::make_unique<Server>(io_, std::move(peer), methods_, Session::Rights::operators, ended);
}

void Operators::notify(std::string_view method, const boost::json::object& params) {
  for (const auto& server : servers_) server->notify(method, params);
}

}  // namespace turnbox::control
