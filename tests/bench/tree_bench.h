// The parts of bench_tree: one tree of many files, and what is measured on it. One thread.
#pragma once

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "fs/tree/tree.h"
#include "tests/bench/report.h"

namespace turnbox::fs {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kFilesPerDir = 1000;

inline double micros(Clock::time_point from) {
  return std::chrono::duration<double, std::micro>(Clock::now() - from).count();
}

// Time that this thread has run: what a step costs, whoever else the processor served meanwhile.
inline double thread_micros() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

inline uint64_t resident() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0, pages = 0;
  statm >> size >> pages;
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

inline Time real_now() {
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

template <typename T>
T must(Expected<T> result) {
  if (!result) {
    std::printf("a verb failed: %s\n", std::strerror(static_cast<int>(result.error())));
    std::exit(1);
  }
  return *result;
}

// Medians and p99 of the rows that must not grow with the tree.
struct Growth {
  double snapshot = 0, fork = 0, first_write = 0;
};

class Bench {
 public:
  Bench(bench::Report& report, uint64_t files, unsigned rounds);

  Growth versions();  // builds the tree; then snapshots, forks, first writes, releases
  void reads();
  void release_of_all();
  void diffs();
  void content();
  void digests();

 private:
  void build();
  void snapshots(Growth& growth);
  void forks(Growth& growth);
  void one_chunk();
  // Runs reclaim() to its end.
  void reclaim();
  void release_lines(const std::string& what);
  void line(const std::string& figure, double value, const char* unit, double aim = 0) {
    report_.figure(figure, value, unit, aim > 0 ? bench::at_most(aim) : bench::Target{});
  }
  void write(Tree& tree, Ino ino, uint64_t offset, size_t size);
  void write(Ino ino, uint64_t offset, size_t size) { write(tree_, ino, offset, size); }
  Ino some_file() { return inos_[random_() % inos_.size()]; }

  bench::Report& report_;
  uint64_t files_;
  unsigned rounds_;
  Tree tree_;
  Ino root_ = kNoIno;
  Caller caller_{.uid = 1000, .gid = 1000};
  std::vector<Ino> dirs_, inos_;
  Samples steps_, wall_;  // of reclaim()
  std::mt19937_64 random_{1};
};

// (RSS − content) of small files, in a tree of its own.
void memory_of_small_files(bench::Report& report, uint64_t files);

}  // namespace turnbox::fs
