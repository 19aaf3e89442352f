// Boots one machine under its own embed root, says what happens on stdout, one word a line with milliseconds
// since the start, and ends it when stdin closes. The hands of risk_libvirt.py; not installed.
//   domain_probe ROOT CACHE KERNEL INITRAMFS [--uid N] [--args WORDS] [--memory MIB] [--no-console]
//                [--fs SOCKET] [--deadline MS] [--hardware] [--connect URI]
//   domain_probe clean DIR     ends QEMU below DIR, as the next command does after a killed owner; says how
//   many
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "vmm/domain/domain.h"
#include "vmm/domain/kernel_args.h"
#include "vmm/domain/leftover.h"

using namespace turnbox;

namespace {

using Clock = std::chrono::steady_clock;
const auto kStart = Clock::now();

void say(const std::string& what) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - kStart).count();
  std::printf("%lld %s\n", static_cast<long long>(ms), what.c_str());
  std::fflush(stdout);
}

struct Options {
  domain::EmbedOptions embed;
  domain::DomainSpec spec;
  std::string args;
  std::string connect;  // empty: embedded
  long deadline_ms = 30'000;
};

int run(const Options& options) {
  say("begin");
  auto connection = options.connect.empty() ? domain::Connection::open_embedded(options.embed)
                                            : domain::Connection::open(options.connect);
  if (!connection) {
    say("failed " + connection.error().text);
    return 1;
  }
  say("connected");
  auto machine = domain::Domain::create(**connection, options.spec);
  if (!machine) {
    say("failed " + machine.error().text);
    return 1;
  }
  say("starting");
  if (auto started = (*machine)->start(std::chrono::milliseconds(options.deadline_ms)); !started) {
    say("failed " + started.error().text);
    return 1;
  }
  say("started " + std::to_string((*machine)->qemu_pid()));
  bool up = false;
  pollfd waits[2] = {{STDIN_FILENO, POLLIN, 0}, {(*machine)->ended_fd(), POLLIN, 0}};
  while (::poll(waits, 2, 20) >= 0 && waits[0].revents == 0 && waits[1].revents == 0) {
    if (!up && (*machine)->console_tail(50).find("INIT UP") != std::string::npos) {
      up = true;
      say("up");
    }
  }
  if (auto ended = (*machine)->ended()) {
    say("ended " + std::string(domain::name_of(*ended)));
    std::printf("%s\n", (*machine)->console_tail(3).c_str());
  } else {
    say("destroying");
    if (auto destroyed = (*machine)->destroy(); !destroyed) say("failed " + destroyed.error().text);
    say("destroyed");
  }
  machine->reset();
  connection->reset();
  say("closed");
  return 0;
}

int clean(const std::string& dir) {
  auto killed = domain::kill_qemu_below(dir);
  if (!killed) std::printf("failed %s\n", killed.error().text.c_str());
  if (killed) std::printf("%zu\n", *killed);
  return killed ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "clean") == 0) return clean(argv[2]);
  if (argc < 5) return 2;
  Options options;
  options.embed.root = argv[1];
  options.embed.cache_dir = std::strcmp(argv[2], "-") == 0 ? "" : argv[2];
  options.spec.name = "probe";
  options.spec.kernel = argv[3];
  options.spec.initramfs = argv[4];
  options.spec.memory_mib = 256;
  options.spec.console_socket = options.embed.root + ".console";
  for (int i = 5; i < argc; ++i) {
    const std::string option = argv[i];
    auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (option == "--uid") {
      const auto id = static_cast<uid_t>(std::stoul(value()));
      options.embed.user = domain::QemuUser{id, id};
      options.spec.qemu_user = options.embed.user;
    } else if (option == "--args") {
      options.args = value();
    } else if (option == "--memory") {
      options.spec.memory_mib = std::stoull(value());
    } else if (option == "--no-console") {
      options.spec.console_socket.clear();
    } else if (option == "--fs") {
      options.spec.workspace_socket = value();
    } else if (option == "--deadline") {
      options.deadline_ms = std::stol(value());
    } else if (option == "--connect") {
      options.connect = value();
    } else if (option == "--hardware") {
      options.spec.tier = options.embed.tier = domain::Tier::hardware;
    } else {
      return 2;
    }
  }
  domain::KernelArgs args;
  args.tsc_khz = domain::host_tsc_khz();
  if (!options.args.empty()) args.extra.push_back(options.args);
  options.spec.cmdline = domain::kernel_command_line(args);
  return run(options);
}
