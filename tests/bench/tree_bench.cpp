// What the tree promises about size and time, measured: bytes an inode, lookups, content, and, beside full
// walks and full digests, what versions cost.
//
//   bench_tree [--files N] [--rounds N] [--json FILE]
//
// Snapshots and forks are measured on trees of N / 1000, N / 10 and N files. Ends with 1 only if something
// did not work; an aim that is missed is printed as such, since a busy machine misses it too.
#include "tests/bench/tree_bench.h"

namespace turnbox::fs {

Bench::Bench(bench::Report& report, uint64_t files, unsigned rounds)
    : report_(report),
      files_(files),
      rounds_(rounds),
      tree_({.bytes = uint64_t{64} << 30, .inodes = 8'000'000}, real_now) {
  root_ = tree_.make_root(0, 0755);
}

void Bench::write(Tree& tree, Ino ino, uint64_t offset, size_t size) {
  const auto fill = [](std::span<std::byte> to) { std::memset(to.data(), 7, to.size()); };
  must(tree.write(ino, offset, size, fill, false, caller_));
}

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

void memory_of_small_files(bench::Report& report, uint64_t files) {
  Tree tree({.bytes = uint64_t{64} << 30, .inodes = 8'000'000}, real_now);
  const Ino root = tree.make_root(0, 0755);
  const Caller caller{.uid = 1000, .gid = 1000};
  const uint64_t before = resident();
  Ino dir = kNoIno;
  for (uint64_t i = 0; i < files; ++i) {
    if (i % kFilesPerDir == 0)
      dir = must(tree.create(root, "d" + std::to_string(i), {.type = Type::directory, .mode = 0755}, caller))
                .ino;
    const Ino file = must(tree.create(dir, "f" + std::to_string(i), {.mode = 0644}, caller)).ino;
    const auto fill = [](std::span<std::byte> to) { std::memset(to.data(), 7, to.size()); };
    must(tree.write(file, 0, 4096, fill, false, caller));
  }
  const double content = 4096.0 * static_cast<double>(files);
  report.figure("files of 4 KiB, resident set per byte of content",
                static_cast<double>(resident() - before) / content, "", bench::at_most(1.1));
}

namespace {

struct Settings {
  uint64_t files = 1'000'000;
  unsigned rounds = 2000;
  std::string json;
};

int run(const Settings& settings) {
  bench::Report report("tree");
  report.heading("files of 4 KiB");
  memory_of_small_files(report, std::max<uint64_t>(settings.files / 4, 10));
  Growth small;
  for (const uint64_t files : {settings.files / 1000, settings.files / 10}) {
    report.heading(std::to_string(std::max<uint64_t>(files, 10)) + " files");
    const Growth growth = Bench(report, std::max<uint64_t>(files, 10), settings.rounds).versions();
    if (small.snapshot == 0) small = growth;
  }
  report.heading(std::to_string(settings.files) + " files");
  Bench bench(report, settings.files, settings.rounds);
  const Growth large = bench.versions();
  report.heading("a thousand times the files: how much longer it takes, medians");
  report.figure("snapshot", large.snapshot / small.snapshot, "x", bench::at_most(2));
  report.figure("fork", large.fork / small.fork, "x", bench::at_most(2));
  report.figure("first write after a snapshot", large.first_write / small.first_write, "x");
  report.heading(std::to_string(settings.files) + " files");
  bench.reads();
  bench.diffs();
  bench.release_of_all();
  bench.content();
  bench.digests();
  if (!settings.json.empty() && !report.write_json(settings.json)) {
    std::fprintf(stderr, "cannot write %s\n", settings.json.c_str());
    return 1;
  }
  return report.sane() ? 0 : 1;
}

int run(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "0";
    const unsigned long long number = std::strtoull(value, nullptr, 10);
    if (option == "--files" && number >= 10) {
      settings.files = number;
    } else if (option == "--rounds" && number >= 10) {
      settings.rounds = static_cast<unsigned>(number);
    } else if (option == "--json" && i + 1 < argc) {
      settings.json = value;
    } else {
      std::fprintf(stderr,
                   "usage: bench_tree [--files N] [--rounds N] [--json FILE], both numbers at least 10\n");
      return 2;
    }
  }
  return run(settings);
}

}  // namespace
}  // namespace turnbox::fs

int main(int argc, char** argv) {
  return turnbox::fs::run(argc, argv);
}
