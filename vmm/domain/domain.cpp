#include "vmm/domain/domain.h"

#include <libvirt/libvirt-qemu.h>
#include <libvirt/libvirt.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "vmm/domain/leftover.h"

namespace turnbox::domain {

using sys::ErrorKind;
using sys::Status;

std::string_view name_of(EndReason reason) {
  switch (reason) {
    case EndReason::powered_off:
      return "powered off";
    case EndReason::reset:
      return "reset";
    case EndReason::destroyed:
      return "destroyed";
    case EndReason::qemu_died:
      return "QEMU died";
  }
  return "unknown";
}

// What the event thread tells and others ask. Libvirt frees its callbacks' opaque pointer late, on its own
// thread, so each callback holds a share.
struct Domain::Watch {
  std::string name;
  sys::Fd ended_fd;
  std::mutex mutex;
  std::optional<EndReason> reason;  // under mutex
  bool reset_seen = false;          // under mutex
  bool destroying = false;          // under mutex

  void end(EndReason why) {
    {
      const std::lock_guard lock(mutex);
      if (reason) return;
      reason = why;
    }
    ::eventfd_write(ended_fd.get(), 1);
  }

  static void on_lifecycle(virConnectPtr, virDomainPtr domain, int event, int detail, void* opaque) noexcept {
    const auto& watch = *static_cast<std::shared_ptr<Watch>*>(opaque);
    if (watch->name != virDomainGetName(domain) || event != VIR_DOMAIN_EVENT_STOPPED) return;
    watch->end(watch->reason_for(detail));
  }

  // QEMU's own SHUTDOWN event, since libvirt's does not tell a reset from a power-off.
  static void on_shutdown(virConnectPtr, virDomainPtr domain, const char*, long long, unsigned,
                          const char* details, void* opaque) noexcept {
    const auto& watch = *static_cast<std::shared_ptr<Watch>*>(opaque);
    if (watch->name != virDomainGetName(domain) || details == nullptr) return;
    if (std::string_view(details).find("guest-reset") == std::string_view::npos) return;
    const std::lock_guard lock(watch->mutex);
    watch->reset_seen = true;
  }

  static void release(void* opaque) noexcept { delete static_cast<std::shared_ptr<Watch>*>(opaque); }

  EndReason reason_for(int detail) {
    const std::lock_guard lock(mutex);
    if (destroying) return EndReason::destroyed;
    switch (detail) {
      case VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN:
        return reset_seen ? EndReason::reset : EndReason::powered_off;
      case VIR_DOMAIN_EVENT_STOPPED_DESTROYED:
        return reset_seen ? EndReason::reset : EndReason::destroyed;
      default:
        return EndReason::qemu_died;
    }
  }
};

sys::Result<std::unique_ptr<Domain>> Domain::create(Connection& connection, const DomainSpec& spec) {
  TRY_ASSIGN(std::string xml, to_xml(spec));
  auto watch = std::make_shared<Watch>();
  watch->name = spec.name;
  watch->ended_fd = sys::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!watch->ended_fd) return sys::fail_errno("cannot create an eventfd");
  std::unique_ptr<Domain> domain(new Domain(connection, spec, std::move(xml), std::move(watch)));
  if (!spec.console_socket.empty()) {
    std::optional<uid_t> peer;
    if (spec.qemu_user) peer = spec.qemu_user->uid;
    TRY_ASSIGN(domain->console_, Console::listen(spec.console_socket, peer));
  }
  TRY(domain->register_events());
  return domain;
}

Domain::Domain(Connection& connection, DomainSpec spec, std::string xml, std::shared_ptr<Watch> watch)
    : connection_(connection), spec_(std::move(spec)), xml_(std::move(xml)), watch_(std::move(watch)) {}

Domain::~Domain() {
  (void)destroy();
  if (domain_ != nullptr) (void)forget();
  if (lifecycle_id_ >= 0) virConnectDomainEventDeregisterAny(connection_.raw(), lifecycle_id_);
  if (shutdown_id_ >= 0) virConnectDomainQemuMonitorEventDeregister(connection_.raw(), shutdown_id_);
  if (domain_ != nullptr) virDomainFree(domain_);
}

Status Domain::register_events() {
  // For all domains of the connection, since this one is not known to libvirt yet; the callbacks look at the
  // name.
  auto share = std::make_unique<std::shared_ptr<Watch>>(watch_);
  lifecycle_id_ = virConnectDomainEventRegisterAny(connection_.raw(), nullptr, VIR_DOMAIN_EVENT_ID_LIFECYCLE,
                                                   VIR_DOMAIN_EVENT_CALLBACK(&Watch::on_lifecycle),
                                                   share.get(), Watch::release);
  if (lifecycle_id_ < 0) return fail_libvirt("cannot watch the machine");
  (void)share.release();
  share = std::make_unique<std::shared_ptr<Watch>>(watch_);
  shutdown_id_ = virConnectDomainQemuMonitorEventRegister(
      connection_.raw(), nullptr, "SHUTDOWN", &Watch::on_shutdown, share.get(), Watch::release, 0);
  if (shutdown_id_ < 0) return fail_libvirt("cannot watch the machine's monitor");
  (void)share.release();
  return {};
}

