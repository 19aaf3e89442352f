#include "broker/demand/sandbox.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "broker/exec/guest.h"
#include "vmm/domain/kernel_args.h"
#include "vmm/domain/leftover.h"
#include "vmm/sys/socket.h"

namespace turnbox::demand {
namespace {

using std::chrono::milliseconds;
using sys::ErrorKind;

constexpr int kFirst = 3;                  // first descriptor number handed to a daemon
constexpr milliseconds kDaemonEnd{5'000};  // a daemon whose socket closed ends by itself in this time
constexpr milliseconds kMachineStart{30'000};
constexpr milliseconds kMachineReason{2'000};  // libvirt tells a machine's end a moment after its sockets do
constexpr size_t kConsoleKept = 80;            // lines looked at
constexpr size_t kConsoleLines = 12;           // lines shown

// What a daemon needs of our environment: nothing but the log level.
std::vector<std::string> daemon_env() {
  std::vector<std::string> env;
  for (const char* name : {"TURNBOX_LOG", "ASAN_OPTIONS", "UBSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) env.push_back(std::string(name) + "=" + value);
  }
  return env;
}

void add_user(std::vector<std::string>& argv, uid_t uid) {
  for (const char* option : {"--uid", "--gid"}) {
    argv.emplace_back(option);
    argv.push_back(std::to_string(uid));
  }
}

// QEMU's group: the one that may use /dev/kvm where that is what it takes, else a group of its own.
gid_t qemu_group(domain::Tier tier, const UserSlot& users) {
  return domain::kvm_group_for(tier, domain::probe_hardware()).value_or(users.qemu());
}

// The lines from a kernel panic on, where there is one; else the last ones.
std::string telling_lines(const std::string& console) {
  const size_t panic = console.find("Kernel panic");
  size_t from = panic == std::string::npos ? console.size() : console.rfind('\n', panic) + 1;
  if (panic == std::string::npos) {
    for (size_t lines = 0; from > 0 && lines <= kConsoleLines; --from)
      lines += console[from - 1] == '\n' ? 1 : 0;
    if (from > 0) ++from;
    return console.substr(from);
  }
  size_t end = from;
  for (size_t lines = 0; end < console.size() && lines < kConsoleLines; ++end)
    lines += console[end] == '\n' ? 1 : 0;
  return console.substr(from, end - from);
}

// QEMU's own user opens the image's files by their paths.
sys::Status check_reachable(const std::string& directory) {
  for (std::string at = directory; !at.empty(); at.resize(at.find_last_of('/'))) {
    struct stat st;
    if (::stat(at.c_str(), &st) < 0) return sys::fail_errno("cannot reach " + at);
    if ((st.st_mode & S_IXOTH) != 0) continue;
    return sys::fail(ErrorKind::invalid,
                     "the machine's own user cannot reach the image in " + directory + ", since " + at +
                         " is closed to others; chmod o+x it, or choose another --state DIR");
  }
  return {};
}

std::string how(const sys::Exit& exit) {
  return exit.signalled ? "was killed by signal " + std::to_string(exit.code)
                        : "ended with status " + std::to_string(exit.code);
}

}  // namespace

Sandbox::Sandbox(const Places& places, SandboxSpec spec, RuntimeDir dir, std::optional<UserSlot> users)
    : places_(places),
      spec_(std::move(spec)),
      dir_(std::move(dir)),
      users_(std::move(users)),
      vsock_path_(dir_.file(kVsockSocket)),
      trouble_(::epoll_create1(EPOLL_CLOEXEC)),
      started_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

sys::Result<std::unique_ptr<Sandbox>> Sandbox::create(
    const Places& places, const SandboxSpec& spec,
    const std::function<sys::Status(const std::string& runtime_dir)>& before_processes) {
  TRY_ASSIGN(std::optional<UserSlot> users, UserSlot::take(places.slots));
  // Whatever a killed owner's guest hid from the look at command lines: nobody else has these users.
  if (users) {
    for (const uid_t uid : {users->fsd(), users->vsockd(), users->qemu()})
      TRY(domain::kill_processes_of(uid));
  }
  TRY_ASSIGN(RuntimeDir dir,
             RuntimeDir::make(places.runtime, spec.id, users ? qemu_group(spec.tier, *users) : 0));
  std::unique_ptr<Sandbox> sandbox(new Sandbox(places, spec, std::move(dir), std::move(users)));
  if (!sandbox->trouble_ || !sandbox->started_) return sys::fail_errno("cannot watch a sandbox");
  if (sandbox->users_) TRY(check_reachable(spec.image.directory));
  TRY(before_processes(sandbox->runtime_dir()));
  TRY(sandbox->start_fsd());
  TRY(sandbox->start_vsockd());
  return sandbox;
}

Sandbox::~Sandbox() {
  (void)end();
}

// A listening socket that only QEMU's user may connect to.
sys::Result<sys::Fd> Sandbox::device_socket(const std::string& name) {
  const std::string path = dir_.file(name);
  TRY_ASSIGN(sys::Fd listener, sys::listen_unix(path, 0600));
  if (users_ && ::chown(path.c_str(), users_->qemu(), users_->qemu()) < 0) {
    return sys::fail_errno("cannot give " + path + " to the machine's user");
  }
  return listener;
}

sys::Status Sandbox::start_fsd() {
  TRY_ASSIGN(const sys::Fd workspace, device_socket("workspace.sock"));
  TRY_ASSIGN(const sys::Fd turn, device_socket("turn.sock"));
  TRY_ASSIGN(auto control, sys::socket_pair(SOCK_STREAM));
  TRY_ASSIGN(const sys::Fd operators, sys::listen_unix(dir_.file(kOperatorsSocket), 0600));
  TRY_ASSIGN(const std::string program, sys::sibling_program("turnbox-fsd"));
  std::vector<std::string> argv = {"turnbox-fsd", "--workspace-fd",     "3", "--turn-fd", "4", "--control-fd",
                                   "5",           "--control-listener", "6"};
  argv.insert(argv.end(), {"--peer-uid", std::to_string(users_ ? users_->qemu() : ::geteuid())});
  argv.insert(argv.end(), {"--control-uid", std::to_string(::geteuid())});
  if (users_) add_user(argv, users_->fsd());
  TRY_ASSIGN(fsd_, sys::Process::spawn({.program = program,
                                        .argv = std::move(argv),
                                        .env = daemon_env(),
                                        .fds = {{workspace.get(), kFirst},
                                                {turn.get(), kFirst + 1},
                                                {control.second.get(), kFirst + 2},
                                                {operators.get(), kFirst + 3}}}));
  files_.emplace(std::move(control.first));
  return watch(fsd_.pidfd());
}

sys::Status Sandbox::start_vsockd() {
  TRY_ASSIGN(const sys::Fd device, device_socket("vsock-device.sock"));
  TRY_ASSIGN(const sys::Fd connect, sys::listen_unix(vsock_path_, 0600));
  TRY_ASSIGN(auto dial, sys::socket_pair(SOCK_SEQPACKET));
  TRY_ASSIGN(const std::string program, sys::sibling_program("turnbox-vsockd"));
  std::vector<std::string> argv = {
      "turnbox-vsockd", "--device-fd", "3", "--connect-fd", "4", "--dial-fd", "5"};
  argv.insert(argv.end(), {"--peer-uid", std::to_string(users_ ? users_->qemu() : ::geteuid())});
  argv.insert(argv.end(), {"--connect-uid", std::to_string(::geteuid())});
  if (users_) add_user(argv, users_->vsockd());
  TRY_ASSIGN(
      vsockd_,
      sys::Process::spawn(
          {.program = program,
           .argv = std::move(argv),
           .env = daemon_env(),
           .fds = {{device.get(), kFirst}, {connect.get(), kFirst + 1}, {dial.second.get(), kFirst + 2}}}));
  dial_ = std::move(dial.first);
  return watch(vsockd_.pidfd());
}

sys::Status Sandbox::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(trouble_.get(), EPOLL_CTL_ADD, fd, &event) < 0)
    return sys::fail_errno("cannot watch a process");
  return {};
}

void Sandbox::launch() {
  starter_ = std::thread([this] {
    start_status_ = start_machine();
    const uint64_t one = 1;
    (void)!::write(started_.get(), &one, sizeof one);
  });
}

sys::Status Sandbox::start_machine() {
  const auto qemu = users_ ? std::optional(domain::QemuUser{users_->qemu(), qemu_group(spec_.tier, *users_)})
                           : std::nullopt;
  auto connection = spec_.connect.empty()
                        ? domain::Connection::open_embedded({.root = dir_.file("v"),
                                                             .cache_dir = places_.state + "/cache/libvirt",
                                                             .tier = spec_.tier,
                                                             .user = qemu})
                        : domain::Connection::open(spec_.connect);
  if (!connection) return tl::make_unexpected(std::move(connection).error());
  connection_ = std::move(*connection);
  domain::KernelArgs args{
      .tier = spec_.tier, .init = image::init_words(1), .extra = spec_.image.kernel_words};
  if (spec_.tier == domain::Tier::emulated) args.tsc_khz = domain::host_tsc_khz();
  TRY_ASSIGN(domain_, domain::Domain::create(*connection_, {.name = spec_.id,
                                                            .tier = spec_.tier,
                                                            .memory_mib = spec_.memory_mib,
                                                            .vcpus = spec_.vcpus,
                                                            .kernel = spec_.image.kernel_path(),
                                                            .initramfs = spec_.image.initramfs_path(),
                                                            .cmdline = domain::kernel_command_line(args),
                                                            .root_image = spec_.image.root_path(),
                                                            .workspace_socket = dir_.file("workspace.sock"),
                                                            .turn_socket = dir_.file("turn.sock"),
                                                            .vsock_socket = dir_.file("vsock-device.sock"),
                                                            .console_socket = dir_.file("console.sock"),
                                                            .qemu_user = qemu}));
  starting_ = domain_.get();
  const auto started = domain_->start(kMachineStart);
  starting_ = nullptr;
  TRY(started);
  return watch(domain_->ended_fd());
}

sys::Status Sandbox::join_starter() {
  if (starter_.joinable()) starter_.join();
  return start_status_;
}

sys::Status Sandbox::await_guest(milliseconds deadline, const std::function<bool()>& cancelled) {
  const auto until = std::chrono::steady_clock::now() + deadline;
  auto stop = [&] { return cancelled() || trouble().has_value(); };
  // The starter is not interrupted: it has a deadline of its own, and a daemon's death makes it fail.
  while (true) {
    pollfd done[2] = {{started_.get(), POLLIN, 0}, {trouble_.get(), POLLIN, 0}};
    ::poll(done, 2, 100);
    if ((done[0].revents & POLLIN) != 0) break;
    if (std::chrono::steady_clock::now() > until || stop()) break;
  }
  if (stop() || std::chrono::steady_clock::now() > until) {
    if (domain::Domain* starting = starting_) (void)starting->kill();
  }
  auto started = join_starter();
  if (cancelled()) return sys::fail(ErrorKind::conflict, "cancelled while the guest booted");
  // A machine that does not start takes vsockd along, which ends when its front end goes: the machine has the
  // reason.
  if (!started && !daemon_killed()) return boot_error("the machine did not start: " + started.error().text);
  if (auto what = trouble()) return boot_error(*what);
  auto guest = exec::await_guest(vsock_path_, until, stop);
  if (guest) return {};
  if (cancelled()) return sys::fail(ErrorKind::conflict, "cancelled while the guest booted");
  if (auto what = trouble()) return boot_error(*what);
  return boot_error("the guest did not answer within " + std::to_string(deadline.count() / 1000) + " s (" +
                    guest.error().text + ")");
}

tl::unexpected<sys::Error> Sandbox::boot_error(std::string text) const {
  const std::string console = domain_ ? telling_lines(domain_->console_tail(kConsoleKept)) : "";
  if (!console.empty()) {
    text += "; the console's last lines:\n" + console;
  } else if (domain_) {
    text += "; the guest printed nothing; try a larger --memory, or turnbox image verify " + spec_.image.name;
  }
  while (text.ends_with("\n")) text.pop_back();
  return sys::fail(ErrorKind::unavailable, std::move(text));
}

bool Sandbox::daemon_killed() {
  for (sys::Process* daemon : {&fsd_, &vsockd_}) {
    const auto exit = daemon->poll();
    if (exit && (exit->signalled || exit->code != 0)) return true;
  }
  return false;
}

std::optional<std::string> Sandbox::machine_trouble() {
  pollfd done{started_.get(), POLLIN, 0};
  if (machine_ended_ || ::poll(&done, 1, 0) != 1 || !domain_) return std::nullopt;
  const auto reason = domain_->ended();
  if (!reason) return std::nullopt;
  switch (*reason) {
    case domain::EndReason::powered_off:
      return "the guest switched itself off";
    case domain::EndReason::reset:
      return "the guest's kernel panicked or reset itself";
    case domain::EndReason::destroyed:
      return "the machine was destroyed from outside";
    case domain::EndReason::qemu_died:
      return "QEMU died";
  }
  return "the machine ended";
}

std::optional<std::string> Sandbox::trouble() {
  // A daemon that ended by itself lost its front end, and then the machine has the reason.
  const bool killed = daemon_killed();
  if (!killed) {
    if (domain_ && vsockd_.poll()) (void)domain_->wait_ended(kMachineReason);
    if (auto what = machine_trouble()) return what;
  }
  if (const auto exit = fsd_.poll()) return "turnbox-fsd " + how(*exit);
  if (const auto exit = vsockd_.poll(); exit && (killed || !machine_ended_))
    return "turnbox-vsockd " + how(*exit);
  return std::nullopt;
}

sys::Status Sandbox::end_machine() {
  if (machine_ended_) return {};
  machine_ended_ = true;
  (void)join_starter();
  sys::Status ended;
  if (domain_) ended = domain_->destroy();
  return ended;
}

sys::Status Sandbox::end() {
  sys::Status first = end_machine();
  domain_.reset();
  connection_.reset();
  // Closing their sockets ends the daemons.
  files_.reset();
  dial_.reset();
  for (sys::Process* daemon : {&fsd_, &vsockd_}) {
    if (*daemon && !daemon->wait_for(kDaemonEnd)) *daemon = sys::Process();
  }
  if (auto removed = dir_.remove(); !removed && first) first = removed;
  users_.reset();
  return first;
}

}  // namespace turnbox::demand
