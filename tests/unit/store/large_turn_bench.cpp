// One turn of 400 MiB in one transaction: does it land, how long does it take, how much memory beside its own
// bytes.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "tests/support/temp_dir.h"
#include "tests/unit/store/sample.h"

namespace turnbox::store {
namespace {

constexpr unsigned kChunks = 6'400;

// Made one after the other, as they would come out of a memfd.
class Chunks : public ObjectSource {
 public:
  sys::Status rewind() override {
    made_ = 0;
    return {};
  }
  sys::Result<std::optional<Object>> next() override {
    if (made_ == kChunks) return std::optional<Object>();
    bytes_.assign(kChunkBytes, std::byte{7});
    std::memcpy(bytes_.data(), &made_, sizeof made_);
    ++made_;
    return Object{ObjectKind::chunk, sys::digest_of("chunk", bytes_), bytes_};
  }

 private:
  unsigned made_ = 0;
  sys::Bytes bytes_;
};

int run() {
  const test::TempDir dir;
  auto opened = Store::open(dir.path());
  if (!opened) return std::fprintf(stderr, "%s\n", opened.error().text.c_str()), 1;
  Chunks chunks;
  const auto start = std::chrono::steady_clock::now();
  const auto done = opened->commit(key_of(1), {}, chunks, plain_record("r"));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (!done) return std::fprintf(stderr, "%s\n", done.error().text.c_str()), 1;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  std::printf("400 MiB in one commit: %.2f s, peak memory %ld MiB\n", took.count(), usage.ru_maxrss / 1024);
  return usage.ru_maxrss / 1024 < 600 ? 0 : 1;
}

}  // namespace
}  // namespace turnbox::store

int main() {
  return turnbox::store::run();
}
