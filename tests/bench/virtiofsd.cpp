#include "tests/bench/virtiofsd.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "tests/support/guest_memory.h"
#include "vmm/sys/socket.h"

namespace turnbox::bench {
namespace {

constexpr const char* kPrograms[] = {"/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd-c"};

std::string make_directory(const char* pattern) {
  std::string path = pattern;
  if (::mkdtemp(path.data()) == nullptr) support::give_up("cannot make " + path);
  return path;
}

}  // namespace

std::string Virtiofsd::program() {
  for (const char* path : kPrograms) {
    if (::access(path, X_OK) == 0) return path;
  }
  return {};
}

Virtiofsd::Virtiofsd() : directory_(make_directory("/dev/shm/turnbox-bench-XXXXXX")) {
  std::filesystem::create_directory(directory_ + "/served");
  socket_ = directory_ + "/socket";
  auto listener = sys::listen_unix(socket_, 0600);
  if (!listener) support::give_up(listener.error().text);
  const sys::Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  auto spawned = sys::Process::spawn(
      {.program = program(),
       .argv = {program(), "--fd=3", "-o", "source=" + directory_ + "/served", "-o", "sandbox=chroot", "-o",
                "cache=always", "--thread-pool-size=0", "-o", "log_level=err"},
       .env = {},
       .fds = {{null.get(), 1}, {null.get(), 2}, {listener->get(), 3}}});
  if (!spawned) support::give_up(spawned.error().text);
  process_ = std::move(*spawned);
}

Virtiofsd::~Virtiofsd() {
  if (!process_.poll()) (void)process_.signal(SIGKILL);
  (void)process_.wait_for(std::chrono::seconds(5));
  std::filesystem::remove_all(directory_);
}

}  // namespace turnbox::bench
