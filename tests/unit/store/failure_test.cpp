// The store when something goes wrong around it: other processes, kills, a cut file, schemas of tomorrow.
#include <fcntl.h>
#include <lmdb.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "tests/support/temp_dir.h"
#include "tests/unit/store/sample.h"
#include "vmm/sys/process.h"

namespace turnbox::store {

using sys::ErrorKind;
using test::TempDir;

namespace {

struct Started {
  sys::Process process;
  sys::Fd output;
};

Started start(std::vector<std::string> args) {
  const char* program = std::getenv("STORE_CHILD");
  BOOST_REQUIRE(program != nullptr);
  int ends[2];
  BOOST_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  Started child;
  child.output = sys::Fd(ends[0]);
  const sys::Fd write_end(ends[1]);
  args.insert(args.begin(), program);
  auto spawned =
      sys::Process::spawn({.program = program, .argv = args, .env = {}, .fds = {{write_end.get(), 1}}});
  BOOST_REQUIRE(spawned.has_value());
  child.process = std::move(*spawned);
  return child;
}

int code_of(Started& child) {
  const auto ended = child.process.wait_for(std::chrono::minutes(2));
  BOOST_REQUIRE(ended.has_value());
  return ended->signalled ? -ended->code : ended->code;
}

std::string all_of(const Started& child) {
  std::string text(4096, '\0');
  text.resize(*sys::read_full(child.output.get(), std::as_writable_bytes(std::span(text))));
  return text;
}

// Overwrites one row of `meta` behind the store's back.
void set_meta(const std::string& state, const char* name, std::string_view value) {
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  BOOST_REQUIRE(::mdb_env_create(&env) == 0);
  ::mdb_env_set_maxdbs(env, 12);
  BOOST_REQUIRE(::mdb_env_open(env, (state + "/store").c_str(), 0, 0600) == 0);
  BOOST_REQUIRE(::mdb_txn_begin(env, nullptr, 0, &txn) == 0);
  BOOST_REQUIRE(::mdb_dbi_open(txn, "meta", 0, &dbi) == 0);
  MDB_val key{std::strlen(name), const_cast<char*>(name)};
  MDB_val data{value.size(), const_cast<char*>(value.data())};
  BOOST_REQUIRE(::mdb_put(txn, dbi, &key, &data, 0) == 0);
  BOOST_REQUIRE(::mdb_txn_commit(txn) == 0);
  ::mdb_env_close(env);
}

sys::Error open_error(const std::string& state) {
  const auto opened = Store::open(state);
  BOOST_REQUIRE(!opened.has_value());
  return opened.error();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(failure)

BOOST_AUTO_TEST_CASE(processes_that_commit_at_once_all_land) {
  const TempDir dir;
  std::vector<Started> children;
  // They also race to make the store.
  for (const char* first : {"100", "200", "300", "400"})
    children.push_back(start({"commit", dir.path(), first, "25"}));
  for (Started& child : children) BOOST_TEST(code_of(child) == 0);
  auto opened = Store::open(dir.path());
  BOOST_REQUIRE(opened.has_value());
  const auto all = opened->list();
  BOOST_REQUIRE(all->size() == 100);
  for (size_t i = 0; i < all->size(); ++i) BOOST_TEST((*all)[i].sequence == i + 1);
  const auto heads = opened->read()->heads();
  BOOST_REQUIRE(heads->size() == 4);
  for (const Head& head : *heads) BOOST_TEST(head.chain_index == 24);
}

BOOST_AUTO_TEST_CASE(a_store_that_another_process_grew_is_still_written_and_read) {
  const TempDir dir;
  auto opened = Store::open(dir.path(), {.map_bytes = 1 << 20});
  BOOST_REQUIRE(commit_plain(*opened, 1).has_value());
  auto child = start({"commit", dir.path(), "100", "300"});
  BOOST_TEST(code_of(child) == 0);
  BOOST_TEST(opened->list()->size() == 301);
  BOOST_TEST(commit_plain(*opened, 2).has_value());
}

BOOST_AUTO_TEST_CASE(kill_inside_a_commit_leaves_nothing_of_it) {
  const TempDir dir;
  {
    auto opened = Store::open(dir.path());
    BOOST_REQUIRE(commit_plain(*opened, 1).has_value());
  }
  auto child = start({"hang", dir.path()});
  char in[3];
  BOOST_REQUIRE(*sys::read_full(child.output.get(), std::as_writable_bytes(std::span(in))) == 3);
  BOOST_REQUIRE(child.process.signal(SIGKILL).has_value());
  BOOST_TEST(code_of(child) == -SIGKILL);
  auto opened = Store::open(dir.path());
  BOOST_REQUIRE(opened.has_value());
  BOOST_TEST(opened->list()->size() == 1);
  BOOST_TEST(commit_plain(*opened, 2)->chain_index == 1);
}

// As stores were before there were forks.
BOOST_AUTO_TEST_CASE(a_store_without_the_database_of_forks_gets_it) {
  const TempDir dir;
  { BOOST_REQUIRE(Store::open(dir.path()).has_value()); }
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  BOOST_REQUIRE(::mdb_env_create(&env) == 0);
  ::mdb_env_set_maxdbs(env, 13);
  BOOST_REQUIRE(::mdb_env_open(env, (dir.path() + "/store").c_str(), 0, 0600) == 0);
  BOOST_REQUIRE(::mdb_txn_begin(env, nullptr, 0, &txn) == 0);
  BOOST_REQUIRE(::mdb_dbi_open(txn, "workspaces", 0, &dbi) == 0);
  BOOST_REQUIRE(::mdb_drop(txn, dbi, 1) == 0);
  BOOST_REQUIRE(::mdb_txn_commit(txn) == 0);
  ::mdb_env_close(env);
  auto store = Store::open(dir.path());
  BOOST_REQUIRE_MESSAGE(store.has_value(), (store ? "" : store.error().text));
  BOOST_TEST(store->workspaces().value().empty());
  BOOST_TEST(!store->find_workspace("fresh").value().has_value());
}

BOOST_AUTO_TEST_CASE(newer_schema_and_unknown_feature_are_refused_by_name) {
  const TempDir dir;
  { BOOST_REQUIRE(Store::open(dir.path()).has_value()); }
  set_meta(dir.path(), "features", "winter");
  const auto feature = open_error(dir.path());
  BOOST_TEST((feature.kind == ErrorKind::refused));
  BOOST_TEST(feature.text.find("winter") != std::string::npos);
  set_meta(dir.path(), "features", "");
  { BOOST_REQUIRE(Store::open(dir.path()).has_value()); }
  set_meta(dir.path(), "schema", std::string_view("\2\0\0\0", 4));
  const auto schema = open_error(dir.path());
  BOOST_TEST((schema.kind == ErrorKind::refused));
  BOOST_TEST(schema.text.find("schema version 2") != std::string::npos);
  BOOST_TEST(schema.text.find("--state") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_directory_that_cannot_be_made_or_written_is_named) {
  const TempDir dir;
  std::filesystem::permissions(dir.path(), std::filesystem::perms(0755));
  BOOST_REQUIRE(sys::replace_file(dir.path() + "/file", "", 0644).has_value());
  const auto below_file = open_error(dir.path() + "/file/state");
  BOOST_TEST((below_file.kind == ErrorKind::unavailable));
  BOOST_TEST(below_file.text.find(dir.path() + "/file/state") != std::string::npos);
  if (::geteuid() != 0) return;  // the rest needs another user to fail as
  { BOOST_REQUIRE(Store::open(dir.path() + "/state").has_value()); }
  auto child = start({"open", dir.path() + "/state"});
  const std::string said = all_of(child);
  BOOST_TEST(code_of(child) == 1);
  BOOST_TEST(said.find(dir.path() + "/state") != std::string::npos);
  BOOST_TEST(said.find("--state DIR") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_data_file_that_was_cut_is_an_error_and_no_crash) {
  const TempDir dir;
  {
    auto opened = Store::open(dir.path());
    for (unsigned i = 1; i <= 50; ++i) BOOST_REQUIRE(commit_plain(*opened, i).has_value());
  }
  const std::string data = dir.path() + "/store/data.mdb";
  const auto whole = std::filesystem::file_size(data);
  for (const uintmax_t left :
       {whole - 4096, whole / 2, uintmax_t{3 * 4096}, uintmax_t{4096}, uintmax_t{100}}) {
    std::filesystem::resize_file(data, left);
    auto opened = Store::open(dir.path());
    if (!opened) continue;  // one sentence is as good
    const auto all = opened->list();
    BOOST_TEST((!all || all->size() <= 50));
  }
}

BOOST_AUTO_TEST_CASE(a_file_that_is_no_store_is_refused) {
  const TempDir dir;
  std::filesystem::create_directory(dir.path() + "/store");
  BOOST_REQUIRE(sys::replace_file(dir.path() + "/store/data.mdb", std::string(8192, 'x'), 0600).has_value());
  const auto error = open_error(dir.path());
  BOOST_TEST((error.kind == ErrorKind::invalid));
  BOOST_TEST(error.text.find("damaged") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(one_process_opens_a_store_once) {
  const TempDir dir;
  {
    auto opened = Store::open(dir.path());
    BOOST_TEST((Store::open(dir.path()).error().kind == ErrorKind::conflict));
  }
  BOOST_TEST(Store::open(dir.path()).has_value());
}

BOOST_AUTO_TEST_CASE(descriptors_of_the_store_are_close_on_exec) {
  const TempDir dir;
  auto opened = Store::open(dir.path());
  unsigned seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    if (gone || !target.string().starts_with(dir.path())) continue;
    ++seen;
    BOOST_TEST((::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC) != 0);
  }
  BOOST_TEST(seen >= 2);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::store
