#include "fs/virtiofs/opcodes.h"

#include <array>

#include "fs/virtiofs/server.h"
#include "fs/virtiofs/wire.h"

namespace turnbox::virtiofs {

namespace {

constexpr auto kBoth = Served::both;
constexpr auto kWork = Served::workspace;
constexpr auto kTurn = Served::turn;
constexpr auto kNowhere = Served::nowhere;
constexpr auto kNone = Tail::nothing;
constexpr auto kName = Tail::name;
constexpr auto kNames = Tail::two_names;
constexpr auto kTarget = Tail::name_and_target;
constexpr auto kXattr = Tail::xattr;
constexpr auto kValue = Tail::xattr_and_bytes;
constexpr auto kBytes = Tail::bytes;
constexpr auto kUnread = Tail::unread;
constexpr auto kAlways = Answer::always;
constexpr auto kIfRoom = Answer::if_room;
constexpr auto kNever = Answer::never;

constexpr uint16_t kEntry = sizeof(fuse_entry_out);
constexpr uint16_t kAttr = sizeof(fuse_attr_out);
constexpr uint16_t kOpen = sizeof(fuse_open_out);

// LSEEK is not served where the guest's kernel holds back what was written: it asks without writing back first, and would
// be told of holes where its own bytes are still to come (decision 0211).
// clang-format off
constexpr auto kTable = std::to_array<Opcode>({
    {FUSE_LOOKUP,      "op_lookup",      kBoth, true,  0,  kName,   kAlways, kEntry, &Server::lookup},
    {FUSE_FORGET,      "op_forget",      kBoth, false, 8,  kNone,   kNever,  0,      &Server::forget},
    {FUSE_GETATTR,     "op_getattr",     kBoth, true,  16, kNone,   kAlways, kAttr,  &Server::getattr},
    {FUSE_SETATTR,     "op_setattr",     kBoth, true,  88, kNone,   kAlways, kAttr,  &Server::setattr},
    {FUSE_READLINK,    "op_readlink",    kBoth, true,  0,  kNone,   kAlways, 0,      &Server::readlink},
    {FUSE_SYMLINK,     "op_symlink",     kBoth, true,  0,  kTarget, kAlways, kEntry, &Server::symlink},
    {FUSE_MKNOD,       "op_mknod",       kBoth, true,  16, kName,   kAlways, kEntry, &Server::mknod},
    {FUSE_MKDIR,       "op_mkdir",       kBoth, true,  8,  kName,   kAlways, kEntry, &Server::mkdir},
    {FUSE_UNLINK,      "op_unlink",      kBoth, true,  0,  kName,   kAlways, 0,      &Server::unlink},
    {FUSE_RMDIR,       "op_rmdir",       kBoth, true,  0,  kName,   kAlways, 0,      &Server::rmdir},
    {FUSE_RENAME,      "op_rename",      kBoth, true,  8,  kNames,  kAlways, 0,      &Server::rename},
    {FUSE_RENAME2,     "op_rename2",     kBoth, true,  16, kNames,  kAlways, 0,      &Server::rename2},
    {FUSE_LINK,        "op_link",        kBoth, true,  8,  kName,   kAlways, kEntry, &Server::link},
    {FUSE_OPEN,        "op_open",        kTurn, true,  8,  kNone,   kAlways, kOpen,  &Server::open},
    {FUSE_CREATE,      "op_create",      kBoth, true,  16, kName,   kAlways, kEntry + kOpen, &Server::create},
    {FUSE_READ,        "op_read",        kBoth, true,  40, kNone,   kAlways, 0,      &Server::read},
    {FUSE_WRITE,       "op_write",       kBoth, true,  40, kBytes,  kAlways, 8,      &Server::write},
    {FUSE_LSEEK,       "op_lseek",       kTurn, true,  24, kNone,   kAlways, 8,      &Server::lseek},
    {FUSE_RELEASE,     "op_release",     kTurn, true,  24, kNone,   kAlways, 0,      &Server::release},
    {FUSE_OPENDIR,     "op_opendir",     kTurn, true,  8,  kNone,   kAlways, kOpen,  &Server::opendir},
    {FUSE_READDIR,     "op_readdir",     kBoth, true,  40, kNone,   kAlways, 0,      &Server::readdir},
    {FUSE_READDIRPLUS, "op_readdirplus", kWork, true,  40, kNone,   kAlways, 0,      &Server::readdirplus},
    {FUSE_RELEASEDIR,  "op_releasedir",  kTurn, true,  24, kNone,   kAlways, 0,      &Server::releasedir},
    {FUSE_SETXATTR,    "op_setxattr",    kBoth, true,  8,  kValue,  kAlways, 0,      &Server::setxattr},
    {FUSE_GETXATTR,    "op_getxattr",    kBoth, true,  8,  kXattr,  kAlways, 0,      &Server::getxattr},
    {FUSE_LISTXATTR,   "op_listxattr",   kBoth, true,  8,  kNone,   kAlways, 0,      &Server::listxattr},
    {FUSE_REMOVEXATTR, "op_removexattr", kBoth, true,  0,  kXattr,  kAlways, 0,      &Server::removexattr},
    {FUSE_FALLOCATE,   "op_fallocate",   kBoth, true,  32, kNone,   kAlways, 0,      &Server::fallocate},
    {FUSE_COPY_FILE_RANGE, "op_copy_file_range", kBoth, true, 56, kNone, kAlways, 8, &Server::copy_file_range},
    {FUSE_TMPFILE,     "op_tmpfile",     kBoth, true,  16, kUnread, kAlways, kEntry + kOpen, &Server::tmpfile},
    {FUSE_STATFS,      "op_statfs",      kBoth, true,  0,  kNone,   kAlways, sizeof(fuse_statfs_out), &Server::statfs},
    {FUSE_SYNCFS,      "op_syncfs",      kBoth, true,  8,  kNone,   kAlways, 0,      &Server::syncfs},
    {FUSE_INIT,        "op_init",        kBoth, false, 16, kUnread, kAlways, sizeof(fuse_init_out), &Server::init},
    {FUSE_DESTROY,     "op_destroy",     kBoth, false, 0,  kNone,   kIfRoom, 0,      &Server::destroy},
    {FUSE_BATCH_FORGET,"op_batch_forget",kBoth, false, 8,  kBytes,  kNever,  0,      &Server::batch_forget},
    {FUSE_INTERRUPT,   "op_interrupt",   kBoth, false, 8,  kNone,   kNever,  0,      &Server::ignore},
    {FUSE_NOTIFY_REPLY,"op_notify_reply",kBoth, false, 0,  kUnread, kNever,  0,      &Server::ignore},

    // Not served: each of these the kernel asks once, then does without (FLUSH, FSYNC: there is nothing to flush to)
    // or does itself (locks, ACCESS under default_permissions).
    {FUSE_FLUSH,       "op_flush",       kNowhere, false, 0, kUnread, kAlways, 0, nullptr},
    {FUSE_FSYNC,       "op_fsync",       kNowhere, false, 0, kUnread, kAlways, 0, nullptr},
    {FUSE_FSYNCDIR,    "op_fsyncdir",    kNowhere, false, 0, kUnread, kAlways, 0, nullptr},
    {FUSE_ACCESS,      "op_access",      kNowhere, false, 0, kUnread, kAlways, 0, nullptr},
    {FUSE_GETLK,       "op_getlk",       kNowhere, false, 0, kUnread, kAlways, 0, nullptr},
    {FUSE_SETLK,       "op_setlk",       kNowhere, false, 0, kUnread, kAlways, 0, nullptr},
    {FUSE_SETLKW,      "op_setlkw",      kNowhere, false, 0, kUnread, kAlways, 0, nullptr},
    {FUSE_BMAP,        "op_bmap",        kNowhere, false, 0, kUnread, kAlways, 0, nullptr},
    {FUSE_IOCTL,       "op_ioctl",       kNowhere, false, 0, kUnread, kAlways, 0, nullptr},
    {FUSE_POLL,        "op_poll",        kNowhere, false, 0, kUnread, kAlways, 0, nullptr},
    {FUSE_SETUPMAPPING,  "op_setupmapping",  kNowhere, false, 0, kUnread, kAlways, 0, nullptr},
    {FUSE_REMOVEMAPPING, "op_removemapping", kNowhere, false, 0, kUnread, kAlways, 0, nullptr},
});
// clang-format on

// Row of a code, or −1.
constexpr auto kRows = [] {
  std::array<int8_t, kOpcodes> rows{};
  rows.fill(-1);
  for (size_t i = 0; i < kTable.size(); ++i) rows[kTable[i].code] = static_cast<int8_t>(i);
  return rows;
}();

}  // namespace

const Opcode* find_opcode(uint32_t code) {
  if (code >= kOpcodes || kRows[code] < 0) return nullptr;
  return &kTable[static_cast<size_t>(kRows[code])];
}

std::span<const Opcode> all_opcodes() {
  return kTable;
}

}  // namespace turnbox::virtiofs
