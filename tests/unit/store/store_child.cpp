// A second process on a state directory, for the tests that need one:
//   store_child commit STATE FIRST COUNT  commits COUNT turns FIRST, FIRST+1, … of a demand of its own
//   store_child hang STATE                writes objects inside a commit, says «in» on stdout, and waits to
//   be killed store_child open STATE                opens the store as user nobody (root only) and prints the
//   error's text
#include <lmdb.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/unit/store/sample.h"

namespace turnbox::store {
namespace {

int commit_many(const char* state, unsigned first, unsigned count) {
  auto opened = Store::open(state);
  if (!opened) return std::fprintf(stderr, "%s\n", opened.error().text.c_str()), 1;
  for (unsigned i = first; i < first + count; ++i) {
    SampleObjects objects;
    const Root root{ObjectKind::file, objects.add_file("turn " + std::to_string(i))};
    const auto done =
        opened->commit(key_of(i, "demand-" + std::to_string(first)), {&root, 1}, objects, plain_record("r"));
    if (!done) return std::fprintf(stderr, "%s\n", done.error().text.c_str()), 1;
  }
  return 0;
}

// 64 MiB of chunks, then silence.
class Hanging : public ObjectSource {
 public:
  sys::Status rewind() override { return {}; }
  sys::Result<std::optional<Object>> next() override {
    if (made_ == 1'024) {
      std::puts("in");
      std::fflush(stdout);
      for (;;) ::pause();
    }
    bytes_.assign(kChunkBytes, static_cast<std::byte>(made_));
    std::memcpy(bytes_.data(), &made_, sizeof made_);
    ++made_;
    return Object{ObjectKind::chunk, sys::digest_of("chunk", bytes_), bytes_};
  }

 private:
  unsigned made_ = 0;
  sys::Bytes bytes_;
};

int hang(const char* state) {
  auto opened = Store::open(state);
  if (!opened) return 1;
  Hanging objects;
  return opened->commit(key_of(999), {}, objects, plain_record("r")) ? 0 : 1;
}

int open_as_nobody(const char* state) {
  if (::setresgid(65534, 65534, 65534) < 0 || ::setresuid(65534, 65534, 65534) < 0) return 77;
  const auto opened = Store::open(state);
  std::puts(opened ? "opened" : opened.error().text.c_str());
  return opened ? 0 : 1;
}

// Writes the number of a schema of tomorrow behind the store's back.
int set_schema(const char* state, uint32_t version) {
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  MDB_val key{6, const_cast<char*>("schema")}, data{sizeof version, &version};
  const std::string store = std::string(state) + "/store";
  const bool done = ::mdb_env_create(&env) == 0 && ::mdb_env_set_maxdbs(env, 4) == 0 &&
                    ::mdb_env_open(env, store.c_str(), 0, 0600) == 0 &&
                    ::mdb_txn_begin(env, nullptr, 0, &txn) == 0 &&
                    ::mdb_dbi_open(txn, "meta", 0, &dbi) == 0 && ::mdb_put(txn, dbi, &key, &data, 0) == 0 &&
                    ::mdb_txn_commit(txn) == 0;
  return done ? 0 : 1;
}

}  // namespace
}  // namespace turnbox::store

int main(int argc, char** argv) {
  using namespace turnbox::store;
  const std::string verb = argc > 2 ? argv[1] : "";
  if (verb == "commit" && argc == 5) {
    return commit_many(argv[2], static_cast<unsigned>(std::atoi(argv[3])),
                       static_cast<unsigned>(std::atoi(argv[4])));
  }
  if (verb == "hang") return hang(argv[2]);
  if (verb == "open") return open_as_nobody(argv[2]);
  if (verb == "schema" && argc == 4) return set_schema(argv[2], static_cast<uint32_t>(std::atoi(argv[3])));
  return 2;
}
