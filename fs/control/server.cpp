#include "fs/control/server.h"

#include <boost/asio/post.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "vmm/sys/socket.h"

namespace turnbox::control {
namespace {

namespace json = boost::json;
using sys::ErrorKind;
using sys::Result;
using sys::Status;

// A peer that asks and does not read waits with its questions.
constexpr size_t kMostUnsent = size_t{4} << 20;
constexpr unsigned kMaxDepth = 40;

uint64_t next_session() {
  static uint64_t last = 0;  // of the one loop
  return ++last;
}

}  // namespace

Server::Server(boost::asio::io_context& io, sys::Fd socket, Methods& methods, Session::Rights rights,
               std::function<void(Status)> ended)
    : socket_(io, socket.release()),
      methods_(methods),
      session_{.id = next_session(),
               .rights = rights,
               .notify = [this](std::string_view method,
                                json::object params) { notify(method, std::move(params)); }},
      ended_(std::move(ended)) {
  socket_.non_blocking(true);
  wait_input();
}

void Server::wait_input() {
  if (reading_ || busy_ || out_bytes_ > kMostUnsent || !ended_) return;
  reading_ = true;
  socket_.async_wait(socket_.wait_read,
                     [this, here = std::weak_ptr(here_)](const boost::system::error_code& failed) {
                       if (here.expired()) return;
                       reading_ = false;
                       if (!failed) receive();
                     });
}

void Server::receive() {
  auto received = sys::receive_with_fds(socket_.native_handle(), buffer_);
  if (!received) {
    if (received.error().kind == ErrorKind::unavailable) return wait_input();
    return end(tl::make_unexpected(received.error()));
  }
  if (received->truncated)
    return end(sys::fail(ErrorKind::protocol, "descriptors were lost; too many came at once"));
  if (received->size == 0) return end({});
  if (!in_.feed({buffer_.data(), received->size}, std::move(received->fds))) {
    return end(sys::fail(ErrorKind::protocol, "more descriptors wait than messages claim"));
  }
  pump();
}

void Server::pump() {
  std::string line;
  while (!busy_ && out_bytes_ <= kMostUnsent && ended_) {
    switch (in_.next(line)) {
      case LineBuffer::Next::line:
        handle(line);
        break;
      case LineBuffer::Next::too_long:
        answer_error(nullptr, kInvalidRequest,
                     {ErrorKind::limit, "a message is at most 1 MiB, newline included"});
        break;
      case LineBuffer::Next::none:
        counters_.stray_fds += in_.drop_stray_fds();
        return wait_input();
    }
  }
}

Status Server::take_fds(const json::object& message, Request& request) {
  const json::value* count = message.if_contains("fds");
  if (count == nullptr) return {};
  if (!count->is_int64() || count->get_int64() < 0) {
    return sys::fail(ErrorKind::invalid, "fds is not the number of descriptors");
  }
  auto fds = in_.take_fds(static_cast<size_t>(count->get_int64()));
  if (!fds) return sys::fail(ErrorKind::invalid, "fewer descriptors came than the message says");
  request.fds = std::move(*fds);
  return {};
}

Status Server::understand(const std::string& line, Request& request, Code& code) {
  code = kParseError;
  boost::system::error_code failed;
  json::parse_options options;
  options.max_depth = kMaxDepth;
  const json::value value = json::parse(line, failed, {}, options);
  if (failed) return sys::fail(ErrorKind::invalid, "the message is no JSON: " + failed.message());
  code = kInvalidRequest;
  const json::object* message = value.if_object();
  if (message == nullptr) return sys::fail(ErrorKind::invalid, "the message is no object");
  if (const json::value* id = message->if_contains("id");
      id != nullptr && (id->is_int64() || id->is_string())) {
    request.id = *id;
  }
  TRY(take_fds(*message, request));
  const json::value* version = message->if_contains("jsonrpc");
  const json::value* method = message->if_contains("method");
  const json::value* params = message->if_contains("params");
  if (version == nullptr || *version != "2.0") return sys::fail(ErrorKind::invalid, "jsonrpc is not \"2.0\"");
  if (request.id.is_null()) return sys::fail(ErrorKind::invalid, "id is neither an integer nor a string");
  if (method == nullptr || !method->is_string()) return sys::fail(ErrorKind::invalid, "method is no string");
  for (const auto& member : *message) {
    const std::string_view key = member.key();
    if (key != "jsonrpc" && key != "id" && key != "method" && key != "params" && key != "fds") {
      return sys::fail(ErrorKind::invalid, "unknown member " + std::string(key));
    }
  }
  code = kMethodNotFound;
  request.row = Methods::find(method->get_string());
  if (request.row == nullptr) {
    return sys::fail(ErrorKind::invalid,
                     "unknown method " + std::string(method->get_string().subview(0, 64)));
  }
  code = kInvalidParams;
  if (params == nullptr) return {};
  if (!params->is_object()) return sys::fail(ErrorKind::invalid, "params is no object");
  request.params = params->get_object();
  return {};
}

void Server::handle(const std::string& line) {
  ++counters_.requests;
  Request request;
  Code code{};
  if (const Status understood = understand(line, request, code); !understood) {
    return answer_error(request.id, code, understood.error());
  }
  run(request);
}

void Server::run(Request& request) {
  if (request.row->who == Methods::Who::owner && session_.rights != Session::Rights::owner) {
    return answer_error(
        request.id, kRefused,
        {ErrorKind::refused, std::string(request.row->name) + " is the sandbox's owner's alone"});
  }
  Call call{session_, request.params, request.fds};
  if (const auto* now = std::get_if<Methods::Now>(&request.row->run)) {
    return answer(request.id, (methods_.**now)(call));
  }
  const bool ordered = request.row->ordered;
  busy_ = ordered;
  const Reply reply = [this, here = std::weak_ptr(here_), id = request.id, ordered](Result<Answer> result) {
    if (here.expired()) return;
    answer(id, std::move(result));
    if (!ordered) return;
    busy_ = false;
    boost::asio::post(socket_.get_executor(), [this, here] {
      if (!here.expired()) pump();
    });
  };
  (methods_.*std::get<Methods::Later>(request.row->run))(call, reply);
}

void Server::answer(const json::value& id, Result<Answer> result) {
  if (!result) return answer_error(id, code_of(result.error().kind), result.error());
  json::object message{{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result->result)}};
  if (!result->fds.empty()) message["fds"] = result->fds.size();
  send(std::move(message), std::move(result->fds));
}

