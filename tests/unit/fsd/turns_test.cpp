#include "fs/turn/turns.h"

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <string>

#include "tests/support/print.h"
#include "tests/unit/fsd/world.h"

namespace turnbox::turn {

using sys::ErrorKind;

BOOST_AUTO_TEST_SUITE(turns)

BOOST_AUTO_TEST_CASE(a_turn_appears_whole_with_its_inputs) {
  World world;
  ImportBytes data, single;
  data.root().dir("d").file("d/f", "deep");
  single.file("", "alone", 0600);
  BOOST_REQUIRE(world.turns.import_input("data", data.end(), false));
  BOOST_REQUIRE(world.turns.import_input("one", single.end(), false));
  BOOST_REQUIRE(world.turns.begin(begin_main(kTurnA, {"one", "data"})));

  const fs::Ino dir = world.turn_dir(kTurnA);
  BOOST_TEST(world.content(world.at(dir, "turn.json").ino) ==
             "{\"demand\":\"run-1\",\"thread\":\"main\",\"thread_seq\":7,\"tier\":\"emulated\",\"turn\":\"" +
                 std::string(kTurnA) + "\"}");
  BOOST_TEST(world.content(world.at(dir, "inputs/data/d/f").ino) == "deep");
  BOOST_TEST(world.content(world.at(dir, "inputs/one").ino) == "alone");
  BOOST_TEST(world.at(dir, "events").size == 0u);
  BOOST_TEST(world.tree.readlink(world.at(world.turns.device_root(), "main").ino).value() ==
             "by-id/" + std::string(kTurnA));

  BOOST_TEST(world.turns.begin_stage(kTurnA, "run").value() == "01-run");
  BOOST_TEST(world.content(world.at(dir, "stages/01-run/inputs/data/d/f").ino) == "deep");
  BOOST_TEST(world.content(world.at(dir, "stages/01-run/inputs/one").ino) == "alone");
  BOOST_TEST(world.at(dir, "stages/01-run/projections").size == 0u);
}

BOOST_AUTO_TEST_CASE(a_guest_writes_outputs_and_nothing_else) {
  World world;
  ImportBytes data;
  BOOST_REQUIRE(world.turns.import_input("data", data.root().file("f", "x").end(), false));
  BOOST_REQUIRE(world.turns.begin(begin_main(kTurnA, {"data"})));
  BOOST_REQUIRE(world.turns.begin_stage(kTurnA, "run"));
  const fs::Ino dir = world.turn_dir(kTurnA);
  for (const char* sealed : {"inputs", "inputs/data", "stages", "stages/01-run", "stages/01-run/inputs",
                             "stages/01-run/inputs/data", "stages/01-run/projections"}) {
    const auto made = world.guest_create(world.at(dir, sealed).ino, "new");
    BOOST_REQUIRE(!made);
    BOOST_TEST(static_cast<int>(made.error()) == EROFS, sealed);
  }
  BOOST_TEST(static_cast<int>(world.guest_create(dir, "new").error()) == EROFS);
  BOOST_TEST(static_cast<int>(world.guest_create(world.turns.device_root(), "new").error()) == EROFS);
  BOOST_TEST(static_cast<int>(world.tree.unlink(dir, "turn.json", kGuest).error()) == EROFS);

  const fs::Ino outputs = world.at(dir, "stages/01-run/outputs").ino;
  BOOST_REQUIRE(world.guest_create(outputs, "result"));
  BOOST_REQUIRE(world.turns.seal_stage(kTurnA, "run"));
  BOOST_TEST(static_cast<int>(world.guest_create(outputs, "late").error()) == EROFS);
  BOOST_TEST(static_cast<int>(world.tree.unlink(outputs, "result", kGuest).error()) == EROFS);
}

BOOST_AUTO_TEST_CASE(zones_tell_the_devices_what_may_be_cached) {
  World world;
  BOOST_REQUIRE(world.turns.begin(begin_main(kTurnA)));
  BOOST_REQUIRE(world.turns.begin_stage(kTurnA, "run"));
  const fs::Ino dir = world.turn_dir(kTurnA);
  const auto use = [&](fs::Ino ino) { return world.tree.zone(world.tree.getattr(ino)->zone).use; };
  for (const fs::Ino shared : {world.turns.device_root(), dir, world.at(dir, "stages").ino,
                               world.at(dir, "stages/01-run").ino, world.workspace.device_root()}) {
    BOOST_TEST((use(shared) == fs::ZoneUse::shared));
  }
  for (const char* plain : {"inputs", "stages/01-run/inputs", "stages/01-run/outputs"}) {
    BOOST_TEST((use(world.at(dir, plain).ino) == fs::ZoneUse::plain), plain);
  }
  BOOST_TEST((use(world.at(dir, "events").ino) == fs::ZoneUse::log));
  BOOST_TEST((use(world.workspace.root()) == fs::ZoneUse::plain));
}

BOOST_AUTO_TEST_CASE(the_next_turn_of_a_thread_takes_its_link) {
  World world;
  BOOST_REQUIRE(world.turns.begin(begin_main(kTurnA)));
  const fs::Ino first = world.at(world.turns.device_root(), "main").ino;
  BOOST_TEST(world.turns.begin(begin_main(kTurnB)).error().kind == ErrorKind::conflict);
  BOOST_REQUIRE(world.turns.end(kTurnA));
  BOOST_REQUIRE(world.turns.begin(begin_main(kTurnB)));
  const fs::Ino second = world.at(world.turns.device_root(), "main").ino;
  BOOST_TEST(first != second);
  BOOST_TEST(world.tree.readlink(second).value() == "by-id/" + std::string(kTurnB));
  BOOST_TEST(world.at(world.turns.device_root(), "by-id").size == 2u);
}

BOOST_AUTO_TEST_CASE(ending_seals_what_was_left_open) {
  World world;
  BOOST_REQUIRE(world.turns.begin(begin_main(kTurnA)));
  BOOST_REQUIRE(world.turns.begin_stage(kTurnA, "run"));
  const fs::Ino outputs = world.at(world.turn_dir(kTurnA), "stages/01-run/outputs").ino;
  BOOST_REQUIRE(world.turns.end(kTurnA));
  BOOST_TEST(static_cast<int>(world.guest_create(outputs, "late").error()) == EROFS);
  const auto event =
      world.events.append(world.at(world.turn_dir(kTurnA), "events").ino, 1, sys::as_bytes("{}\n"));
  BOOST_TEST(static_cast<int>(event.error()) == EROFS);
  BOOST_TEST(world.turns.end(kTurnA).error().kind == ErrorKind::conflict);
  BOOST_TEST(world.turns.begin_stage(kTurnA, "more").error().kind == ErrorKind::conflict);
}

BOOST_AUTO_TEST_CASE(stages_come_one_after_another) {
  World world;
  BOOST_REQUIRE(world.turns.begin(begin_main(kTurnA)));
  BOOST_REQUIRE(world.turns.begin_stage(kTurnA, "run"));
  BOOST_TEST(world.turns.begin_stage(kTurnA, "check").error().kind == ErrorKind::conflict);
  BOOST_TEST(world.turns.seal_stage(kTurnA, "check").error().kind == ErrorKind::not_found);
  BOOST_REQUIRE(world.turns.seal_stage(kTurnA, "run"));
  BOOST_TEST(world.turns.seal_stage(kTurnA, "run").error().kind == ErrorKind::conflict);
  BOOST_TEST(world.turns.begin_stage(kTurnA, "run").error().kind == ErrorKind::conflict);
  BOOST_TEST(world.turns.begin_stage(kTurnA, "check").value() == "02-check");
}

BOOST_AUTO_TEST_CASE(bad_words_are_refused_by_name) {
  World world;
  const auto refused = [&](BeginTurn what) {
    return world.turns.begin(what).error().kind == ErrorKind::invalid;
  };
  auto turn = begin_main("01JDRY0000000000000000000U");
  BOOST_TEST(refused(turn));
  turn = begin_main("../../../etc/passwd/xxxxxxx");
  BOOST_TEST(refused(turn));
  for (const char* thread : {"by-id", "", "Main", "a--b", "-a", "a-", "a/b", ".", ".."}) {
    turn = begin_main(kTurnA);
    turn.thread = thread;
    BOOST_TEST(refused(turn), thread);
  }
  turn = begin_main(kTurnA);
  turn.tier = "best";
  BOOST_TEST(refused(turn));
  for (const char* input : {"", ".", "..", "a/b"}) {
    BOOST_TEST(world.turns.import_input(input, ImportBytes().root().end(), false).error().kind ==
               ErrorKind::invalid);
  }
  BOOST_TEST(world.turns.begin(begin_main(kTurnA, {"absent"})).error().kind == ErrorKind::not_found);
  BOOST_TEST(world.at(world.turns.device_root(), "by-id").size == 0u);
}

BOOST_AUTO_TEST_CASE(a_broken_input_leaves_nothing_and_may_be_sent_again) {
  World world;
  const fs::Usage before = world.tree.usage();
  ImportBytes cut;
  cut.root().file("f", "content");
  BOOST_REQUIRE(world.turns.import_input("data", cut.so_far(), true));
  BOOST_TEST(world.turns.begin(begin_main(kTurnA, {"data"})).error().kind == ErrorKind::conflict);
  BOOST_TEST(!world.turns.import_input("data", sys::Bytes(10, std::byte{0xff}), false).has_value());
  world.settle();
  BOOST_TEST(world.tree.usage().inodes == before.inodes + 1);  // aside/inputs
  BOOST_REQUIRE(world.turns.import_input("data", ImportBytes().root().end(), false));
  BOOST_TEST(world.turns.begin(begin_main(kTurnA)).error().kind == ErrorKind::conflict);  // it must be named
  BOOST_REQUIRE(world.turns.begin(begin_main(kTurnA, {"data"})));
}

BOOST_AUTO_TEST_CASE(a_turn_that_does_not_fit_changes_nothing) {
  fs::Budget budget;
  budget.inodes = 0;
  fs::Usage empty;
  {
    World measure;
    empty = measure.tree.usage();
  }
  for (uint64_t room = 0;; ++room) {
    budget.inodes = empty.inodes + room;
    World world(budget);
    BOOST_REQUIRE(room == 0 || world.turns.import_input("data", ImportBytes().root().end(), false) ||
                  room < 3);
    const auto begun = world.turns.begin(
        begin_main(kTurnA, room < 2 ? std::vector<std::string>{} : std::vector<std::string>{"data"}));
    if (begun) {
      BOOST_TEST(room > 2);
      break;
    }
    BOOST_REQUIRE(room < 20);
    world.settle();
    BOOST_TEST(world.at(world.turns.device_root(), "by-id").size == 0u);
    BOOST_TEST(!world.tree.lookup(world.turns.device_root(), "main").has_value());
    BOOST_TEST(world.turns.find(kTurnA).error().kind == ErrorKind::not_found);
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(workspace)

BOOST_AUTO_TEST_CASE(a_new_epoch_makes_the_old_one_stale_and_is_swept) {
  World world;
  ImportBytes files;
  files.root();
  for (int i = 0; i < 500; ++i) {
    const std::string dir = "d" + std::to_string(i);
    files.dir(dir).file(dir + "/f", "content");
  }
  const fs::Usage empty = world.tree.usage();
  BOOST_REQUIRE(world.workspace.import(files.end(), false));
  const fs::Ino old_root = world.workspace.root();
  const fs::Ino old_file = world.at(old_root, "d7/f").ino;
  BOOST_TEST(world.workspace.next_epoch().value() == 2u);
  BOOST_TEST(static_cast<int>(world.tree.reachable(old_file).error()) == ESTALE);
  BOOST_TEST(world.at(world.workspace.device_root(), "ws").size == 1u);
  BOOST_TEST(world.at(world.workspace.device_root(), "ws/2").ino == world.workspace.root());
  BOOST_TEST(world.tree.reachable(world.workspace.root()).has_value());
  unsigned steps = 0;
  while (world.sweeper.step(50)) ++steps;
  BOOST_TEST(steps > 1u);  // it yields
  world.settle();
  BOOST_TEST(world.tree.usage().inodes == empty.inodes);
  BOOST_TEST(world.tree.usage().bytes == empty.bytes);
}

BOOST_AUTO_TEST_CASE(an_import_goes_into_an_empty_epoch_only) {
  World world;
  ImportBytes cut;
  cut.root().file("half", "x");
  BOOST_REQUIRE(world.workspace.import(cut.so_far(), true));
  BOOST_TEST(!world.workspace.import(sys::Bytes(3, std::byte{1}), false).has_value());
  world.settle();
  BOOST_TEST(world.tree.getattr(world.workspace.root())->size == 0u);
  BOOST_TEST(world.workspace.epoch() == 1u);
  BOOST_REQUIRE(world.workspace.import(ImportBytes().root().file("f", "x").end(), false));
  BOOST_TEST(world.workspace.import(ImportBytes().root().end(), false).error().kind == ErrorKind::conflict);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(snapshots)

BOOST_AUTO_TEST_CASE(paths_mean_what_the_turn_of_the_snapshot_had) {
  World world;
  BOOST_REQUIRE(world.turns.import_input("data", ImportBytes().root().end(), false));
  BOOST_REQUIRE(world.turns.begin(begin_main(kTurnA, {"data"})));
  const uint64_t before = world.snapshots.take(world.workspace.root(), **world.turns.find(kTurnA));
  BOOST_REQUIRE(world.turns.begin_stage(kTurnA, "run"));
  const uint64_t after = world.snapshots.take(world.workspace.root(), **world.turns.find(kTurnA));
  {
    const auto at_begin = world.snapshots.find(before).value();
    BOOST_TEST(Snapshots::resolve(*at_begin, "workspace").value() == world.workspace.root());
    BOOST_TEST(Snapshots::resolve(*at_begin, "inputs/data").value() ==
               world.at(world.turn_dir(kTurnA), "inputs/data").ino);
    BOOST_TEST(Snapshots::resolve(*at_begin, "outputs/run").error().kind == ErrorKind::not_found);
    BOOST_TEST(Snapshots::resolve(*world.snapshots.find(after).value(), "outputs/run").value() ==
               world.at(world.turn_dir(kTurnA), "stages/01-run/outputs").ino);
    BOOST_TEST(Snapshots::resolve(*at_begin, "inputs/other").error().kind == ErrorKind::not_found);
    BOOST_TEST(Snapshots::resolve(*at_begin, "etc").error().kind == ErrorKind::invalid);
    // A lease outlives the release.
    BOOST_REQUIRE(world.snapshots.release(before));
    BOOST_TEST(world.released == 0u);
    BOOST_TEST(at_begin->snapshot.getattr(world.workspace.root()).has_value());
  }
  BOOST_TEST(world.released == 1u);
  BOOST_TEST(world.snapshots.release(before).error().kind == ErrorKind::not_found);
  BOOST_REQUIRE(world.snapshots.release(after));
  BOOST_TEST(world.released == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::turn
