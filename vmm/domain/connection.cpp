#include "vmm/domain/connection.h"

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <utility>

#include "vmm/domain/leftover.h"

namespace turnbox::domain {
namespace {

using sys::ErrorKind;
using sys::Status;

std::atomic<bool> connection_lives{false};
std::atomic<bool> embedded_root_used{
    false};  // libvirt keeps the first root's path for the life of the process

constexpr const char* kEmulator = "/usr/bin/qemu-system-x86_64";

ErrorKind kind_of(int code) {
  switch (code) {
    case VIR_ERR_NO_DOMAIN:
      return ErrorKind::not_found;
    case VIR_ERR_OPERATION_INVALID:
    case VIR_ERR_DOM_EXIST:
      return ErrorKind::conflict;
    case VIR_ERR_AUTH_FAILED:
    case VIR_ERR_AUTH_CANCELLED:
    case VIR_ERR_AUTH_UNAVAILABLE:
    case VIR_ERR_ACCESS_DENIED:
      return ErrorKind::refused;
    case VIR_ERR_XML_ERROR:
    case VIR_ERR_CONFIG_UNSUPPORTED:
      return ErrorKind::invalid;
    default:
      return ErrorKind::unavailable;
  }
}

// Once per process, before the first other call of libvirt.
Status initialise(const std::string& log_file) {
  static std::once_flag once;
  static bool good = false;
  std::call_once(once, [&] {
    // Read by virInitialize. Level 3 is «warning»; without a root nothing is worth keeping.
    const std::string outputs = log_file.empty() ? "4:file:/dev/null" : "3:file:" + log_file;
    const bool ours = std::getenv("LIBVIRT_LOG_OUTPUTS") == nullptr;
    if (ours) ::setenv("LIBVIRT_LOG_OUTPUTS", outputs.c_str(), 1);
    virSetErrorFunc(nullptr, [](void*, virErrorPtr) {});
    good = virInitialize() == 0 && virEventRegisterDefaultImpl() == 0;
    if (ours) ::unsetenv("LIBVIRT_LOG_OUTPUTS");
  });
  if (!good) return sys::fail(ErrorKind::unavailable, "libvirt cannot be initialised; reinstall libvirt0");
  return {};
}

// libvirt keeps a little state outside of every root, whatever the URI says: as root below /run/libvirt,
// which it would make 0700 and so shut a later libvirtd's socket from its users; otherwise below
// $XDG_RUNTIME_DIR or ~/.cache, which need not be there. While this object lives that is the embed root.
class OutsideState {
 public:
  explicit OutsideState(const std::string& root) {
    if (::geteuid() == 0) {
      (void)::mkdir("/run/libvirt", 0755);
      return;
    }
    if (const char* now = std::getenv(kVariable)) before_ = now;
    set_ = ::setenv(kVariable, (root + "/run").c_str(), 1) == 0;
  }
  ~OutsideState() {
    if (!set_) return;
    if (before_) {
      ::setenv(kVariable, before_->c_str(), 1);
    } else {
      ::unsetenv(kVariable);
    }
  }
  OutsideState(const OutsideState&) = delete;
  OutsideState& operator=(const OutsideState&) = delete;

 private:
  static constexpr const char* kVariable = "XDG_RUNTIME_DIR";
  std::optional<std::string> before_;
  bool set_ = false;
};

// As root the driver looks this user up before it reads its configuration, and does not start without.
Status check_libvirt_user() {
  if (::geteuid() != 0 || ::getpwnam("libvirt-qemu") != nullptr) return {};
  return sys::fail(
      ErrorKind::unavailable,
      "libvirt's QEMU driver needs the system user libvirt-qemu, which this host has not; make it with "
      "`adduser --system --group --no-create-home libvirt-qemu`");
}

// libvirt wraps QEMU's last words: «internal error: process exited while connecting to monitor: DATE QEMU:
// words». The words say what is wrong.
std::string unwrapped(std::string_view message) {
  constexpr std::string_view kInternal = "internal error: ";
  constexpr std::string_view kMonitor = "monitor: ";
  constexpr std::string_view kProgram = "qemu-system-x86_64: ";
  const size_t monitor = message.find(kMonitor);
  if (!message.starts_with(kInternal) || monitor == message.npos) return std::string(message);
  message.remove_prefix(monitor + kMonitor.size());
  const size_t program = message.find(kProgram);
  // Before the program's name there is a date and nothing else.
  if (program != message.npos &&
      message.substr(0, program).find_first_not_of("0123456789-:.TZ ") == message.npos) {
    message.remove_prefix(program + kProgram.size());
  }
  return "QEMU ended: " + std::string(message);
}

std::string dotted(unsigned long version) {
  return std::to_string(version / 1'000'000) + "." + std::to_string(version / 1000 % 1000) + "." +
         std::to_string(version % 1000);
}

}  // namespace

tl::unexpected<sys::Error> fail_libvirt(std::string_view what) {
  const virError* last = virGetLastError();
  std::string text(what);
  text += ": ";
  text += last != nullptr && last->message != nullptr ? unwrapped(last->message) : "libvirt gave no reason";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';  // QEMU's own words, on several lines
  }
  return sys::fail(last != nullptr ? kind_of(last->code) : ErrorKind::unavailable, std::move(text));
}

