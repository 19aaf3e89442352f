#include "tests/bench/wire_session.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <numeric>

namespace turnbox::bench {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
T reply_of(const Slot& slot) {
  T value;
  std::memcpy(&value, slot.reply + sizeof(fuse_out_header), sizeof value);
  return value;
}

struct Created {
  fuse_entry_out entry;
  fuse_open_out open;
};

std::string name_of(unsigned i) {
  return "file-" + std::to_string(i) + ".txt";
}

}  // namespace

Shape Session::message(Slot& slot, uint32_t opcode, uint64_t node, std::span<const std::byte> fixed,
                       const std::string* name, size_t reply) {
  size_t size = sizeof(fuse_in_header) + fixed.size() + (name != nullptr ? name->size() + 1 : 0);
  fuse_in_header head{};
  head.len = static_cast<uint32_t>(size);
  head.opcode = opcode;
  head.unique = unique_ += 2;
  head.nodeid = node;
  head.pid = 1;
  std::memcpy(slot.request, &head, sizeof head);
  if (!fixed.empty()) std::memcpy(slot.request + sizeof head, fixed.data(), fixed.size());
  if (name != nullptr)
    std::memcpy(slot.request + sizeof head + fixed.size(), name->c_str(), name->size() + 1);
  return {.request = size, .reply = reply};
}

void Session::check(const Slot& slot, unsigned i) const {
  fuse_out_header head;
  std::memcpy(&head, slot.reply, sizeof head);
  if (head.error == 0) return;
  support::give_up("message " + std::to_string(i) + " of opcode " + std::to_string(opcode_) +
                   " was answered with " + std::strerror(-head.error));
}

double Session::timed(unsigned count, unsigned depth, const Fill& fill, const Done& done) {
  port_.set_patience(depth > 1);
  under_way_.assign(port_.slots(), 0);
  std::vector<unsigned> free(std::min(depth, port_.slots()));
  std::iota(free.begin(), free.end(), 0U);
  unsigned sent = 0, answered = 0;
  bool replies = true;
  const auto start = std::chrono::steady_clock::now();
  while (answered < count) {
    while (!free.empty() && sent < count) {
      const unsigned slot = free.back();
      free.pop_back();
      const Shape shape = fill(sent, port_.slot(slot));
      replies = shape.reply != 0;
      under_way_[slot] = sent++;
      port_.submit(slot, shape);
    }
    const unsigned slot = port_.wait();
    const unsigned i = under_way_[slot];
    if (replies) check(port_.slot(slot), i);
    if (done) done(i, port_.slot(slot));
    free.push_back(slot);
    ++answered;
  }
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / count;
}

const std::byte* Session::ask(uint32_t opcode, uint64_t node, std::span<const std::byte> fixed,
                              const std::string* name, size_t reply) {
  opcode_ = opcode;
  timed(1, 1, [&](unsigned, Slot& slot) {
    return message(slot, opcode, node, fixed, name, sizeof(fuse_out_header) + reply);
  });
  return port_.slot(0).reply + sizeof(fuse_out_header);
}

void Session::begin(const std::string& path, size_t content) {
  fuse_init_in init{};
  init.major = FUSE_KERNEL_VERSION;
  init.minor = 36;
  init.max_readahead = 1 << 20;
  init.flags = ~uint32_t{0} & ~static_cast<uint32_t>(FUSE_INIT_EXT);
  ask(FUSE_INIT, 0, bytes_of(init), nullptr, sizeof(fuse_init_out));
  uint64_t node = FUSE_ROOT_ID;
  const auto entry = [&](uint32_t opcode, std::span<const std::byte> fixed, const std::string& name) {
    fuse_entry_out out;
    std::memcpy(&out, ask(opcode, node, fixed, &name, sizeof out), sizeof out);
    node = out.nodeid;
  };
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    entry(FUSE_LOOKUP, {}, path.substr(at, end - at));
    at = end + 1;
  }
  entry(FUSE_MKDIR, bytes_of(fuse_mkdir_in{.mode = 0755, .umask = 022}), "bench");
  dir_ = node;
  const fuse_create_in make{.flags = O_RDWR | O_CREAT, .mode = S_IFREG | 0644, .umask = 022, .open_flags = 0};
  const std::string name = "content";
  Created made;
  std::memcpy(&made, ask(FUSE_CREATE, dir_, bytes_of(make), &name, sizeof made), sizeof made);
  content_ = {made.entry.nodeid, made.open.fh, 1};
  content_size_ = content;
  for (unsigned i = 0; i < port_.slots(); ++i) std::memset(port_.slot(i).pages, 0x5a, kMaxPayload);
  write(std::min(content, kMaxPayload), static_cast<unsigned>(std::max<size_t>(1, content / kMaxPayload)), 4);
}

