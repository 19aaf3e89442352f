#include "broker/demand/operator_mount.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>

#include "vmm/sys/socket.h"

namespace turnbox::demand {

namespace {
constexpr int kPipe = 3;
constexpr size_t kMaxNumber = 64;
}  // namespace

sys::Result<OperatorMount> OperatorMount::make(const std::string& dir, bool write,
                                               const std::string& guard_word) {
  std::error_code failed;
  const std::string path =
      std::filesystem::canonical(dir, failed).string();  // a bad one is told by FuseMount
  const std::string& at = failed ? dir : path;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) return sys::fail_errno("cannot make a pipe");
  sys::Fd read_end(ends[0]), write_end(ends[1]);
  TRY_ASSIGN(sys::Process guard,
             sys::Process::spawn({.program = "/proc/self/exe",
                                  .argv = {"turnbox", guard_word, at, sys::FuseMount::number_at(at)},
                                  .env = {},
                                  .fds = {{read_end.get(), kPipe}},
                                  .die_with_parent = false}));
  TRY_ASSIGN(sys::FuseMount mount, sys::FuseMount::make(dir, write));
  TRY(sys::write_full(write_end.get(), sys::as_bytes(mount.number())));
  return OperatorMount(std::move(write_end), std::move(guard), std::move(mount));
}

sys::Status OperatorMount::attach(control::Client& files, const std::string& of, bool write) {
  TRY_ASSIGN(number_, files.mount_attach(of, write, mount_.device()));
  mount_.close_device();
  return {};
}

sys::Result<MountEnd> OperatorMount::wait(control::Client& files, int stop_fd) {
  while (true) {
    std::array<pollfd, 2> waits{{{stop_fd, POLLIN, 0}, {files.fd(), POLLIN, 0}}};
    if (::poll(waits.data(), waits.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return sys::fail_errno("cannot wait for the mount's end");
    }
    if (waits[0].revents != 0) return MountEnd::asked;
    const auto gone = files.take_gone_mounts();
    if (!gone) return MountEnd::server_gone;
    if (std::find(gone->begin(), gone->end(), number_) != gone->end()) return MountEnd::unmounted;
  }
}

void OperatorMount::unmount() {
  mount_.unmount();
}

void guard_mount(int pipe, const std::string& dir, const std::string& before) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(number, SIG_IGN);
  (void)::setsid();
  (void)::chdir("/");
  std::string number;
  std::array<std::byte, kMaxNumber> piece{};
  while (true) {
    const ssize_t got = ::read(pipe, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    number.append(reinterpret_cast<const char*>(piece.data()), static_cast<size_t>(got));
    if (number.size() > kMaxNumber) return;
  }
  if (number.empty()) {
    number = sys::FuseMount::number_at(dir);
    if (number == before) return;  // there is no mount of ours
  }
  sys::FuseMount::unmount(dir, number);
}

}  // namespace turnbox::demand
