// What the tree promises about size and time, measured: snapshot, first write after it, release in steps,
// bytes an inode.
//
//   bench_tree [--files N] [--rounds N]
//
// Prints one line a figure. Ends with 1 only if something did not work; an aim that is missed is printed as
// such, since a busy machine misses it too.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "fs/tree/digest.h"
#include "fs/tree/tree.h"

namespace turnbox::fs {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kFilesPerDir = 1000;

double micros(Clock::time_point from) {
  return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}

// Time that this thread has run: what a step costs, whoever else the processor served meanwhile.
double thread_micros() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

uint64_t resident() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, pages = 0;
  statm >> size >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

Time real_now() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return {now.tv_sec, static_cast<uint32_t>(now.tv_nsec)};
}

class Samples {
 public:
  void add(double value) { values_.push_back(value); }
  double at(double part) {
    std::sort(values_.begin(), values_.end());
    return values_.empty()
               ? 0
               : values_[std::min(values_.size() - 1,
                                  static_cast<size_t>(part * static_cast<double>(values_.size())))];
  }
  double worst() { return at(1); }
  double sum() const { return std::accumulate(values_.begin(), values_.end(), 0.0); }

 private:
  std::vector<double> values_;
};

void line(const char* figure, double value, const char* unit, double aim = 0) {
  if (aim > 0) {
    std::printf("%-58s %10.2f %-8s ≤ %-8g %s\n", figure, value, unit, aim, value <= aim ? "met" : "NOT MET");
  } else {
    std::printf("%-58s %10.2f %s\n", figure, value, unit);
  }
}

template <typename T>
T must(Expected<T> result) {
  if (!result) {
    std::printf("a verb failed: %s\n", std::strerror(static_cast<int>(result.error())));
    std::exit(1);
  }
  return *result;
}

class Bench {
 public:
  Bench(uint64_t files, unsigned rounds)
      : files_(files), rounds_(rounds), tree_({.bytes = uint64_t{64} << 30, .inodes = 8'000'000}, real_now) {
    root_ = tree_.make_root(0, 0755);
  }
  void run() {
    std::printf("%llu files, %u rounds\n", static_cast<unsigned long long>(files_), rounds_);
    build();
    reads();
    snapshots();
    release_of_all();
    content();
    digests();
  }

 private:
  // Runs reclaim() to its end.
  void reclaim() {
    for (bool left = true; left;) {
      const auto start = Clock::now();
      const double ran = thread_micros();
      left = tree_.reclaim(500);
      steps_.add(thread_micros() - ran);
      wall_.add(micros(start));
    }
  }
  void release_lines(const char* what) {
    line((std::string(what) + ", longest step, processor time").c_str(), steps_.worst(), "us", 1000);
    line((std::string(what) + ", longest step, wall clock").c_str(), wall_.worst(), "us");
    line((std::string(what) + ", all steps").c_str(), wall_.sum() / 1000, "ms");
    steps_ = wall_ = {};
  }
  void write(Ino ino, uint64_t offset, size_t size) {
    const auto done = tree_.write(
        ino, offset, size, [](std::span<std::byte> to) { std::memset(to.data(), 7, to.size()); }, false,
        caller_);
    must(done);
  }
  Ino some_file() { return inos_[random_() % inos_.size()]; }

  void build();
  void reads();
  void snapshots();
  void release_of_all();
  void content();
  void digests();

  uint64_t files_;
  unsigned rounds_;
  Tree tree_;
  Ino root_ = kNoIno;
  Caller caller_{.uid = 1000, .gid = 1000};
  std::vector<Ino> dirs_, inos_;
  Samples steps_, wall_;  // of reclaim()
  std::mt19937_64 random_{1};
};

