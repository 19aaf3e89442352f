// The opcode table: one line per FUSE request, with everything the dispatcher checks before a handler runs.
#pragma once

#include <cstdint>
#include <span>

#include "fs/tree/types.h"

namespace turnbox::virtiofs {

class Server;
class Reply;
struct Request;

// What follows the fixed arguments.
enum class Tail : uint8_t {
  nothing,
  name,             // one name
  two_names,        // RENAME
  name_and_target,  // SYMLINK
  xattr,            // the name of an extended attribute
  xattr_and_bytes,  // SETXATTR: the value is left in guest memory
  bytes,            // left in guest memory for the handler: WRITE, BATCH_FORGET
  unread,           // anything, ignored: INIT of a newer kernel, what answers ENOSYS
};

enum class Answer : uint8_t {
  always,
  if_room,  // DESTROY: some kernels leave none
  never,    // FORGET and what else has no reply; the only ones that may stand on the hiprio queue
};

enum class Served : uint8_t {
  both,
  workspace,
  turn,
  nowhere
};  // elsewhere ENOSYS, which the kernel remembers

using Handler = fs::Expected<void> (Server::*)(const Request&, Reply&);

struct Opcode {
  uint32_t code;
  const char* name;  // of its counter
  Served served;
  bool node;      // header.nodeid must be one the session holds
  uint16_t args;  // bytes of fixed arguments
  Tail tail;
  Answer answer;
  uint16_t reply;  // bytes of the fixed reply behind its header: must fit before anything is done
  Handler handler;
};

inline constexpr uint32_t kOpcodes = 64;  // codes below this have a counter each

// nullptr for a code that is not in the table: ENOSYS.
const Opcode* find_opcode(uint32_t code);
std::span<const Opcode> all_opcodes();

}  // namespace turnbox::virtiofs
