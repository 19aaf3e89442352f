// The wire server beside QEMU's C virtiofsd: the same FUSE messages from the same front end, in turns.
//
//   bench_wire [--files N] [--rounds N] [--depth N] [--json FILE]
//
// Each daemon is a process of its own on one processor, this front end on another, where there are two. At
// depth 16 the front end looks for answers before it sleeps, so servers and not wake-ups are compared; at
// depth 1 it sleeps at once, so that every message costs both sides a wake-up. Medians of the rounds; ratios
// are other / ours, except where the row says memcpy. Ends with 77 where there is no virtiofsd, with 1 if a
// message was refused.
#include <sched.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>

#include "fs/turn/sweeper.h"
#include "fs/turn/workspace.h"
#include "tests/bench/report.h"
#include "tests/bench/virtiofsd.h"
#include "tests/bench/wire_session.h"
#include "tests/support/fsd.h"

namespace turnbox::bench {
namespace {

constexpr size_t kContent = size_t{64} << 20;
constexpr size_t kSmall = 4096, kLarge = 1 << 20;

struct Settings {
  unsigned files = 4000, rounds = 9, depth = 16;
  std::string json;
};

// Nanoseconds by the figure's name, one value a round.
using Times = std::map<std::string, std::vector<double>>;

void pin(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  (void)::sched_setaffinity(0, sizeof set, &set);  // one processor only: then both share it
}

// A server with everything that leads to it.
struct Side {
  std::unique_ptr<support::FakeFrontEnd> front_end;
  std::unique_ptr<Port> port;
  std::unique_ptr<Session> session;
  Times times;

