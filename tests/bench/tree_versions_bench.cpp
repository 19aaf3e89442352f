// Versions of the tree: snapshots, forks, their ends, diffs and digests.
#include "fs/tree/diff.h"
#include "fs/tree/digest.h"
#include "tests/bench/tree_bench.h"

namespace turnbox::fs {

void Bench::reclaim() {
  for (bool left = true; left;) {
    const auto start = Clock::now();
    const double ran = thread_micros();
    left = tree_.reclaim(500);
    steps_.add(thread_micros() - ran);
    wall_.add(micros(start));
  }
}

void Bench::release_lines(const std::string& what) {
  line(what + ", longest step, processor time", steps_.worst(), "us", 1000);
  line(what + ", longest step, wall clock", wall_.worst(), "us");
  line(what + ", all steps", wall_.sum() / 1000, "ms");
  steps_ = wall_ = {};
}

Growth Bench::versions() {
  Growth growth;
  build();
  snapshots(growth);
  forks(growth);
  return growth;
}

void Bench::snapshots(Growth& growth) {
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
  growth.snapshot = taken.at(0.5);
  growth.first_write = first_write.at(0.5);
  line("snapshot, p50", taken.at(0.5), "us");
  line("snapshot, p99", taken.at(0.99), "us", 20);
  line("first write after a snapshot, p50", first_write.at(0.5), "us");
  line("first write after a snapshot, p99", first_write.at(0.99), "us", 100);
  line("first create after a snapshot, p99", first_create.at(0.99), "us", 100);
  reclaim();
  release_lines("release of snapshots with 50 changes");
}

// A fork, its first write, and its end; the tree goes on changing between them.
void Bench::forks(Growth& growth) {
  Samples forked, first_write, ended;
  for (unsigned i = 0; i < rounds_ / 4; ++i) {
    Snapshot snapshot = tree_.snapshot();
    auto start = Clock::now();
    std::unique_ptr<Tree> fork = tree_.fork(snapshot);
    forked.add(micros(start));
    start = Clock::now();
    write(*fork, some_file(), 0, 100);
    first_write.add(micros(start));
    write(some_file(), 0, 100);
    start = Clock::now();
    fork.reset();
    ended.add(micros(start));
    tree_.release(std::move(snapshot));
    reclaim();
  }
  growth.fork = forked.at(0.5);
  line("fork, p50", forked.at(0.5), "us");
  line("fork, p99", forked.at(0.99), "us", 20);
  line("first write in a fork, p99", first_write.at(0.99), "us", 100);
  line("end of a fork with one change, p99", ended.at(0.99), "us", 1000);
  steps_ = wall_ = {};
}

// Ten files changed among all, and found again; beside it a walk that reads every name and every inode of
// both versions.
void Bench::diffs() {
  Samples found, walked;
  for (int i = 0; i < 5; ++i) {
    Snapshot before = tree_.snapshot();
    for (int change = 0; change < 10; ++change) write(some_file(), 0, 100);
    Snapshot after = tree_.snapshot();
    uint64_t changes = 0;
    auto start = Clock::now();
    diff(before, root_, after, root_, [&](Change, Type, std::string_view) { ++changes; });
    found.add(micros(start));
    if (changes == 0 || changes > 10) {
      std::printf("diff found %llu changes, not ten\n", static_cast<unsigned long long>(changes));
      std::exit(1);
    }
    start = Clock::now();
    uint64_t differing = 0;
    for (const Ino dir : dirs_) {
      (void)after.readdir(dir, 0, [&](const Dirent& entry) {
        differing += must(before.getattr(entry.ino)).mtime != must(after.getattr(entry.ino)).mtime;
        return true;
      });
    }
    walked.add(micros(start));
    for (Snapshot* snapshot : {&before, &after}) tree_.release(std::move(*snapshot));
    reclaim();
  }
  const double fast = found.at(0.5), slow = walked.at(0.5);
  report_.compare("diff of 10 changes", fast, "full walk", slow, "us", slow / fast, bench::at_least(1000));
  steps_ = wall_ = {};
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
  reclaim();
  one_chunk();
}

// One chunk of 1 GiB changed, in a directory of its own.
void Bench::one_chunk() {
  constexpr uint64_t kSize = uint64_t{1} << 30;
  const Ino dir = must(tree_.create(root_, "large", {.type = Type::directory, .mode = 0755}, caller_)).ino;
  const Ino file = must(tree_.create(dir, "file", {.mode = 0644}, caller_)).ino;
  for (uint64_t at = 0; at < kSize; at += 1 << 20) {
    const auto fill = [at](std::span<std::byte> to) {
      std::memset(to.data(), static_cast<int>(at >> 20), to.size());
      std::memcpy(to.data(), &at, sizeof at);
    };
    must(tree_.write(file, at, 1 << 20, fill, false, caller_));
  }
  DigestCache cache;
  Samples again;
  double full = 0;
  for (int i = 0; i < 6; ++i) {
    Snapshot snapshot = tree_.snapshot();
    const auto start = Clock::now();
    must(digest_tree(snapshot, dir, cache));
    if (i == 0)
      full = micros(start);
    else
      again.add(micros(start));
    tree_.release(std::move(snapshot));
    reclaim();
    write(file, random_() % kSize, 10);
  }
  report_.compare("digest after 1 changed chunk", again.at(0.5), "full 1 GiB", full, "us",
                  full / again.at(0.5), bench::at_least(1000));
}

}  // namespace turnbox::fs
