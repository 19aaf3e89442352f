// What the wire bench asks of a FUSE server, as a guest's kernel would, and how long each takes.
//
// Contract: a server with handles (`handles`) gets the RELEASE that every CREATE and OPEN owes it, a server
// without gets none. Messages that belong to no timed figure (releases, forgets, set-up) are sent between the
// timings.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/bench/wire_port.h"

namespace turnbox::bench {

class Session {
 public:
  Session(Port& port, bool handles) : port_(port), handles_(handles) {}

  // INIT, then a fresh directory below `path` and a file of `content` bytes in it.
  void begin(const std::string& path, size_t content);

  // Nanoseconds a message, `depth` of them in flight. The files are those of the last create().
  double create(unsigned count, unsigned depth);
  double create_and_close(unsigned count, unsigned depth);  // with the RELEASEs, where there are any
  double lookup(unsigned depth);
  double getattr(unsigned depth);
  double unlink(unsigned depth);
  // `size` bytes at a time, up and down the content file.
  double read(size_t size, unsigned count, unsigned depth);
  double write(size_t size, unsigned count, unsigned depth);

 private:
  struct File {
    uint64_t node = 0, handle = 0, lookups = 0;
  };
  using Fill = std::function<Shape(unsigned i, Slot& slot)>;
  using Done = std::function<void(unsigned i, const Slot& slot)>;

  double timed(unsigned count, unsigned depth, const Fill& fill, const Done& done = {});
  Shape message(Slot& slot, uint32_t opcode, uint64_t node, std::span<const std::byte> fixed,
                const std::string* name, size_t reply);
  // One message; the fixed part of its reply.
  const std::byte* ask(uint32_t opcode, uint64_t node, std::span<const std::byte> fixed,
                       const std::string* name, size_t reply);
  void release_all();
  void forget_all();
  void check(const Slot& slot, unsigned i) const;

  Port& port_;
  bool handles_;
  uint64_t unique_ = 0;
  uint32_t opcode_ = 0;  // of what is under way, for a complaint
  uint64_t dir_ = 0;
  File content_{};
  size_t content_size_ = 0;
  std::vector<std::string> names_;
  std::vector<File> files_;
  std::vector<unsigned> under_way_;  // by slot: which message it carries
};

}  // namespace turnbox::bench
