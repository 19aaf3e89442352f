#include "vmm/guest/server.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "vmm/guest/exec_format.h"
#include "vmm/guest/json.h"

namespace turnbox::guest {
namespace {

using sys::Fd;
using sys::Status;

constexpr std::string_view kOk = "{\"ok\":true}\n";

}  // namespace

Server::Server(Machine machine, ProcessSets& sets, Fd listener)
    : machine_(std::move(machine)), sets_(sets), listener_(std::move(listener)) {}

Server::~Server() = default;

Status Server::run() {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  signals_ = Fd(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) return sys::fail_errno("cannot create a signalfd");
  ::signal(SIGPIPE, SIG_IGN);
  while (true) {
    turn();
    if (power_off_at_ && (connections_.empty() || Clock::now() >= *power_off_at_)) return {};
  }
}

void Server::turn() {
  poll_.clear();
  if (!power_off_at_) poll_.watch(listener_.get(), POLLIN);
  poll_.watch(signals_.get(), POLLIN);
  for (const auto& connection : connections_) connection->watch(poll_);
  for (const Flushing& flush : flushing_) poll_.wake_at(flush.deadline);
  if (power_off_at_) poll_.wake_at(*power_off_at_);
  poll_.wait();

  if (poll_.ready(signals_.get(), POLLIN)) reap();
  const auto now = Clock::now();
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (auto line = connections_[i]->receive(poll_)) dispatch(*connections_[i], *line);
  }
  for (const auto& connection : connections_) connection->work(poll_, now);
  answer_waiting(now);
  drop_done();
  if (poll_.ready(listener_.get(), POLLIN) && !power_off_at_) accept_all();
}

void Server::accept_all() {
  while (true) {
    auto socket = machine_.accept(listener_);
    if (!socket) return;
    if (*socket) connections_.push_back(std::make_unique<Connection>(std::move(*socket)));
  }
}

void Server::reap() {
  signalfd_siginfo ignored[8];
  while (::read(signals_.get(), ignored, sizeof ignored) > 0) {
  }
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    sets_.reaped(pid);
    for (const auto& connection : connections_) {
      ExecSession* exec = connection->exec();
      if (exec != nullptr && exec->leader() == pid && !exec->ended()) exec->leader_ended(status);
    }
    std::erase_if(flushing_, [&](const Flushing& flush) {
      if (flush.pid != pid) return false;
      const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
      flush.asker->answer(good ? "{\"ok\":true,\"flushed\":true}\n" : "{\"ok\":true,\"flushed\":false}\n");
      return true;
    });
  }
}

ExecSession* Server::live_exec(std::string_view id) const {
  for (const auto& connection : connections_) {
    ExecSession* exec = connection->exec();
    if (exec != nullptr && exec->id() == id && !exec->processes_gone()) return exec;
  }
  return nullptr;
}

void Server::dispatch(Connection& from, std::string_view line) {
  auto request = parse_request(line);
  if (!request) return from.answer(refusal_line(kErrorInvalid, request.error().text));
  std::visit([&](auto& what) { handle(from, what); }, *request);
}

void Server::handle(Connection& from, const Hello& request) {
  if (auto set = machine_.set_clock(request.clock_ns); !set) {
    return from.answer(refusal_line(kErrorIo, set.error().text));
  }
  utsname name{};
  ::uname(&name);
  from.answer("{\"ok\":true,\"version\":" + std::to_string(kExecVersion) +
              ",\"kernel\":" + json_text(name.release) + "}\n");
}

void Server::handle(Connection& from, Exec& request) {
  if (live_exec(request.id) != nullptr) {
    return from.answer(refusal_line(kErrorConflict, "exec " + request.id + " is already running"));
  }
  auto session = ExecSession::start(std::move(request), sets_);
  if (!session) return from.answer(refusal_line(kErrorIo, session.error().text));
  from.run(std::move(*session));
}

void Server::handle(Connection& from, const Kill& request) {
  ExecSession* exec = live_exec(request.id);
  if (exec == nullptr)
    return from.answer(refusal_line(kErrorNotFound, "no exec " + request.id + " is running"));
  exec->signal(request.signal);
  from.answer(std::string(kOk));
}

void Server::handle(Connection& from, const End& request) {
  ExecSession* exec = live_exec(request.id);
  if (exec == nullptr)
    return from.answer(refusal_line(kErrorNotFound, "no exec " + request.id + " is running"));
  exec->kill();
  waiting_.push_back({&from, request.id});
}

void Server::handle(Connection& from, const Flush& request) {
  const pid_t pid = ::fork();
  if (pid < 0) return from.answer(refusal_line(kErrorIo, "cannot fork a child that flushes"));
  if (pid == 0) ::_exit(machine_.flush() ? 0 : 1);
  sets_.adopt(pid);
  flushing_.push_back({&from, pid, Clock::now() + request.deadline});
}

void Server::handle(Connection& from, const Rebind& request) {
  std::string ids;
  for (const auto& connection : connections_) {
    const ExecSession* exec = connection->exec();
    if (exec != nullptr && !exec->processes_gone()) ids += (ids.empty() ? "" : ", ") + exec->id();
  }
  if (!ids.empty()) return from.answer(refusal_line(kErrorConflict, "execs are running: " + ids));
  auto bound = machine_.rebind(request.epoch);
  from.answer(bound ? std::string(kOk) : refusal_line(kErrorIo, bound.error().text));
}

void Server::handle(Connection& from, const PowerOff&) {
  for (const auto& connection : connections_) {
    if (connection->exec() != nullptr && !connection->exec()->ended()) connection->exec()->abandon();
  }
  from.answer(std::string(kOk));
  power_off_asker_ = &from;
  power_off_at_ = Clock::now() + kLinger;
}

void Server::answer_waiting(Clock::time_point now) {
  std::erase_if(waiting_, [&](const Waiting& wait) {
    if (live_exec(wait.id) != nullptr) return false;
    wait.asker->answer(std::string(kOk));
    return true;
  });
  std::erase_if(flushing_, [&](const Flushing& flush) {
    if (now < flush.deadline) return false;
    ::kill(flush.pid, SIGKILL);
    flush.asker->answer("{\"ok\":true,\"flushed\":false}\n");
    return true;
  });
}

void Server::drop_done() {
  std::erase_if(connections_, [&](const std::unique_ptr<Connection>& connection) {
    if (connection.get() == power_off_asker_) {
      // The host takes the answer and closes; only then is it certain that the answer left the guest.
      if (!connection->peer_gone()) return false;
      power_off_asker_ = nullptr;
    }
    const bool idle = power_off_at_ && connection->exec() == nullptr;
    if (!idle && !connection->done()) return false;
    std::erase_if(waiting_, [&](const Waiting& wait) { return wait.asker == connection.get(); });
    std::erase_if(flushing_, [&](const Flushing& flush) { return flush.asker == connection.get(); });
    return true;
  });
}

}  // namespace turnbox::guest
