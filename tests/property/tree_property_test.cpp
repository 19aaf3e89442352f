// Seeded random verbs on the tree and on a plain model of it: the same answer to each, the same tree after
// it, and snapshots that stay what they were. TURNBOX_SEED=N replays one run; TURNBOX_SECONDS bounds the
// whole (default 8).
#define BOOST_TEST_MODULE tree_property
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

#include "tests/property/compare.h"
#include "tests/property/plain_model.h"

namespace turnbox::fs::plain {
namespace {

struct Taken {
  Snapshot snapshot;
  State state;
};

// A tree and what it must be. A run begins with one; forks of its snapshots join it.
struct World {
  std::unique_ptr<Tree> tree;
  std::unique_ptr<Model> model;
  std::vector<Taken> taken{};
};

class Run {
 public:
  Run(uint64_t seed, const Budget& budget) : random_(seed), budget_(budget) {
    worlds_.push_back(
        {std::make_unique<Tree>(budget, [this] { return now_; }), std::make_unique<Model>(budget, now_)});
    for (const ZoneState state : {ZoneState::writable, ZoneState::sealed, ZoneState::stale}) {
      tree().add_zone({.state = state});
      model().add_zone({.state = state});
    }
    for (ZoneId zone = 0; zone < 4; ++zone) {
      model().make_root(tree().make_root(zone, 0755), zone, 0755);
    }
  }

