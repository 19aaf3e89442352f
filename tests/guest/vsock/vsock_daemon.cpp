#include "tests/guest/vsock/vsock_daemon.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "vmm/sys/bytes.h"
#include "vmm/sys/memfd.h"
#include "vmm/sys/socket.h"

namespace turnbox::vsock {
namespace {

using support::give_up;

template <typename T>
T must(sys::Result<T> result) {
  if (!result) give_up(result.error().text);
  return std::move(*result);
}

bool ready(int fd, short events, Deadline within) {
  pollfd wait{fd, events, 0};
  return ::poll(&wait, 1, static_cast<int>(within.count())) > 0;
}

}  // namespace

// --- the host side
// -------------------------------------------------------------------------------------------------

bool HostEnd::try_say(std::string_view text) {
  while (!text.empty()) {
    if (!ready(socket_.get(), POLLOUT, kDeadline)) give_up("the daemon takes no bytes");
    const ssize_t n = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) continue;
    if (n < 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void HostEnd::say(std::string_view text) {
  if (!try_say(text)) give_up("the daemon closed a host socket");
}

std::string HostEnd::hear(size_t size, Deadline within) {
  std::string heard(size, '\0');
  size_t done = 0;
  while (done < size && ready(socket_.get(), POLLIN, within)) {
    const ssize_t n = ::recv(socket_.get(), heard.data() + done, size - done, MSG_DONTWAIT);
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  heard.resize(done);
  return heard;
}

std::string HostEnd::hear_line() {
  std::string line;
  while (!line.ends_with('\n')) {
    const std::string one = hear(1);
    if (one.empty()) break;
    line += one;
  }
  return line;
}

bool HostEnd::ended(Deadline within) {
  char byte;
  return ready(socket_.get(), POLLIN, within) && ::recv(socket_.get(), &byte, 1, MSG_DONTWAIT) <= 0;
}

bool HostEnd::quiet(Deadline within) {
  return !ready(socket_.get(), POLLIN, within);
}

void HostEnd::shut(int how) {
  (void)::shutdown(socket_.get(), how);
}

VsockDaemon::VsockDaemon(std::vector<std::string> more_arguments) {
  std::string pattern = (std::filesystem::temp_directory_path() / "turnbox-vsock-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) give_up("no temporary directory");
  directory_ = pattern;
  device_path_ = directory_ + "/device.sock";
  connect_path_ = directory_ + "/vsock.sock";
  const sys::Fd device = must(sys::listen_unix(device_path_, 0600));
  const sys::Fd connect = must(sys::listen_unix(connect_path_, 0600, 128));
  auto [ours, theirs] = must(sys::socket_pair(SOCK_SEQPACKET));
  dial_ = std::move(ours);
  log_ = must(sys::make_memfd("log"));

  std::vector<std::string> argv{"turnbox-vsockd", "--device-fd", "3", "--connect-fd", "4", "--dial-fd", "5"};
  argv.insert(argv.end(), more_arguments.begin(), more_arguments.end());
  process_ = must(sys::Process::spawn(
      {.program = TURNBOX_VSOCKD,
       .argv = std::move(argv),
       .env = {"TURNBOX_LOG=info"},
       .fds = {{device.get(), 3}, {connect.get(), 4}, {theirs.get(), 5}, {log_.get(), 2}}}));
}

VsockDaemon::~VsockDaemon() {
  std::filesystem::remove_all(directory_);
}

HostEnd VsockDaemon::connect(std::string_view first_bytes) {
  HostEnd end(must(sys::connect_unix(connect_path_)));
  (void)end.try_say(first_bytes);  // a daemon that refuses may have hung up already: the caller looks for that
  return end;
}

std::optional<VsockDaemon::Dialled> VsockDaemon::dialled(Deadline within) {
  if (!ready(dial_.get(), POLLIN, within)) return std::nullopt;
  std::array<std::byte, 64> bytes;
  auto received = must(sys::receive_with_fds(dial_.get(), bytes));
  if (received.size != kDialSize || received.fds.size() != 1 || received.truncated)
    give_up("a wrong dial message");
  return Dialled{decode_dial(std::span(bytes).first<kDialSize>()), HostEnd(std::move(received.fds.front()))};
}

bool VsockDaemon::running() {
  return !process_.poll().has_value();
}

std::optional<sys::Exit> VsockDaemon::exits(Deadline within) {
  return process_.wait_for(within);
}

std::string VsockDaemon::log() const {
  std::string text(must(sys::file_size(log_.get())), '\0');
  must(sys::pread_full(log_.get(), std::as_writable_bytes(std::span(text)), 0));
  return text;
}

std::map<std::string, uint64_t> VsockDaemon::end() {
  dial_.reset();
  const auto exit = exits();
  if (!exit || exit->signalled || exit->code != 0) give_up("the daemon did not end well:\n" + log());
  std::map<std::string, uint64_t> counters;
  std::istringstream words(log());
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals != word.npos)
      counters[word.substr(0, equals)] = std::strtoull(word.c_str() + equals + 1, nullptr, 10);
  }
  return counters;
}

// --- the guest
// -----------------------------------------------------------------------------------------------------

VsockGuest::VsockGuest(const VsockDaemon& daemon, unsigned rx_buffers)
    : front_end_(daemon.device_path(), {.memory = 32 << 20, .queues = 3, .queue_size = 128}) {
  front_end_.handshake();
  post_rx(rx_buffers);
}

void VsockGuest::post_rx(unsigned count, size_t size) {
  for (unsigned i = 0; i < count; ++i) front_end_.post(0, {}, size);
}

Header VsockGuest::header(Op op, uint32_t guest_port, uint32_t host_port) {
  return {.src_cid = kCid,
          .dst_cid = kHostCid,
          .src_port = guest_port,
          .dst_port = host_port,
          .op = op,
          .buf_alloc = kBuffer};
}

void VsockGuest::send_bytes(sys::ByteSpan bytes) {
  front_end_.request(1, bytes, 0);
}

void VsockGuest::send_as_is(const Header& header, std::string_view payload) {
  sys::Bytes bytes(kHeaderSize);
  encode_header(header, std::span(bytes).first<kHeaderSize>());
  sys::append(bytes, sys::as_bytes(payload));
  send_bytes(bytes);
}

void VsockGuest::send(const Header& header, std::string_view payload) {
  Header with = header;
  with.len = static_cast<uint32_t>(payload.size());
  send_as_is(with, payload);
}

void VsockGuest::shutdown(uint32_t guest_port, uint32_t host_port, uint32_t flags) {
  Header with = header(Op::shutdown, guest_port, host_port);
  with.flags = flags;
  send(with);
}

std::optional<Packet> VsockGuest::next(Deadline within) {
  const auto done = front_end_.next(0, within);
  if (!done) return std::nullopt;
  post_rx(1);
  if (done->bytes.size() < kHeaderSize) give_up("the daemon gave a buffer back without a header");
  const Header header = decode_header(std::span(done->bytes).first<kHeaderSize>());
  const auto payload = std::span(done->bytes).subspan(kHeaderSize);
  if (header.len != payload.size()) give_up("len is not what the used entry says");
  if (header.src_cid != kHostCid || header.dst_cid != kCid) give_up("a packet with wrong cids");
  return Packet{header, std::string(sys::as_text(payload))};
}

Packet VsockGuest::expect(Op op) {
  auto packet = next();
  if (!packet) give_up("no packet came where op " + std::to_string(static_cast<int>(op)) + " was due");
  if (packet->header.op != op) {
    give_up("op " + std::to_string(static_cast<int>(packet->header.op)) + " came where op " +
            std::to_string(static_cast<int>(op)) + " was due");
  }
  return std::move(*packet);
}

HostEnd VsockGuest::open_from_guest(VsockDaemon& daemon, uint32_t guest_port, uint32_t buf_alloc) {
  Header request = header(Op::request, guest_port, 1024);
  request.buf_alloc = buf_alloc;
  send(request);
  const Packet response = expect(Op::response);
  if (response.header.src_port != 1024 || response.header.dst_port != guest_port)
    give_up("a response of another");
  auto dialled = daemon.dialled();
  if (!dialled || dialled->dial.port != 1024 || dialled->dial.guest_port != guest_port)
    give_up("not dialled");
  return std::move(dialled->end);
}

VsockGuest::FromHost VsockGuest::open_from_host(VsockDaemon& daemon, uint32_t guest_port) {
  HostEnd end = daemon.connect("CONNECT " + std::to_string(guest_port) + "\n");
  const Packet request = expect(Op::request);
  if (request.header.dst_port != guest_port) give_up("a request for another port");
  const uint32_t host_port = request.header.src_port;
  send(Op::response, guest_port, host_port);
  if (end.hear_line() != "OK " + std::to_string(host_port) + "\n") give_up("no OK");
  return {std::move(end), host_port};
}

bool serves(VsockDaemon& daemon, VsockGuest& guest) {
  constexpr uint32_t kFresh = 0xfffffff0;
  HostEnd end = guest.open_from_guest(daemon, kFresh);
  guest.send(Op::rw, kFresh, 1024, "alive?");
  if (end.hear(6) != "alive?") return false;
  end.say("alive");
  const bool answered = guest.expect(Op::rw).payload == "alive";
  guest.send(Op::rst, kFresh, 1024);
  return answered && end.ended() && daemon.running();
}

}  // namespace turnbox::vsock
