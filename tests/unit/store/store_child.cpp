// A second process on a state directory, for the tests that need one:
//   store_child commit STATE FIRST COUNT  commits COUNT turns FIRST, FIRST+1, … of a demand of its own
//   store_child hang STATE                writes objects inside a commit, says «in» on stdout, and waits to
//   be killed store_child open STATE                opens the store as user nobody (root only) and prints the
//   error's text
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
  return 2;
}