  void connect(const std::string& socket, bool handles, const std::string& path, const Settings& settings) {
    front_end = std::make_unique<support::FakeFrontEnd>(
        socket, support::FrontEndOptions{.memory = size_t{64} << 20, .queues = 2, .queue_size = 1024});
    front_end->handshake();
    port = std::make_unique<RingPort>(*front_end, settings.depth);
    session = std::make_unique<Session>(*port, handles);
    session->begin(path, kContent);
  }
  double median_of(const std::string& figure) { return median(times[figure]); }
};

// Every figure once.
void round(Session& session, const Settings& settings, Times& times) {
  for (const unsigned depth : {settings.depth, 1U}) {
    const std::string at = depth == 1 ? ", depth 1" : "";
    // At depth 1 a message takes as long as many at the other.
    const unsigned count = depth == 1 ? std::max(settings.files / 4, 1U) : settings.files;
    times["create" + at].push_back(session.create(count, depth));
    times["lookup" + at].push_back(session.lookup(depth));
    times["getattr" + at].push_back(session.getattr(depth));
    times["unlink" + at].push_back(session.unlink(depth));
    times["read of 4 KiB" + at].push_back(session.read(kSmall, count, depth));
    times["write of 4 KiB" + at].push_back(session.write(kSmall, count, depth));
  }
  times["create and close"].push_back(session.create_and_close(settings.files, settings.depth));
  session.unlink(settings.depth);
  times["read of 1 MiB"].push_back(session.read(kLarge, kContent / kLarge * 2, settings.depth));
  times["write of 1 MiB"].push_back(session.write(kLarge, kContent / kLarge * 2, settings.depth));
}

// The same bytes between memory of this process and the pages of the ring's slots, 1 MiB at a time.
void copy_round(std::vector<std::byte>& content, Port& port, Times& times) {
  const auto timed = [&](bool out) {
    const auto start = std::chrono::steady_clock::now();
    constexpr unsigned kTimes = kContent / kLarge * 2;
    for (unsigned i = 0; i < kTimes; ++i) {
      std::byte* inside = content.data() + i * kLarge % kContent;
      std::byte* pages = port.slot(i % port.slots()).pages;
      std::memcpy(out ? pages : inside, out ? inside : pages, kLarge);
    }
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() /
           kTimes;
  };
  times["read of 1 MiB"].push_back(timed(true));
  times["write of 1 MiB"].push_back(timed(false));
}

struct Row {
  const char* figure;
  double at_least;
};
constexpr Row kDeep[] = {{"create", 8},  {"unlink", 8},          {"lookup", 4},
                         {"getattr", 4}, {"read of 4 KiB", 2.5}, {"write of 4 KiB", 2.5}};

void print(Report& report, Side& ours, Side& theirs, Times& copies, const Settings& settings) {
  report.heading("depth " + std::to_string(settings.depth));
  for (const Row& row : kDeep) {
    const double a = ours.median_of(row.figure), b = theirs.median_of(row.figure);
    report.compare(row.figure, a / 1e3, "virtiofsd", b / 1e3, "us", b / a, at_least(row.at_least));
  }
  {
    const double a = ours.median_of("create and close"), b = theirs.median_of("create and close");
    report.compare("create, and RELEASE where owed", a / 1e3, "virtiofsd", b / 1e3, "us", b / a);
  }
  report.heading("depth 1: two wake-ups a message");
  for (const Row& row : kDeep) {
    const std::string figure = std::string(row.figure) + ", depth 1";
    const double a = ours.median_of(figure), b = theirs.median_of(figure);
    report.compare(row.figure, a / 1e3, "virtiofsd", b / 1e3, "us", b / a, at_least(1.2));
  }
  report.heading("64 MiB in pieces of 1 MiB, in GB/s");
  for (const char* figure : {"read of 1 MiB", "write of 1 MiB"}) {
    const double a = ours.median_of(figure), b = theirs.median_of(figure), c = median(copies[figure]);
    report.compare(figure, kLarge / a, "memcpy", kLarge / c, "GB/s", c / a, at_least(0.7));
    report.compare(figure, kLarge / a, "virtiofsd", kLarge / b, "GB/s", b / a);
  }
}

// The server without rings and sockets: what the code itself costs.
void in_process(Report& report, const Settings& settings) {
  fs::Tree tree(fs::Budget{}, [] {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return fs::Time{now.tv_sec, static_cast<uint32_t>(now.tv_nsec)};
  });
  turn::Sweeper sweeper(tree);
  const fs::ZoneId zone = tree.add_zone({fs::ZoneState::sealed, fs::ZoneUse::shared});
  auto workspace = turn::Workspace::make(tree, sweeper, zone);
  if (!workspace) support::give_up(workspace.error().text);
  virtiofs::Device device(tree, {.contract = virtiofs::Contract::workspace,
                                 .root = workspace->device_root(),
                                 .name = "fs:workspace",
                                 .now = {}});
  DirectPort port(device, settings.depth);
  Session session(port, false);
  session.begin("ws/1", kContent);
  Times times;
  for (unsigned i = 0; i < settings.rounds; ++i) round(session, settings, times);
  report.heading("the server alone, in this process");
  for (const Row& row : kDeep) report.figure(row.figure, median(times[row.figure]), "ns");
  for (const char* figure : {"read of 1 MiB", "write of 1 MiB"})
    report.figure(figure, median(times[figure]) / 1e3, "us");
}

int run(const Settings& settings) {
  if (Virtiofsd::program().empty()) {
    std::puts("QEMU's C virtiofsd is not installed: nothing to measure against");
    return 77;
  }
  Report report("wire");
  pin(1);  // inherited by the daemons
  support::Fsd fsd;
  Virtiofsd virtiofsd;
  pin(0);
  Side ours, theirs;
  ours.connect(fsd.workspace_socket(), false, "ws/1", settings);
  theirs.connect(virtiofsd.socket(), true, "", settings);
  std::vector<std::byte> content(kContent, std::byte{1});
  Times copies;
  Times warm_up;
  round(*ours.session, settings, warm_up);
  round(*theirs.session, settings, warm_up);
  for (unsigned i = 0; i < settings.rounds; ++i) {
    round(*ours.session, settings, ours.times);
    round(*theirs.session, settings, theirs.times);
    copy_round(content, *ours.port, copies);
  }
  print(report, ours, theirs, copies, settings);
  in_process(report, settings);
  if (!settings.json.empty() && !report.write_json(settings.json)) {
    std::fprintf(stderr, "cannot write %s\n", settings.json.c_str());
    return 1;
  }
  return report.sane() ? 0 : 1;
}

int main_of(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    const auto number = static_cast<unsigned>(std::strtoul(argv[i + 1], nullptr, 10));
    if (option == "--json")
      settings.json = argv[i + 1];
    else if (option == "--files" && number >= 10)
      settings.files = number;
    else if (option == "--rounds" && number >= 1)
      settings.rounds = number;
    else if (option == "--depth" && number >= 2 && number <= 32)
      settings.depth = number;
    else
      argc = 0;
  }
  if (argc % 2 == 0) {
    std::fputs(
        "usage: bench_wire [--files N] [--rounds N] [--depth N] [--json FILE]; at least 10 files, depth 2 to "
        "32\n",
        stderr);
    return 2;
  }
  try {
    return run(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_wire: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace turnbox::bench

int main(int argc, char** argv) {
  return turnbox::bench::main_of(argc, argv);
}