void Bench::build() {
  inos_.reserve(files_);
  uint64_t name_bytes = 0;
  const uint64_t rss = resident();
  const auto start = Clock::now();
  for (uint64_t i = 0; i < files_; ++i) {
    if (i % kFilesPerDir == 0) {
      const std::string name = "directory-" + std::to_string(i / kFilesPerDir);
      dirs_.push_back(must(tree_.create(root_, name, {.type = Type::directory, .mode = 0755}, caller_)).ino);
    }
    const std::string name = "file-" + std::to_string(i) + ".txt";
    name_bytes += name.size();
    inos_.push_back(must(tree_.create(dirs_.back(), name, {.mode = 0644}, caller_)).ino);
  }
  const double total = micros(start);
  const auto count = static_cast<double>(tree_.usage().inodes);
  line("create of an empty file, mean", total / static_cast<double>(files_), "us");
  const auto names = static_cast<double>(tree_.usage().name_bytes);
  line("bytes an inode beside its name, by the pools' count",
       (static_cast<double>(tree_.memory().node_bytes) - names) / count, "bytes", 256);
  line("bytes an inode beside its name, mapped",
       (static_cast<double>(tree_.memory().mapped_bytes) - names) / count, "bytes", 256);
  line("bytes an inode beside its name, by resident set",
       (static_cast<double>(resident() - rss) - names) / count, "bytes", 256);
  // Content of one file in eight, so that pages are among what a snapshot shares.
  for (size_t i = 0; i < inos_.size(); i += 8) write(inos_[i], 0, 100);
}

void Bench::reads() {
  constexpr unsigned kTimes = 200'000;
  auto start = Clock::now();
  for (unsigned i = 0; i < kTimes; ++i) {
    const uint64_t file = random_() % files_;
    const std::string name = "file-" + std::to_string(file) + ".txt";
    must(tree_.lookup(dirs_[file / kFilesPerDir], name));
  }
  line("lookup of a random name, mean", micros(start) / kTimes, "us");
  start = Clock::now();
  for (unsigned i = 0; i < kTimes; ++i) must(tree_.getattr(some_file()));
  line("getattr of a random inode, mean", micros(start) / kTimes, "us");
  start = Clock::now();
  uint64_t seen = 0;
  for (const Ino dir : dirs_) {
    must(tree_.getattr(dir));
    (void)tree_.readdir(dir, 0, [&seen](const Dirent& entry) { return seen += entry.ino != 0, true; });
  }
  line("readdir, mean of an entry", micros(start) / static_cast<double>(seen), "us");
}

void Bench::snapshots() {
  Samples taken, first_write, first_create;
  std::vector<Snapshot> kept;
  uint64_t made = 0;
  for (unsigned i = 0; i < rounds_; ++i) {
    auto start = Clock::now();
    kept.push_back(tree_.snapshot());
    taken.add(micros(start));
    start = Clock::now();
    if (i % 2 == 0) {
      write(some_file(), 0, 100);
      first_write.add(micros(start));
    } else {
      const std::string name = "new-" + std::to_string(made++);
      must(tree_.create(dirs_[random_() % dirs_.size()], name, {.mode = 0644}, caller_));
      first_create.add(micros(start));
    }
    for (unsigned more = 0; more < 50; ++more) write(some_file(), 0, 100);
    if (kept.size() < 4) continue;
    tree_.release(std::move(kept.front()));
    kept.erase(kept.begin());
    reclaim();
  }
  for (Snapshot& snapshot : kept) tree_.release(std::move(snapshot));
  line("snapshot, p50", taken.at(0.5), "us");
  line("snapshot, p99", taken.at(0.99), "us", 20);
  line("first write after a snapshot, p50", first_write.at(0.5), "us");
  line("first write after a snapshot, p99", first_write.at(0.99), "us", 100);
  line("first create after a snapshot, p99", first_create.at(0.99), "us", 100);
  reclaim();
  release_lines("release of snapshots with 50 changes");
}

// The worst case: not one node of the snapshot is shared any more.
void Bench::release_of_all() {
  Snapshot old = tree_.snapshot();
  const auto nodes = tree_.memory().node_bytes;
  for (const Ino ino : inos_) must(tree_.setattr(ino, {.valid = SetAttr::kMode, .mode = 0600}, caller_));
  for (const Ino dir : dirs_) must(tree_.create(dir, "one more", {.mode = 0644}, caller_));
  line("nodes that a wholly changed snapshot holds alone",
       static_cast<double>(tree_.memory().node_bytes - nodes) / 1e6, "MB");
  auto start = Clock::now();
  tree_.release(std::move(old));
  line("release of a wholly changed snapshot, the call", micros(start), "us", 1000);
  reclaim();
  release_lines("release of a wholly changed snapshot");
}

