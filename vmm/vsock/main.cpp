// turnbox-vsockd: options, log, confinement, device, run. Started by the broker, one for each sandbox.
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <csignal>
#include <cstdio>

#include "vmm/sys/log.h"
#include "vmm/sys/sandbox.h"
#include "vmm/vhost/backend.h"
#include "vmm/vsock/device.h"
#include "vmm/vsock/host_door.h"
#include "vmm/vsock/options.h"

namespace turnbox::vsock {
namespace {

namespace asio = boost::asio;

// As many descriptors as connections need, and so many connections as there are descriptors for.
size_t connections_possible() {
  constexpr rlim_t kSpare = 64 + HostDoor::kMostGreetings;
  const size_t wanted = Limits{}.connections;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) < 0) return wanted / 4;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, std::max<rlim_t>(limit.rlim_cur, wanted + kSpare));
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur > kSpare ? std::min<size_t>(wanted, limit.rlim_cur - kSpare) : 1;
}

// Ends the loop when the broker closes its end of the dial socket. Nothing is ever read from it.
void watch_owner(asio::posix::stream_descriptor& dial, asio::io_context& io) {
  dial.async_wait(asio::posix::stream_descriptor::wait_read, [&](const boost::system::error_code& error) {
    if (error) return;
    std::byte byte{};
    const ssize_t n = ::recv(dial.native_handle(), &byte, 1, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return io.stop();
    watch_owner(dial, io);
  });
}

void tell_counters(const MuxerCounters& vsock, const vhost::Counters& vhost) {
  spdlog::info(
      "counters: packets={} wrong_cid={} wrong_type={} unknown_op={} malformed={} strays={} duplicates={} "
      "breaches={} "
      "requests={} requests_refused={} connects={} connects_refused={} resets_sent={} resets_dropped={}",
      vsock.packets, vsock.wrong_cid, vsock.wrong_type, vsock.unknown_op, vsock.malformed, vsock.strays,
      vsock.duplicates, vsock.breaches, vsock.requests, vsock.requests_refused, vsock.connects,
      vsock.connects_refused, vsock.resets_sent, vsock.resets_dropped);
  spdlog::info("counters: messages={} messages_refused={} peers_refused={} chains={} queue_faults={}",
               vhost.messages, vhost.messages_refused, vhost.peers_refused, vhost.chains, vhost.queue_faults);
}

sys::Status run(const Options& options, size_t connections) {
  asio::io_context io(1);
  asio::posix::stream_descriptor dial(io, options.dial_fd);
  sys::Fd device_listener(options.device_fd);
  sys::Fd connect_listener(options.connect_fd);
  TRY(sys::set_nonblocking(device_listener.get()));
  TRY(sys::set_nonblocking(connect_listener.get()));

  MuxerOptions muxing;
  muxing.guest_cid = options.cid;
  muxing.allowed_ports = options.allow;
  muxing.limits.connections = connections;
  Muxer muxer(io, std::move(muxing),
              [&dial](const Dial& wanted) { return dial_broker(dial.native_handle(), wanted); });
  VsockDevice device(io, muxer, options.cid);
  HostDoor door(io, std::move(connect_listener), options.connect_uid,
                [&muxer](sys::Fd socket, uint32_t port) { muxer.connect(std::move(socket), port); });

  vhost::Backend backend(io, std::move(device_listener), device, {.peer_uid = options.peer_uid}, [&] {
    // The machine is gone. What the guest said last still goes out to the host.
    door.close();
    muxer.on_idle([&io] { io.stop(); });
    if (muxer.idle()) io.stop();
  });
  door.open();
  watch_owner(dial, io);
  io.run();
  tell_counters(muxer.counters(), backend.counters());
  return {};
}

sys::Status serve(const Options& options) {
  const size_t connections = connections_possible();
  TRY_ASSIGN(const sys::Confinement reached, sys::confine({.uid = options.uid, .gid = options.gid}));
  spdlog::info("confined: own_user={} empty_root={}; at most {} connections", reached.own_user,
               reached.empty_root, connections);
  return run(options, connections);
}

int turnbox_vsockd(int argc, char** argv) {
  sys::start_log("turnbox-vsockd");
  ::signal(SIGPIPE, SIG_IGN);
  int code = 0;
  const auto asked = parse_options(argc, argv);
  sys::Status ended;
  if (!asked) {
    ended = tl::unexpected(asked.error());
  } else if (!asked->serve) {
    std::fputs(asked->print.c_str(), stdout);
  } else {
    ended = serve(*asked->serve);
  }
  if (!ended) {
    spdlog::error("{}", ended.error().text);
    code = ended.error().kind == sys::ErrorKind::usage ? 2 : 1;
  }
  return code;
}

}  // namespace
}  // namespace turnbox::vsock

int main(int argc, char** argv) {
  try {
    return turnbox::vsock::turnbox_vsockd(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "turnbox-vsockd: error: %s\n", e.what());
    return 1;
  }
}