Status Domain::start(std::chrono::milliseconds deadline) {
  if (domain_ != nullptr) return sys::fail(ErrorKind::conflict, "the machine was started before");
  // libvirt waits for QEMU's monitor as long as QEMU lives, so a start that takes too long is ended through
  // QEMU.
  std::mutex mutex;
  std::condition_variable done;
  bool finished = false;
  bool expired = false;
  std::thread watchdog([&] {
    std::unique_lock lock(mutex);
    if (done.wait_for(lock, deadline, [&] { return finished; })) return;
    expired = true;
    // Again and again: a QEMU that libvirt has forked and not yet executed is not there to be killed.
    do {
      (void)kill();
    } while (!done.wait_for(lock, std::chrono::milliseconds(50), [&] { return finished; }));
  });
  // The embedded driver refuses auto-destroy; there ~Connection does the same, and leftover.h after a killed
  // owner.
  const unsigned flags = connection_.embedded() ? 0 : VIR_DOMAIN_START_AUTODESTROY;
  std::optional<ReapWhile> reap;
  if (connection_.embedded()) reap.emplace();
  domain_ = virDomainCreateXML(connection_.raw(), xml_.c_str(), flags);
  auto outcome = domain_ != nullptr ? Status{} : Status(fail_libvirt("the machine does not start"));
  {
    const std::lock_guard lock(mutex);
    finished = true;
  }
  done.notify_one();
  watchdog.join();
  if (outcome && expired) {  // came up in the last moment, and was killed
    (void)forget();
    outcome = sys::fail(ErrorKind::unavailable, "");
  }
  if (!outcome && expired) {
    return sys::fail(ErrorKind::unavailable,
                     "QEMU was not up after " + std::to_string(deadline.count()) +
                         " ms and was ended; the host may be overloaded, or a device process "
                         "does not answer");
  }
  if (!outcome) return outcome;
  return learn_pid();
}

Status Domain::learn_pid() {
  const std::string path = connection_.embedded() ? connection_.root()->pid_file(spec_.name)
                                                  : "/run/libvirt/qemu/" + spec_.name + ".pid";
  auto text = sys::read_file(path, 64);
  if (!text && !connection_.embedded()) return {};  // libvirtd's own; not ours to read without root
  if (text) {
    (void)std::from_chars(text->data(), text->data() + text->size(), pid_);
    pidfd_ = sys::Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  }
  if (!pidfd_) {
    pid_ = 0;  // ended already, which ended() tells
    return {};
  }
  return connection_.embedded() ? reap_at_end() : Status{};
}

// QEMU is our child once libvirt has detached it (Connection), so its end is waited for on the event thread.
Status Domain::reap_at_end() {
  struct Reap {
    pid_t pid;
    sys::Fd pidfd;
  };
  TRY_ASSIGN(sys::Fd pidfd, sys::duplicate(pidfd_.get()));
  const int watched = pidfd.get();
  auto reap = std::make_unique<Reap>(Reap{pid_, std::move(pidfd)});
  const int watch = virEventAddHandle(
      watched, VIR_EVENT_HANDLE_READABLE,
      [](int self, int, int, void* opaque) {
        ::waitpid(static_cast<Reap*>(opaque)->pid, nullptr, WNOHANG);
        virEventRemoveHandle(self);
      },
      reap.get(), [](void* opaque) { delete static_cast<Reap*>(opaque); });
  if (watch < 0) return fail_libvirt("cannot watch QEMU's process");
  (void)reap.release();
  return {};
}

Status Domain::destroy() {
  if (domain_ == nullptr) return {};
  {
    const std::lock_guard lock(watch_->mutex);
    if (watch_->reason) return {};
    watch_->destroying = true;
  }
  TRY(connection_.embedded() ? kill_and_reap() : forget());
  watch_->end(EndReason::destroyed);
  return {};
}

// A disposable guest has nothing to say at its end, so QEMU gets no SIGTERM first. libvirt sees its monitor
// close.
Status Domain::kill_and_reap() {
  if (!pidfd_) return {};
  if (::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0) < 0 && errno != ESRCH) {
    return sys::fail_errno("cannot end QEMU");
  }
  pollfd wait{pidfd_.get(), POLLIN, 0};
  int got = 0;
  do {
    got = ::poll(&wait, 1, 10'000);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return sys::fail(ErrorKind::unavailable, "QEMU does not end");
  (void)reap_dead_qemu();
  return {};
}

Status Domain::forget() {
  if (virDomainDestroy(domain_) == 0) return {};
  auto failed = fail_libvirt("the machine does not end");
  // Ended on its own meanwhile, or forgotten by libvirt.
  const bool gone = failed.value().kind == ErrorKind::conflict || failed.value().kind == ErrorKind::not_found;
  if (gone) return {};
  return failed;
}

Status Domain::kill() {
  if (!connection_.embedded()) {
    return sys::fail(ErrorKind::conflict, "QEMU belongs to libvirtd at " + connection_.uri());
  }
  TRY(kill_qemu_named(connection_.root()->path(), spec_.name));
  return {};
}

int Domain::ended_fd() const {
  return watch_->ended_fd.get();
}

std::optional<EndReason> Domain::ended() const {
  const std::lock_guard lock(watch_->mutex);
  return watch_->reason;
}

std::optional<EndReason> Domain::wait_ended(std::chrono::milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    if (auto reason = ended()) return reason;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())
            .count();
    if (left <= 0) return std::nullopt;
    pollfd wait{ended_fd(), POLLIN, 0};
    ::poll(&wait, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
  }
}

std::string Domain::console_tail(size_t lines) const {
  return console_ ? console_->tail(lines) : std::string();
}

std::string Domain::qemu_log_tail(size_t lines) const {
  if (!connection_.embedded()) return {};
  auto text = sys::read_file(connection_.root()->qemu_log(spec_.name), 4 << 20);
  return text ? printable_tail(*text, lines) : std::string();
}

}  // namespace turnbox::domain
