// Drives a tmpfs and turnbox through the same calls and tells where they part.
//
//   differential workspace|turn|mount|DIRECTORY
// «workspace» and «turn» are the two contracts of the wire server, behind whatever host is linked; DIRECTORY
// stands on a mount of turnbox, and «mount» is the one that tests/support/with_mount made (TURNBOX_PLACE).
// TURNBOX_STEPS: how many (50,000). TURNBOX_SEED: of the first episode; each further one has the next seed. A
// difference is shrunk and printed as a program, with the seed and the steps that show it again.
#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>

#include "tests/differential/episode.h"
#include "tests/differential/host_directory.h"
#include "tests/differential/wire_directory.h"
#include "tests/support/fuse_host.h"

namespace turnbox::differential {
namespace {

constexpr int kSkipped = 77;
constexpr unsigned kLongest = 4000;  // steps of an episode

char current[64] = "no episode yet";  // for the handler

void tell_seed(int signal) {
  const char* text = "differential: died in the episode of ";
  (void)!::write(2, text, std::strlen(text));
  (void)!::write(2, current, std::strlen(current));
  (void)!::write(2, "\n", 1);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* given = std::getenv(name);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

// A tmpfs that only this process sees; it goes with it.
std::string mount_tmpfs() {
  char made[] = "/tmp/turnbox-differential-XXXXXX";
  if (::mkdtemp(made) == nullptr) throw std::runtime_error("cannot make a directory below /tmp");
  const bool mounted =
      ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
      ::mount("tmpfs", made, "tmpfs", MS_NODEV | MS_NOATIME, "size=2g,nr_inodes=1m,mode=755") == 0;
  if (!mounted) {
    ::rmdir(made);
    throw std::runtime_error(std::string("cannot mount a tmpfs: ") + std::strerror(errno));
  }
  return made;
}

void print(const Run& run, const Sides& sides, uint64_t seed, unsigned count) {
  std::printf("\nThe shortest sequence found, %zu steps (%s beside %s):\n", run.steps.size(),
              sides.tested.name().c_str(), sides.right.name().c_str());
  for (const Step& step : run.steps) std::printf("  %s\n", to_text(step).c_str());
  std::printf("DIFFERENCE: %s\nAgain: TURNBOX_SEED=%llu TURNBOX_STEPS=%u\n", run.found->text.c_str(),
              static_cast<unsigned long long>(seed), count);
}

int compare(FileSystem& right, FileSystem& tested) {
  Comparer comparer(right, tested);
  const Sides sides{right, tested, comparer};
  uint64_t seed = from_environment("TURNBOX_SEED", std::random_device{}());
  const uint64_t steps = from_environment("TURNBOX_STEPS", 50'000);
  const auto began = std::chrono::steady_clock::now();
  std::printf("%s beside %s: %llu steps, seeds from %llu\n", tested.name().c_str(), right.name().c_str(),
              static_cast<unsigned long long>(steps), static_cast<unsigned long long>(seed));
  unsigned episodes = 0;
  Tally tally;
  for (uint64_t done = 0; done < steps; ++seed, ++episodes) {
    const auto count = static_cast<unsigned>(std::min<uint64_t>(steps - done, 200 + seed * 7919 % kLongest));
    std::snprintf(current, sizeof current, "TURNBOX_SEED=%llu TURNBOX_STEPS=%u",
                  static_cast<unsigned long long>(seed), count);
    const Run run = explore(sides, seed, count, tally);
    if (run.found) {
      std::printf("TURNBOX_SEED=%llu, step %zu, %s\n%s\nshrinking…\n", static_cast<unsigned long long>(seed),
                  run.steps.size(), to_text(run.steps.back()).c_str(), run.found->text.c_str());
      std::fflush(stdout);
      print(shrink(sides, run), sides, seed, count);
      return 1;
    }
    done += count;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf("calls that did something: %s\n", tally.text().c_str());
  std::printf("%llu steps in %u episodes, %.0f s, no difference\n", static_cast<unsigned long long>(steps),
              episodes, took.count());
  return 0;
}

int run_with(const std::string& what, const std::string& tmpfs) {
  HostDirectory right("tmpfs", tmpfs, true);
  if (what != "workspace" && what != "turn") {
    const char* mounted = std::getenv("TURNBOX_PLACE");
    if (what == "mount" && mounted == nullptr) throw std::runtime_error("TURNBOX_PLACE names no mount");
    HostDirectory tested("the mount", what == "mount" ? mounted : what);
    return compare(right, tested);
  }
  const bool turn = what == "turn";
  const auto host = support::make_fuse_host();
  if (turn) host->begin_turn();
  WireDirectory tested(turn ? host->turn() : host->workspace(),
                       {.name = "wire server, contract " + what,
                        .base = turn ? support::FuseHost::in_turn("stages/01-run/outputs") : "ws/1",
                        .handles = turn,
                        .rest = [&host] { host->rest(); }});
  return compare(right, tested);
}

}  // namespace
}  // namespace turnbox::differential

int main(int argc, char** argv) {
  using namespace turnbox::differential;
  if (argc != 2) {
    std::fprintf(stderr, "usage: differential workspace|turn|mount|DIRECTORY\n");
    return 2;
  }
  if (::geteuid() != 0) {
    std::printf("differential: only root may mount a tmpfs and act for several users; skipped\n");
    return kSkipped;
  }
  ::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS}) ::signal(signal, tell_seed);
  int status = 2;
  std::string tmpfs;
  int top = -1;
  try {
    ::signal(SIGPIPE, SIG_IGN);
    tmpfs = mount_tmpfs();
    top = ::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);  // of the mount namespace that this made
    status = run_with(argv[1], tmpfs);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "differential: %s (%s)\n", error.what(), current);
  }
  // Back to where it began: the mount point goes, and a sanitizer finds /proc for its last look.
  ::setfsuid(0);
  if (top < 0 || ::fchdir(top) != 0 || ::chroot(".") != 0) return 2;
  ::umount2(tmpfs.c_str(), MNT_DETACH);
  ::rmdir(tmpfs.c_str());
  return status;
}