double Session::create(unsigned count, unsigned depth) {
  names_.clear();
  files_.assign(count, {});
  for (unsigned i = 0; i < count; ++i) names_.push_back(name_of(i));
  const fuse_create_in make{
      .flags = O_RDWR | O_CREAT | O_EXCL, .mode = S_IFREG | 0644, .umask = 022, .open_flags = 0};
  opcode_ = FUSE_CREATE;
  const double took = timed(
      count, depth,
      [&](unsigned i, Slot& slot) {
        return message(slot, FUSE_CREATE, dir_, bytes_of(make), &names_[i],
                       sizeof(fuse_out_header) + sizeof(Created));
      },
      [&](unsigned i, const Slot& slot) {
        const auto made = reply_of<Created>(slot);
        files_[i] = {made.entry.nodeid, made.open.fh, 1};
      });
  release_all();
  return took;
}

double Session::create_and_close(unsigned count, unsigned depth) {
  const auto start = std::chrono::steady_clock::now();
  create(count, depth);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / count;
}

void Session::release_all() {
  if (!handles_) return;
  opcode_ = FUSE_RELEASE;
  timed(static_cast<unsigned>(files_.size()), port_.slots(), [&](unsigned i, Slot& slot) {
    fuse_release_in in{};
    in.fh = files_[i].handle;
    in.flags = O_RDWR;
    return message(slot, FUSE_RELEASE, files_[i].node, bytes_of(in), nullptr, sizeof(fuse_out_header));
  });
}

double Session::lookup(unsigned depth) {
  opcode_ = FUSE_LOOKUP;
  return timed(static_cast<unsigned>(files_.size()), depth, [&](unsigned i, Slot& slot) {
    ++files_[i].lookups;
    return message(slot, FUSE_LOOKUP, dir_, {}, &names_[i], sizeof(fuse_out_header) + sizeof(fuse_entry_out));
  });
}

double Session::getattr(unsigned depth) {
  const fuse_getattr_in in{};
  opcode_ = FUSE_GETATTR;
  return timed(static_cast<unsigned>(files_.size()), depth, [&](unsigned i, Slot& slot) {
    return message(slot, FUSE_GETATTR, files_[i].node, bytes_of(in), nullptr,
                   sizeof(fuse_out_header) + sizeof(fuse_attr_out));
  });
}

double Session::unlink(unsigned depth) {
  opcode_ = FUSE_UNLINK;
  const double took = timed(static_cast<unsigned>(files_.size()), depth, [&](unsigned i, Slot& slot) {
    return message(slot, FUSE_UNLINK, dir_, {}, &names_[i], sizeof(fuse_out_header));
  });
  forget_all();
  return took;
}

// Every lookup of the last files; a create counts as one.
void Session::forget_all() {
  timed(static_cast<unsigned>(files_.size()), port_.slots(), [&](unsigned i, Slot& slot) {
    const fuse_forget_in in{.nlookup = files_[i].lookups};
    return message(slot, FUSE_FORGET, files_[i].node, bytes_of(in), nullptr, 0);
  });
  files_.clear();
}

double Session::read(size_t size, unsigned count, unsigned depth) {
  opcode_ = FUSE_READ;
  return timed(count, depth, [&](unsigned i, Slot& slot) {
    fuse_read_in in{};
    in.fh = content_.handle;
    in.offset = i * size % content_size_;
    in.size = static_cast<uint32_t>(size);
    Shape shape = message(slot, FUSE_READ, content_.node, bytes_of(in), nullptr, sizeof(fuse_out_header));
    shape.payload = size;
    shape.way = Shape::Way::from_server;
    return shape;
  });
}

double Session::write(size_t size, unsigned count, unsigned depth) {
  opcode_ = FUSE_WRITE;
  return timed(count, depth, [&](unsigned i, Slot& slot) {
    fuse_write_in in{};
    in.fh = content_.handle;
    in.offset = i * size % content_size_;
    in.size = static_cast<uint32_t>(size);
    Shape shape = message(slot, FUSE_WRITE, content_.node, bytes_of(in), nullptr,
                          sizeof(fuse_out_header) + sizeof(fuse_write_out));
    fuse_in_header head;
    std::memcpy(&head, slot.request, sizeof head);
    head.len += static_cast<uint32_t>(size);
    std::memcpy(slot.request, &head, sizeof head);
    shape.payload = size;
    shape.way = Shape::Way::to_server;
    return shape;
  });
}

}  // namespace turnbox::bench