void Server::answer_error(const json::value& id, int code, const sys::Error& error) {
  ++counters_.errors;
  json::object data{{"reason", sys::name_of(error.kind)}};
  send({{"jsonrpc", "2.0"},
        {"id", id},
        {"error", {{"code", code}, {"message", error.text}, {"data", std::move(data)}}}},
       {});
}

void Server::notify(std::string_view method, json::object params) {
  send({{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}}, {});
}

void Server::send(json::object message, std::vector<sys::Fd> fds) {
  if (!ended_) return;
  out_.push_back({json::serialize(message) + "\n", std::move(fds), 0});
  out_bytes_ += out_.back().line.size();
  if (!writing_) flush();
}

void Server::flush() {
  while (!out_.empty() && ended_) {
    Outgoing& next = out_.front();
    std::vector<int> fds;
    for (const auto& fd : next.fds) fds.push_back(fd.get());
    const auto sent = sys::send_some_with_fds(
        socket_.native_handle(), sys::as_bytes(std::string_view(next.line).substr(next.sent)), fds);
    // The broker may go while there is still something to tell it («device.gone»): its going ends all this
    // well.
    if (!sent && sent.error().kind == sys::ErrorKind::unavailable) return end({});
    if (!sent) return end(tl::make_unexpected(sent.error()));
    if (*sent == 0) {
      writing_ = true;
      socket_.async_wait(socket_.wait_write,
                         [this, here = std::weak_ptr(here_)](const boost::system::error_code& failed) {
                           if (here.expired()) return;
                           writing_ = false;
                           if (failed) return;
                           flush();
                           pump();
                         });
      return;
    }
    next.fds.clear();
    next.sent += *sent;
    out_bytes_ -= *sent;
    if (next.sent == next.line.size()) out_.pop_front();
  }
}

void Server::end(Status how) {
  if (!ended_) return;
  boost::system::error_code ignored;
  socket_.close(ignored);
  methods_.left(session_);
  std::exchange(ended_, nullptr)(std::move(how));
}

}  // namespace turnbox::control