sys::Result<std::unique_ptr<Connection>> Connection::open_embedded(const EmbedOptions& options) {
  TRY(check_libvirt_user());
  if (connection_lives.exchange(true)) {
    return sys::fail(ErrorKind::conflict, "this process has a libvirt connection already");
  }
  if (embedded_root_used) {
    connection_lives = false;
    return sys::fail(ErrorKind::conflict,
                     "this process has had its one embedded libvirt; start another process");
  }
  auto root = EmbedRoot::make(options);
  if (!root) {
    connection_lives = false;
    return tl::make_unexpected(std::move(root).error());
  }
  const std::string uri = root->uri();
  std::unique_ptr<Connection> connection(new Connection(uri, std::move(*root)));
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) return sys::fail_errno("cannot adopt QEMU's process");
  const ReapWhile reap;
  TRY(connection->connect());
  TRY(connection->check_microvm(options.tier));
  connection->root_->save_cache();
  return connection;
}

sys::Result<std::unique_ptr<Connection>> Connection::open(const std::string& uri) {
  if (connection_lives.exchange(true)) {
    return sys::fail(ErrorKind::conflict, "this process has a libvirt connection already");
  }
  std::unique_ptr<Connection> connection(new Connection(uri, std::nullopt));
  TRY(connection->connect());
  return connection;
}

ReapWhile::ReapWhile() {
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!done_.wait_for(lock, std::chrono::milliseconds(10), [this] { return finished_; })) {
      (void)reap_dead_qemu();
    }
  });
}

ReapWhile::~ReapWhile() {
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  done_.notify_one();
  thread_.join();
}

Connection::Connection(std::string uri, std::optional<EmbedRoot> root)
    : uri_(std::move(uri)), root_(std::move(root)) {}

Status Connection::connect() {
  TRY(initialise(root_ ? root_->path() + "/log/libvirt.log" : std::string()));
  loop_ = std::thread([this] { run_loop(); });
  std::optional<OutsideState> outside;
  if (root_) {
    outside.emplace(root_->path());
    embedded_root_used = true;
  }
  conn_ = virConnectOpen(uri_.c_str());
  if (conn_ == nullptr) return fail_libvirt("cannot open libvirt at " + uri_);
  return {};
}

void Connection::run_loop() {
  // Signals are main's.
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  while (!stop_) {
    if (virEventRunDefaultImpl() < 0) std::this_thread::yield();
  }
}

Connection::~Connection() {
  // A QEMU that its Domain did not end (a failed start, a bug) must not outlive the driver that knows it.
  if (root_) (void)kill_qemu_below(root_->path());
  if (conn_ != nullptr) virConnectClose(conn_);
  if (loop_.joinable()) {
    stop_ = true;
    const int wake = virEventAddTimeout(
        0, [](int, void*) {}, nullptr, nullptr);
    loop_.join();
    if (wake >= 0) virEventRemoveTimeout(wake);
  }
  if (root_) (void)reap_dead_qemu();
  root_.reset();
  connection_lives = false;
}

sys::Result<std::string> Connection::libvirt_version() const {
  unsigned long version = 0;
  if (virConnectGetLibVersion(conn_, &version) < 0) return fail_libvirt("cannot ask libvirt's version");
  return dotted(version);
}

sys::Result<std::string> Connection::qemu_version() const {
  // Makes libvirt look at every emulator that is installed.
  std::optional<ReapWhile> reap;
  if (embedded()) reap.emplace();
  unsigned long version = 0;
  if (virConnectGetVersion(conn_, &version) < 0) return fail_libvirt("cannot ask QEMU's version");
  return dotted(version);
}

Status Connection::check_microvm(Tier tier) const {
  char* xml = virConnectGetDomainCapabilities(conn_, kEmulator, "x86_64", "microvm",
                                              tier == Tier::hardware ? "kvm" : "qemu", 0);
  if (xml == nullptr) {
    return fail_libvirt("libvirt cannot run QEMU's machine microvm; install qemu-system-x86 7.2 or newer");
  }
  ::free(xml);
  return {};
}

}  // namespace turnbox::domain
