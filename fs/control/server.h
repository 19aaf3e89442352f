// fsd's end of one control connection: lines in, answers out, in order (docs/WIRE.md, «Control messages»).
//
// Owned by the daemon's main (the broker's connection) or by Operators; runs on the owner's loop. The peer is
// the broker or an operator, and is checked all the same: a message that is wrong is answered with an error;
// bytes that cannot be told apart into messages end the connection. It may be destroyed at any time after
// `ended` was called, not inside that call.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "fs/control/methods.h"
#include "fs/control/protocol.h"

namespace turnbox::control {

struct ServerCounters {
  uint64_t requests = 0, errors = 0, stray_fds = 0;
};

class Server {
 public:
  // `ended` is called once: with success when the peer closed, else with what it did.
  Server(boost::asio::io_context& io, sys::Fd socket, Methods& methods, Session::Rights rights,
         std::function<void(sys::Status)> ended);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void notify(std::string_view method, boost::json::object params);
  const ServerCounters& counters() const { return counters_; }

 private:
  struct Outgoing {
    std::string line;
    std::vector<sys::Fd> fds;
    size_t sent = 0;
  };
  struct Request {
    boost::json::value id;  // a number or a string; null while unknown
    const Methods::Row* row = nullptr;
    boost::json::object params;
    std::vector<sys::Fd> fds;
  };

  void wait_input();
  void receive();
  void pump();  // handles whole lines until one must be waited for
  void handle(const std::string& line);
  // Fills `request` as far as it can be understood; the error's code is in `code`.
  sys::Status understand(const std::string& line, Request& request, Code& code);
  sys::Status take_fds(const boost::json::object& message, Request& request);
  void run(Request& request);
  void answer(const boost::json::value& id, sys::Result<Answer> result);
  void answer_error(const boost::json::value& id, int code, const sys::Error& error);
  void send(boost::json::object message, std::vector<sys::Fd> fds);
  void flush();
  void end(sys::Status how);

  boost::asio::posix::stream_descriptor socket_;
  Methods& methods_;
  Session session_;
  std::function<void(sys::Status)> ended_;
  ServerCounters counters_;
  LineBuffer in_{kMaxLine};
  std::deque<Outgoing> out_;
  size_t out_bytes_ = 0;
  bool reading_ = false, writing_ = false;  // a wait for the socket stands
  bool busy_ = false;                       // an ordered answer is on its way
  std::array<std::byte, 65536> buffer_;
  std::shared_ptr<char> here_ =
      std::make_shared<char>();  // handlers and answers that outlive this see it gone
};

}  // namespace turnbox::control
