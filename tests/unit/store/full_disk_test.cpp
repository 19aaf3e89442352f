// A disk that fills up in mid-commit: needs to mount a small tmpfs.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#define BOOST_TEST_MODULE full_disk
#define BOOST_TEST_NO_MAIN
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <filesystem>

#include "tests/support/temp_dir.h"
#include "tests/unit/store/sample.h"

namespace turnbox::store {

using sys::ErrorKind;

namespace {

std::string where;  // the tmpfs, 8 MiB

// Chunks that nothing else has, `count` of them.
SampleObjects chunks(unsigned count, unsigned from) {
  SampleObjects objects;
  for (unsigned i = 0; i < count; ++i) {
    sys::Bytes bytes(kChunkBytes, std::byte{1});
    sys::store_le<uint32_t>(bytes.data(), from + i);
    objects.add(ObjectKind::chunk, std::move(bytes));
  }
  return objects;
}

}  // namespace

BOOST_AUTO_TEST_CASE(full_disk_keeps_nothing_reads_go_on_and_space_heals_it) {
  auto opened = Store::open(where + "/state");
  BOOST_REQUIRE(opened.has_value());
  // Somebody else takes half of the disk; turns come until theirs is the last page.
  const std::string filler = where + "/filler";
  BOOST_REQUIRE(sys::replace_file(filler, std::string(4 << 20, 'x'), 0600).has_value());
  unsigned number = 1;
  sys::Result<ChainPlace> done;
  for (; number < 100; ++number) {
    auto some = chunks(4, number * 10);
    done = opened->commit(key_of(number), {}, some, plain_record("r"));
    if (!done) break;
  }
  BOOST_REQUIRE(!done.has_value());
  BOOST_TEST((done.error().kind == ErrorKind::limit));
  BOOST_TEST(done.error().text.find("no space is left") != std::string::npos);
  const size_t before = opened->list()->size();
  BOOST_TEST(before == number - 1);
  BOOST_TEST(opened->load_record(turn_id(1)).has_value());
  BOOST_TEST((commit_plain(*opened, 1).error().kind == ErrorKind::conflict));  // not confused

  std::filesystem::remove(filler);
  auto again = chunks(4, number * 10);
  BOOST_TEST(opened->commit(key_of(number), {}, again, plain_record("r"))->chain_index == before);
  BOOST_TEST(opened->list()->size() == before + 1);
}

BOOST_AUTO_TEST_CASE(a_turn_larger_than_the_disk_is_refused_whole) {
  auto opened = Store::open(where + "/other");
  auto large = chunks(200, 1000);
  const auto refused = opened->commit(key_of(2), {}, large, plain_record("r"));
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().kind == ErrorKind::limit));
  BOOST_TEST(opened->list()->empty());
  BOOST_TEST(commit_plain(*opened, 2).has_value());
}

BOOST_AUTO_TEST_CASE(a_store_that_cannot_even_be_made_is_one_sentence) {
  const std::string full = where + "/full";
  std::filesystem::remove_all(where + "/other");
  std::filesystem::create_directory(full);
  {
    const auto filler = sys::open_fd((where + "/filler").c_str(), O_WRONLY | O_CREAT, 0600);
    const sys::Bytes page(4096);
    while (sys::write_full(filler->get(), page)) {
    }
  }
  const auto refused = Store::open(full + "/state");
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().kind == ErrorKind::limit));
  std::filesystem::remove(where + "/filler");
  BOOST_TEST(Store::open(full + "/state").has_value());
}

}  // namespace turnbox::store

int main(int argc, char** argv) {
  const turnbox::test::TempDir dir;
  turnbox::store::where = dir.path();
  if (::unshare(CLONE_NEWNS) < 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0 ||
      ::mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=8m") < 0) {
    std::perror("full_disk: cannot mount a tmpfs of its own");
    const char* must = std::getenv("TURNBOX_MUST_RUN");
    return must != nullptr && std::string(must).find("mount") != std::string::npos ? 1 : 77;
  }
  const int result = boost::unit_test::unit_test_main(&init_unit_test, argc, argv);
  ::umount2(dir.path().c_str(), MNT_DETACH);
  return result;
}
