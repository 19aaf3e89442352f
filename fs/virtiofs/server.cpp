#include "fs/virtiofs/server.h"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <ctime>

#include "vmm/sys/result.h"

namespace turnbox::virtiofs {

namespace {

fs::Time wall_clock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return {.sec = now.tv_sec, .nsec = static_cast<uint32_t>(now.tv_nsec)};
}

Options completed(Options options) {
  if (!options.now) options.now = wall_clock;
  return options;
}

bool is_served(Served served, Contract contract) {
  switch (served) {
    case Served::both:
      return true;
    case Served::workspace:
      return contract == Contract::workspace;
    case Served::turn:
      return contract == Contract::turn;
    case Served::nowhere:
      return false;
  }
  return false;
}

}  // namespace

Server::Server(fs::Tree& tree, Options options)
    : tree_(tree), options_(completed(std::move(options))), session_(tree_, options_) {
  TURNBOX_ASSERT(options_.root != fs::kNoIno);
}

uint32_t Server::serve(const vhost::Chain& chain, bool hiprio) {
  vhost::ChainReader reader = chain.reader();
  fuse_in_header head{};
  if (!reader.read(std::as_writable_bytes(std::span(&head, 1)))) {
    ++counters_.dropped;
    return 0;
  }
  ++counters_.requests;
  const Opcode* op = find_opcode(head.opcode);
  if (op != nullptr) ++seen_[op->code];
  const Answer answer = op != nullptr ? op->answer : Answer::always;
  const bool has_room = chain.writable_bytes() >= sizeof(fuse_out_header);
  if (answer == Answer::always && !has_room) {
    ++counters_.dropped;
    return 0;
  }
  // What has no reply must never write into a chain either, whatever the guest attached to it.
  const bool replies = answer != Answer::never && has_room;
  std::array<std::byte, sizeof(fuse_out_header)> nowhere{};
  const std::array<std::span<std::byte>, 1> scratch{nowhere};
  Reply reply(replies ? chain.writer() : vhost::ChainWriter(scratch), head.unique);
  auto done = admit(chain, op, head, reader, hiprio).and_then([&](const Request& request) {
    return (this->*op->handler)(request, reply);
  });
  if (!replies) return 0;
  if (done) return reply.finish();
  ++counters_.errors;
  return reply.fail(done.error());
}

// Every rule that holds for all requests, in the order in which breaking it is told.
fs::Expected<Request> Server::admit(const vhost::Chain& chain, const Opcode* op, const fuse_in_header& head,
                                    vhost::ChainReader reader, bool hiprio) {
  if (head.len != chain.readable_bytes())
    return malformed(EINVAL, head, "header length is not the request's");
  if (!session_.begun() && head.opcode != FUSE_INIT) {
    ++counters_.before_init;
    return fs::err(EIO);
  }
  if (op == nullptr || !is_served(op->served, options_.contract)) return fs::err(ENOSYS);
  if (hiprio && op->answer != Answer::never)
    return malformed(EINVAL, head, "not a request for the hiprio queue");
  if (op->answer == Answer::always && head.unique == 0) return malformed(EINVAL, head, "unique is 0");
  if (sys::load_le<uint16_t>(std::as_bytes(std::span(&head, 1)).data() + kExtlenOffset) != 0) {
    return malformed(EINVAL, head, "extensions that were not negotiated");
  }
  if (op->answer == Answer::always && chain.writable_bytes() < sizeof(fuse_out_header) + op->reply) {
    return malformed(EINVAL, head, "no room for the reply");
  }
  auto request = decode(*op, head, reader, args_);
  if (!request) {  // EINVAL is a breach; the rest an honest kernel sends too, a name too long for us among it
    return request.error() == fs::Errno{EINVAL} ? malformed(EINVAL, head, "arguments or names")
                                                : tl::make_unexpected(request.error());
  }
  if (op->node) {
    TRY_ASSIGN(request->ino, node(head.nodeid));
  }
  return request;
}

fs::Expected<fs::Ino> Server::node(uint64_t node_id) {
  auto ino = session_.resolve(node_id);
  if (!ino) {
    ++counters_.unknown_nodes;
    return ino;
  }
  TRY(tree_.reachable(*ino));
  return ino;
}

fs::Expected<Handle> Server::handle(uint64_t number, fs::Ino ino, bool directory) {
  auto found = session_.handle(number, ino, directory);
  if (!found) ++counters_.bad_handles;
  return found;
}

fs::Expected<fs::Zone> Server::zone_of(fs::Ino ino) const {
  TRY_ASSIGN(const fs::Attr attr, tree_.getattr(ino));
  return tree_.zone(attr.zone);
}

tl::unexpected<fs::Errno> Server::malformed(int error, const fuse_in_header& head, const char* rule) {
  ++counters_.malformed;
  if (log_.pass()) {
    spdlog::warn("{}: refused a request (opcode {}): {}; {} lines like this were left out", options_.name,
                 head.opcode, rule, log_.take_suppressed());
  }
  return fs::err(error);
}

}  // namespace turnbox::virtiofs
