// The real turnbox-vsockd with both its neighbours played by the test: the host side here, the guest's driver
// in VsockGuest.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/fake_front_end.h"
#include "vmm/sys/fd.h"
#include "vmm/sys/process.h"
#include "vmm/vsock/dial.h"
#include "vmm/vsock/packet.h"

namespace turnbox::vsock {

using support::Deadline;
using support::kDeadline;
using support::kQuiet;

// A host end of a stream: whole writes and reads with a deadline, so that no case can hang.
class HostEnd {
 public:
  HostEnd() = default;
  explicit HostEnd(sys::Fd socket) : socket_(std::move(socket)) {}

  void say(std::string_view text);
  bool try_say(std::string_view text);  // false: the other side takes no more
  // Exactly `size` bytes, fewer only at the end of the stream or when nothing comes in time.
  std::string hear(size_t size, Deadline within = kDeadline);
  std::string hear_line();
  bool ended(Deadline within = kDeadline);  // the stream ends, and nothing stands before the end
  bool quiet(Deadline within = kQuiet);     // neither bytes nor an end
  void shut(int how);
  void close() { socket_.reset(); }
  int fd() const { return socket_.get(); }

 private:
  sys::Fd socket_;
};

class VsockDaemon {
 public:
  explicit VsockDaemon(std::vector<std::string> more_arguments = {"--allow", "1024"});
  ~VsockDaemon();
  VsockDaemon(const VsockDaemon&) = delete;
  VsockDaemon& operator=(const VsockDaemon&) = delete;

  const std::string& device_path() const { return device_path_; }

  HostEnd connect(std::string_view first_bytes);  // to vsock.sock
  struct Dialled {
    Dial dial;
    HostEnd end;
  };
  std::optional<Dialled> dialled(Deadline within = kDeadline);

  bool running();
  std::optional<sys::Exit> exits(Deadline within = kDeadline);
  // Closes the dial socket, waits for the end, returns the counters that the daemon logged with it.
  std::map<std::string, uint64_t> end();
  std::string log() const;

 private:
  std::string directory_;
  std::string device_path_;
  std::string connect_path_;
  sys::Fd dial_;
  sys::Fd log_;
  sys::Process process_;
};

struct Packet {
  Header header;
  std::string payload;
};

// The guest's driver: rx buffers posted as Linux posts them, packets in and out. CID 3.
class VsockGuest {
 public:
  static constexpr uint64_t kCid = 3;
  static constexpr uint32_t kPort = 5000;  // a guest port, where the case does not care which
  static constexpr uint32_t kBuffer = 256 * 1024;
  static constexpr size_t kRxBuffer = 4096;

  explicit VsockGuest(const VsockDaemon& daemon, unsigned rx_buffers = 32);

  // A header of this guest's with all that a driver fills in.
  static Header header(Op op, uint32_t guest_port, uint32_t host_port);
  void send(const Header& header, std::string_view payload = {});  // sets len
  void send_as_is(const Header& header, std::string_view payload = {});
  void send_bytes(sys::ByteSpan bytes);
  void send(Op op, uint32_t guest_port, uint32_t host_port, std::string_view payload = {}) {
    send(header(op, guest_port, host_port), payload);
  }
  void shutdown(uint32_t guest_port, uint32_t host_port, uint32_t flags);

  void post_rx(unsigned count, size_t size = kHeaderSize + kRxBuffer);
  std::optional<Packet> next(Deadline within = kDeadline);
  Packet expect(Op op);  // the next packet, which must be this
  bool quiet(Deadline within = kQuiet) { return !next(within).has_value(); }

  // Streams that stand: the guest's end is (kPort, …) with what the daemon chose.
  HostEnd open_from_guest(VsockDaemon& daemon, uint32_t guest_port = kPort, uint32_t buf_alloc = kBuffer);
  struct FromHost {
    HostEnd end;
    uint32_t host_port;
  };
  FromHost open_from_host(VsockDaemon& daemon, uint32_t guest_port = 1025);

  support::FakeFrontEnd& front_end() { return front_end_; }

 private:
  support::FakeFrontEnd front_end_;
};

// A stream still works: what every hostile case ends with.
bool serves(VsockDaemon& daemon, VsockGuest& guest);

}  // namespace turnbox::vsock
