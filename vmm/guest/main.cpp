// turnbox-init: PID 1 of the guest. Boots from the initramfs, then serves the host's exec sessions until
// power-off.
#include <signal.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "vmm/guest/boot.h"
#include "vmm/guest/server.h"

namespace {

using namespace turnbox;

void say(const std::string& text) {
  const std::string line = "turnbox-init: " + text + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

sys::Status boot_and_serve() {
  TRY(guest::mount_early());
  TRY_ASSIGN(const guest::BootOptions options, guest::read_command_line());
  TRY(guest::load_modules());
  // Before the mounts: a host that connects now waits in the backlog instead of asking again and again.
  TRY_ASSIGN(sys::Fd listener, guest::listen_for_host());
  TRY(guest::mount_root(options));
  TRY(guest::finish_machine(options));
  guest::ProcessSets sets("exec-");
  if (sets.kind() != guest::ProcessSets::Kind::cgroup)
    say("no cgroup v2: execs are told apart by parentage only");
  guest::Machine machine{.set_clock = guest::set_clock,
                         .rebind = guest::bind_workspace,
                         .accept = guest::accept_host,
                         .flush = guest::flush_devices};
  return guest::Server(std::move(machine), sets, std::move(listener)).run();
}

}  // namespace

int main() {
  if (::getpid() != 1) {
    say("runs as PID 1 of a turnbox guest only");
    return 1;
  }
  ::umask(022);
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  if (auto served = boot_and_serve(); !served) say(served.error().text + "; powering off");
  ::reboot(RB_POWER_OFF);
  say("cannot power off");
  while (true) ::pause();
}