void Bench::content() {
  constexpr uint64_t kFile = uint64_t{256} << 20;
  const Ino big = must(tree_.create(root_, "big", {.mode = 0644}, caller_)).ino;
  auto start = Clock::now();
  for (uint64_t at = 0; at < kFile; at += 1 << 20) write(big, at, 1 << 20);
  line("sequential write of 1 MiB pieces, new pages", static_cast<double>(kFile) / micros(start), "MB/s");
  start = Clock::now();
  for (uint64_t at = 0; at < kFile; at += 1 << 20) write(big, at, 1 << 20);
  line("the same again, in place", static_cast<double>(kFile) / micros(start), "MB/s");
  start = Clock::now();
  for (uint64_t at = 0; at < kFile; at += 4096) write(big, at, 4096);
  line("sequential write of 4 KiB, in place, mean", micros(start) / static_cast<double>(kFile / 4096), "us");
  std::vector<std::span<const std::byte>> spans;
  start = Clock::now();
  for (uint64_t at = 0; at < kFile; at += 1 << 20) {
    spans.clear();
    must(tree_.read(big, at, 1 << 20, spans));
  }
  line("read of 1 MiB as spans, mean", micros(start) / static_cast<double>(kFile >> 20), "us");
  const Ino small = must(tree_.create(root_, "small", {.mode = 0644}, caller_)).ino;
  start = Clock::now();
  for (uint64_t at = 0; at < 20'000'000; at += 100) write(small, at, 100);
  line("append of 100 bytes, mean", micros(start) / 200'000, "us");
  start = Clock::now();
  must(tree_.setattr(big, {.valid = SetAttr::kSize, .size = 0}, caller_));
  line("truncate of 256 MiB to nothing, the verb", micros(start), "us", 1000);
  reclaim();
  release_lines("release of 256 MiB of pages");
}

void Bench::digests() {
  DigestCache cache;
  Snapshot first = tree_.snapshot();
  auto start = Clock::now();
  must(digest_tree(first, root_, cache));
  line("digest of everything, the first", micros(start) / 1000, "ms");
  write(some_file(), 0, 10);
  Snapshot second = tree_.snapshot();
  start = Clock::now();
  must(digest_tree(second, root_, cache));
  line("digest after one change", micros(start) / 1000, "ms");
  const Ino sparse = must(tree_.create(root_, "sparse", {.mode = 0644}, caller_)).ino;
  must(tree_.setattr(sparse, {.valid = SetAttr::kSize, .size = uint64_t{1} << 40}, caller_));
  write(sparse, uint64_t{1} << 39, 10);
  Snapshot third = tree_.snapshot();
  start = Clock::now();
  must(digest_tree(third, sparse, cache));
  line("digest of a sparse file of 1 TiB", micros(start) / 1000, "ms");
  for (Snapshot* snapshot : {&first, &second, &third}) tree_.release(std::move(*snapshot));
}

int run(int argc, char** argv) {
  uint64_t files = 1'000'000;
  unsigned rounds = 2000;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    const unsigned long long value = i + 1 < argc ? std::strtoull(argv[i + 1], nullptr, 10) : 0;
    if (option == "--files" && value >= 10) {
      files = value;
    } else if (option == "--rounds" && value >= 10) {
      rounds = static_cast<unsigned>(value);
    } else {
      std::fprintf(stderr, "usage: bench_tree [--files N] [--rounds N], both at least 10\n");
      return 2;
    }
  }
  Bench(files, rounds).run();
  return 0;
}

}  // namespace
}  // namespace turnbox::fs

int main(int argc, char** argv) {
  return turnbox::fs::run(argc, argv);
}