  void go(unsigned steps) {
    for (step_ = 0; step_ < steps && wrong_.empty(); ++step_) {
      now_.nsec = static_cast<uint32_t>(pick(1'000'000'000));
      ++now_.sec;
      world_ = pick(worlds_.size());
      one();
      if (step_ % 16 == 0) check();
    }
    for (world_ = 0; world_ < worlds_.size(); ++world_) check();
    while (worlds_.size() > 1 && wrong_.empty()) drop_world();
    world_ = 0;
    if (wrong_.empty()) end();
  }
  std::string wrong() const {
    return wrong_.empty() ? "" : "step " + std::to_string(step_) + ", " + last_ + ": " + wrong_;
  }

 private:
  Tree& tree() { return *worlds_[world_].tree; }
  Model& model() { return *worlds_[world_].model; }
  std::vector<Taken>& taken() { return worlds_[world_].taken; }
  uint64_t pick(uint64_t below) { return below == 0 ? 0 : random_() % below; }
  bool chance(unsigned percent) { return pick(100) < percent; }

  Ino any() {
    if (chance(2)) return pick(3) == 0 ? 0 : 1'000'000 + pick(1000);
    return std::next(model().state().inodes.begin(), static_cast<long>(pick(model().state().inodes.size())))
        ->first;
  }
  Ino of_type(Type type) {
    for (int i = 0; i < 8; ++i) {
      const Ino ino = any();
      const auto found = model().state().inodes.find(ino);
      if (found != model().state().inodes.end() && found->second.attr.type == type) return ino;
    }
    return any();
  }
  Ino dir() { return chance(97) ? of_type(Type::directory) : any(); }
  std::string fresh_name() {
    if (chance(1)) return std::string(pick(400), 'x');
    if (chance(1)) return std::array<std::string, 5>{"", ".", "..", "a/b", std::string("a\0b", 3)}[pick(5)];
    if (chance(20)) return "long-name-" + std::string(pick(200), 'y') + std::to_string(pick(30));
    return "n" + std::to_string(pick(wide_));
  }
  std::string name_in(Ino in) {
    const auto found = model().state().inodes.find(in);
    if (chance(15) || found == model().state().inodes.end() || found->second.entries.empty())
      return fresh_name();
    return std::next(found->second.entries.begin(), static_cast<long>(pick(found->second.entries.size())))
        ->first;
  }
  Caller caller() {
    return {.uid = static_cast<uint32_t>(pick(3)),
            .gid = static_cast<uint32_t>(pick(3)),
            .umask = chance(50) ? 022u : 0u,
            .host = chance(40)};
  }
  void same(int tree, int model) {
    if (tree != model) wrong_ = "errno " + std::to_string(tree) + ", the model says " + std::to_string(model);
  }
  template <typename T>
  static int number(const Expected<T>& result) {
    return result ? 0 : static_cast<int>(result.error());
  }

  void one();
  void create();
  void rename();
  void setattr();
  void write();
  void hold();
  void snapshot();
  void fork();
  void drop_world();
  void allocate();
  void copy_range();
  void xattr();
  void check();
  void end();

  std::mt19937_64 random_;
  Budget budget_;
  Time now_{1'000'000, 0};
  std::vector<World> worlds_;
  size_t world_ = 0;    // where the step happens
  uint64_t wide_ = 40;  // how many short names there are
  unsigned step_ = 0;
  std::string last_, wrong_;
};

void Run::one() {
  const uint64_t kind = pick(100);
  if (kind < 26) {
    create();
  } else if (kind < 31) {
    last_ = "link";
    const Ino ino = chance(90) ? of_type(Type::regular) : any(), to = dir();
    const std::string name = fresh_name();
    const Caller who = caller();
    same(number(tree().link(ino, to, name, who)), model().link(ino, to, name, who));
  } else if (kind < 40) {
    last_ = "unlink";
    const Ino from = dir();
    const std::string name = name_in(from);
    const Caller who = caller();
    same(number(tree().unlink(from, name, who)), model().unlink(from, name, who));
  } else if (kind < 44) {
    last_ = "rmdir";
    const Ino from = dir();
    const std::string name = name_in(from);
    const Caller who = caller();
    same(number(tree().rmdir(from, name, who)), model().rmdir(from, name, who));
  } else if (kind < 56) {
    rename();
  } else if (kind < 66) {
    setattr();
  } else if (kind < 74) {
    write();
  } else if (kind < 78) {
    allocate();
  } else if (kind < 82) {
    copy_range();
  } else if (kind < 86) {
    xattr();
  } else if (kind < 90) {
    hold();
  } else if (kind < 96) {
    snapshot();
  } else if (kind < 99) {
    worlds_.size() < 4 && chance(60) ? fork() : drop_world();
  } else {
    last_ = "zone";
    const ZoneId zone = static_cast<ZoneId>(1 + pick(3));
    const auto state = static_cast<ZoneState>(pick(3));
    tree().set_zone_state(zone, state);
    model().set_zone_state(zone, state);
  }
}

void Run::create() {
  last_ = "create";
  const Ino in = dir();
  if (chance(8)) {
    const auto mode = static_cast<uint16_t>(pick(010000));
    const Caller who = caller();
    const auto made = tree().create_unnamed(in, mode, who);
    return same(number(made), model().create_unnamed(in, mode, who, made ? made->ino : 0));
  }
  const std::string name = fresh_name();
  static constexpr Type kTypes[] = {Type::regular,   Type::regular, Type::regular,   Type::directory,
                                    Type::directory, Type::symlink, Type::character, Type::fifo};
  const std::string target = chance(2) ? std::string(pick(5000), 't') : "to/" + fresh_name() + "x";
  const Caller who = caller();
  Tree::NewNode node{.type = kTypes[pick(8)],
                     .mode = static_cast<uint16_t>(pick(010000)),
                     .rdev = static_cast<uint32_t>(pick(70000)),
                     .target = target.c_str()};
  if (who.host && chance(10)) node.zone = static_cast<ZoneId>(pick(4));
  const auto made = tree().create(in, name, node, who);
  same(number(made), model().create(in, name, node, who, made ? made->ino : 0));
  if (made && wrong_.empty()) wrong_ = difference(*made, model().state().attr(made->ino));
}

void Run::allocate() {
  last_ = "allocate";
  static constexpr uint32_t kModes[] = {0, 1, 3, 3, 16, 17, 2, 8};
  const uint32_t mode = kModes[pick(8)];
  const uint64_t offset = pick(uint64_t{1} << pick(20)), size = pick(uint64_t{1} << pick(20));
  const Ino ino = chance(95) ? of_type(Type::regular) : any();
  const Caller who = caller();
  const uint64_t held = tree().usage().bytes;
  const int done = number(tree().allocate(ino, offset, size, mode, who));
  if (done == ENOSPC) {
    if (held + size + 3 * kPage <= budget_.bytes) wrong_ = "ENOSPC with space left";
    return;
  }
  same(done, model().allocate(ino, offset, size, mode, who));
}

void Run::copy_range() {
  last_ = "copy_range";
  const Ino from = chance(95) ? of_type(Type::regular) : any(),
            to = chance(20) ? from : of_type(Type::regular);
  uint64_t from_offset = pick(uint64_t{1} << pick(20)), to_offset = pick(uint64_t{1} << pick(20));
  if (chance(60)) to_offset = to_offset / kPage * kPage + from_offset % kPage;
  if (chance(50)) from_offset = from_offset / kPage * kPage, to_offset = to_offset / kPage * kPage;
  const uint64_t size = chance(30) ? UINT64_MAX >> (1 + pick(30)) : pick(uint64_t{1} << pick(21));
  const bool kill = chance(20);
  const Caller who = caller();
  const uint64_t held = tree().usage().bytes;
  const auto done = tree().copy_range(from, from_offset, to, to_offset, size, kill, who);
  if (number(done) == ENOSPC) {
    if (held + (uint64_t{1} << 20) + 3 * kPage <= budget_.bytes) wrong_ = "ENOSPC with space left";
    return;
  }
  const int64_t expected = model().copy_range(from, from_offset, to, to_offset, size, kill, who);
  const int64_t got = done ? static_cast<int64_t>(*done) : -number(done);
  if (got != expected) wrong_ = std::to_string(got) + ", the model says " + std::to_string(expected);
}

void Run::xattr() {
  last_ = "xattr";
  static constexpr const char* kNames[] = {"user.a",   "user.bb", "trusted.c", "security.capability",
                                           "system.x", "user.",   "",          "user.long"};
  std::string name = kNames[pick(8)];
  if (name == "user.long") name += std::string(pick(300), 'n');
  const Ino ino = any();
  const Caller who = caller();
  if (chance(25))
    return same(number(tree().removexattr(ino, name, who)), model().removexattr(ino, name, who));
  std::string value(chance(3) ? pick(70'000) : pick(60), 'v');
  for (char& byte : value) byte = static_cast<char>(random_());
  const auto mode = static_cast<Tree::XattrMode>(chance(60) ? 0 : pick(3));
  same(number(tree().setxattr(ino, name, std::as_bytes(std::span(value)), mode, who)),
       model().setxattr(ino, name, value, mode, who));
}

void Run::fork() {
  last_ = "fork";
  if (taken().empty()) return;
  const Taken& from = taken()[pick(taken().size())];
  World made{tree().fork(from.snapshot), std::make_unique<Model>(model(), from.state)};
  while (made.tree->reclaim(500)) {
  }
  worlds_.push_back(std::move(made));
  world_ = worlds_.size() - 1;
  check();
}

// Whichever it is: the first tree is not above the others.
void Run::drop_world() {
  last_ = "drop";
  if (worlds_.size() == 1) return;
  world_ = pick(worlds_.size());
  check();
  for (Taken& one : taken()) {
    if (const auto changed = difference(one.snapshot, one.state); !changed.empty())
      wrong_ = "an old snapshot: " + changed;
  }
  taken().clear();
  worlds_.erase(worlds_.begin() + static_cast<long>(world_));
  world_ = 0;
  check();
}

void Run::rename() {
  last_ = "rename";
  const Ino from = dir(), to = chance(40) ? from : dir();
  const std::string old_name = name_in(from), new_name = chance(50) ? name_in(to) : fresh_name();
  const uint32_t flags = chance(70) ? 0 : static_cast<uint32_t>(pick(9));
  const Caller who = caller();
  const int done = number(tree().rename(from, old_name, to, new_name, flags, who));
  const auto left = done == 0 && (flags & 4) != 0 ? tree().lookup(from, old_name) : err(ENOENT);
  same(done, model().rename(from, old_name, to, new_name, flags, who, left ? left->ino : kNoIno));
}

void Run::setattr() {
  last_ = "setattr";
  SetAttr set{.valid = static_cast<uint32_t>(pick(256)),
              .mode = static_cast<uint16_t>(pick(010000)),
              .uid = static_cast<uint32_t>(pick(5)),
              .gid = static_cast<uint32_t>(pick(5)),
              .size = pick(uint64_t{1} << pick(20)),
              .atime = {static_cast<int64_t>(pick(1000)), 5},
              .mtime = {-static_cast<int64_t>(pick(1000)), 7},
              .ctime = {static_cast<int64_t>(pick(1000)), 999'999'999}};
  if (chance(3)) set.size = uint64_t{1} << (20 + pick(44));
  const Ino ino = chance(70) ? of_type(Type::regular) : any();
  const Caller who = caller();
  const auto done = tree().setattr(ino, set, who);
  same(number(done), model().setattr(ino, set, who));
  if (done && wrong_.empty()) wrong_ = difference(*done, model().state().attr(ino));
}

void Run::write() {
  last_ = "write";
  uint64_t offset = pick(uint64_t{1} << pick(20));
  if (chance(4)) offset = pick(UINT64_MAX) >> pick(40);
  if (chance(40)) offset = offset / kPage * kPage;
  std::string bytes(pick(uint64_t{1} << pick(18)), '\0');
  for (size_t i = 0; i < bytes.size(); i += 1 + pick(64)) bytes[i] = static_cast<char>(random_());
  const Ino ino = chance(95) ? of_type(Type::regular) : any();
  const bool kill = chance(10);
  const Caller who = caller();
  const char* from = bytes.data();
  const uint64_t held = tree().usage().bytes;
  const auto done = tree().write(
      ino, offset, bytes.size(),
      [&](std::span<std::byte> to) {
        std::memcpy(to.data(), from, to.size());
        from += to.size();
      },
      kill, who);
  if (number(done) == ENOSPC) {  // nothing may have happened, and there must have been a reason
    if (held + bytes.size() + 2 * kPage <= budget_.bytes) wrong_ = "ENOSPC with space left";
    if (from != bytes.data()) wrong_ = "ENOSPC after an effect";
    return;
  }
  same(number(done), model().write(ino, offset, bytes, kill, who));
  if (done && from != bytes.data() + bytes.size()) wrong_ = "fill was not asked for every byte";
  if (done && wrong_.empty()) wrong_ = difference(*done, model().state().attr(ino));
  if (tree().usage().bytes > budget_.bytes + 64 * kPage) wrong_ = "the budget of bytes was passed";
}

void Run::hold() {
  last_ = "hold";
  if (chance(50) || model().holds().empty()) {
    const Ino ino = any();
    if (!model().state().inodes.contains(ino)) return;
    tree().hold(ino);
    model().hold(ino);
  } else {
    const Ino ino =
        std::next(model().holds().begin(), static_cast<long>(pick(model().holds().size())))->first;
    tree().unhold(ino);
    model().unhold(ino);
  }
}

void Run::snapshot() {
  last_ = "snapshot";
  if (chance(20)) tree().reclaim(static_cast<unsigned>(pick(200)));
  if (taken().size() < 5 && chance(60)) {
    taken().push_back({tree().snapshot(), model().state()});
  } else if (!taken().empty()) {
    const auto at = taken().begin() + static_cast<long>(pick(taken().size()));
    if (const auto changed = difference(at->snapshot, at->state); !changed.empty())
      wrong_ = "an old snapshot: " + changed;
    tree().release(std::move(at->snapshot));
    taken().erase(at);
  }
}

void Run::check() {
  if (!wrong_.empty()) return;
  wrong_ = difference(tree(), model().state());
  const Usage usage = tree().usage();
  if (usage.inodes != model().state().inodes.size()) wrong_ = "usage of inodes";
  if (usage.name_bytes != model().state().name_bytes) wrong_ = "usage of name bytes";
  if (usage.xattr_bytes != model().state().xattr_bytes) wrong_ = "usage of xattr bytes";
  if (taken().empty() || !wrong_.empty()) return;
  const Taken& one = taken()[pick(taken().size())];
  if (const auto changed = difference(one.snapshot, one.state); !changed.empty())
    wrong_ = "an old snapshot: " + changed;
}

// Everything goes; nothing may stay behind in the pools.
void Run::end() {
  last_ = "end";
  for (Taken& taken : taken()) {
    if (const auto changed = difference(taken.snapshot, taken.state); !changed.empty())
      wrong_ = "an old snapshot: " + changed;
    tree().release(std::move(taken.snapshot));
  }
  const Caller host{.host = true};
  for (;;) {
    bool some = false;
    const auto before = model().state().inodes;
    for (const auto& [dir_ino, inode] : before) {
      for (const auto& [name, child] : inode.entries) {
        if (model().rmdir(dir_ino, name, host) == 0) {
          same(number(tree().rmdir(dir_ino, name, host)), 0), some = true;
        } else if (model().unlink(dir_ino, name, host) == 0) {
          same(number(tree().unlink(dir_ino, name, host)), 0), some = true;
        }
      }
    }
    if (!some) break;
  }
  while (!model().holds().empty()) {
    const Ino ino = model().holds().begin()->first;
    tree().unhold(ino);
    model().unhold(ino);
  }
  while (tree().reclaim(1000)) {
  }
  for (Ino root = 1; root <= 4; ++root) {  // the roots' own
    for (const auto& [name, value] : model().state().inodes.at(root).xattrs)
      (void)tree().removexattr(root, name, host);
  }
  while (tree().reclaim(1000)) {
  }
  const Usage left = tree().usage();
  if (left.inodes != 4 || left.name_bytes != 0 || left.bytes != 0 || left.xattr_bytes != 0)
    wrong_ = "something is left in the usage";
  if (tree().memory().node_bytes > 1024)
    wrong_ = "nodes leak: " + std::to_string(tree().memory().node_bytes) + " bytes";
}

uint64_t first_seed() {
  if (const char* given = std::getenv("TURNBOX_SEED")) return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

int seconds() {
  if (const char* given = std::getenv("TURNBOX_SECONDS")) return std::atoi(given);
  return 8;
}

void runs(const Budget& budget, unsigned steps) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds());
  uint64_t seed = first_seed();
  BOOST_TEST_MESSAGE("seeds from " << seed);
  unsigned count = 0;
  do {
    Run run(seed, budget);
    run.go(steps);
    BOOST_REQUIRE_MESSAGE(run.wrong().empty(), "TURNBOX_SEED=" << seed << ": " << run.wrong());
    ++seed;
    ++count;
  } while (std::getenv("TURNBOX_SEED") == nullptr && std::chrono::steady_clock::now() < end);
  BOOST_TEST_MESSAGE(count << " runs of " << steps << " steps");
}

}  // namespace

BOOST_AUTO_TEST_CASE(agrees_with_the_plain_model) {
  runs({.inodes = 400, .name_bytes = 12'000, .xattr_bytes = 100'000}, 2500);
}

BOOST_AUTO_TEST_CASE(agrees_with_the_plain_model_where_bytes_are_short) {
  runs({.bytes = 600'000, .inodes = 400, .name_bytes = 12'000}, 2500);
}

}  // namespace turnbox::fs::plain
