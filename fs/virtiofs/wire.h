// The FUSE wire format as this server speaks it: the kernel's own structures, and the bounds we hold a guest
// to.
//
// Source of the layout: <linux/fuse.h>. Sizes are pinned here, because a header of another version must not
// move a field under the decoder.
#pragma once

#include <linux/fuse.h>

#include <cstddef>
#include <cstdint>

namespace turnbox::virtiofs {

inline constexpr uint32_t kMajor = 7;
inline constexpr uint32_t kMinor = 38;        // what we answer at most; nothing newer is used
inline constexpr uint32_t kOldestMinor = 31;  // Linux 5.4, the first with virtio-fs

inline constexpr uint32_t kPageSize = 4096;
inline constexpr uint32_t kMaxPages = 256;
inline constexpr uint32_t kMaxIo = kMaxPages * kPageSize;  // of one READ, WRITE or READDIR
inline constexpr size_t kMaxName = 255;
inline constexpr size_t kMaxTarget = 4095;     // of a symlink
inline constexpr size_t kMaxArgs = 64 + 8192;  // fixed arguments and names, the part that is copied out whole
inline constexpr uint64_t kMaxOffset = INT64_MAX;

// Cookies of the two entries that the tree does not store. The tree gives cookies above these, or 0 for the
// start.
inline constexpr uint64_t kCookieDot = 1;
inline constexpr uint64_t kCookieDotDot = 2;

// Extensions behind the arguments (Linux 6.3), in units of 8 bytes: a 16-bit field that older headers call
// padding.
inline constexpr size_t kExtlenOffset = 36;

static_assert(sizeof(fuse_in_header) == 40 && sizeof(fuse_out_header) == 16);
static_assert(sizeof(fuse_init_in) == 64 && sizeof(fuse_init_out) == 64);
static_assert(sizeof(fuse_entry_out) == 128 && sizeof(fuse_attr_out) == 104 && sizeof(fuse_attr) == 88);
static_assert(sizeof(fuse_setattr_in) == 88 && sizeof(fuse_read_in) == 40 && sizeof(fuse_write_in) == 40);
static_assert(sizeof(fuse_create_in) == 16 && sizeof(fuse_open_out) == 16 && sizeof(fuse_release_in) == 24);
static_assert(sizeof(fuse_kstatfs) == 80 && sizeof(fuse_rename2_in) == 16 && sizeof(fuse_lseek_in) == 24);
static_assert(sizeof(fuse_mknod_in) == 16 && sizeof(fuse_getattr_in) == 16 && sizeof(fuse_forget_one) == 16);
static_assert(sizeof(fuse_fallocate_in) == 32 && sizeof(fuse_copy_file_range_in) == 56);
static_assert(sizeof(fuse_getxattr_in) == 8 && sizeof(fuse_getxattr_out) == 8);
static_assert(offsetof(fuse_dirent, name) == 24);

}  // namespace turnbox::virtiofs
