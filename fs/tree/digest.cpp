#include "fs/tree/digest.h"

#include <cerrno>

#include "fs/tree/digest_cache.h"
#include "fs/tree/meta.h"
#include "fs/tree/state.h"
#include "fs/tree/walk.h"

namespace turnbox::fs {
namespace {

// Digests of everything below a root, in one walk.
struct Digester {
  DigestCache::State& cache;
  Meta meta{};
  TreeDigest result{};
  std::vector<sys::Bytes> dirs{};  // the objects of the directories that we are in

  bool enter(const Step& step) {
    meta.row(step);
    if (step.inode.is_dir()) {
      ++result.dirs;
      dirs.emplace_back();
      return meta.size() <= kMaxMeta;
    }
    ++result.files;
    if (step.inode.is_file()) {
      result.bytes += step.inode.size;
      done(step, cache.file(step.ino, step.inode));
    } else {
      done(step, sys::digest_of(name_of(kind_of(step.inode)), leaf_object(step.inode)));
    }
    return false;
  }
  void leave(const Step& step) {
    const sys::Digest digest = sys::digest_of("dir", dirs.back());
    dirs.pop_back();
    cache.dirs[step.ino] = digest;
    done(step, digest);
  }
  void done(const Step& step, const sys::Digest& digest) {
    if (dirs.empty()) {
      result.content = digest;
    } else {
      append_row(dirs.back(), step, digest);
    }
  }
};

char letter_of(Type type) {
  switch (type) {
    case Type::regular:
      return 'f';
    case Type::directory:
      return 'd';
    case Type::symlink:
      return 'l';
    case Type::character:
      return 'c';
    case Type::block:
      return 'b';
    case Type::fifo:
      return 'p';
    case Type::socket:
      return 's';
  }
  TURNBOX_ASSERT(false);
}

}  // namespace

std::string_view name_of(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::chunk:
      return "chunk";
    case ObjectKind::list:
      return "list";
    case ObjectKind::file:
      return "file";
    case ObjectKind::dir:
      return "dir";
    case ObjectKind::symlink:
      return "symlink";
    case ObjectKind::node:
      return "node";
  }
  TURNBOX_ASSERT(false);
}

ObjectKind kind_of(const Inode& inode) {
  switch (inode.type) {
    case Type::regular:
      return ObjectKind::file;
    case Type::directory:
      return ObjectKind::dir;
    case Type::symlink:
      return ObjectKind::symlink;
    default:
      return ObjectKind::node;
  }
}

sys::Bytes leaf_object(const Inode& inode) {
  sys::Bytes bytes;
  if (inode.type == Type::symlink) {
    const auto* blob = static_cast<const Blob*>(inode.node);
    sys::append(bytes, sys::as_bytes(std::string_view(blob->bytes(), blob->count)));
    return bytes;
  }
  const uint32_t dev = inode.rdev();  // Linux new_encode_dev()
  sys::append_le(bytes, (dev & 0xfff00) >> 8);
  sys::append_le(bytes, (dev & 0xff) | ((dev >> 12) & 0xfff00));
  return bytes;
}

void append_row(sys::Bytes& dir, const Step& step, const sys::Digest& digest) {
  sys::append_le(dir, letter_of(step.inode.type));
  sys::append_le(dir, uint32_t{step.inode.mode});
  sys::append_le(dir, static_cast<uint16_t>(step.name.size()));
  sys::append(dir, sys::as_bytes(step.name));
  sys::append(dir, digest.bytes);
}

const sys::Digest& DigestCache::State::file(Ino ino, const Inode& inode) {
  FileDigest& known = files[ino];
  // Epochs count from 1: a new entry has 0 and never matches.
  if (known.epoch == inode.epoch && known.size == inode.size) return known.digest;
  std::vector<uint64_t> changed;
  std::vector<ChunkDigest> chunks = digest_chunks(inode, known.chunks, changed);
  FileObject object(inode.size, chunks);
  if (known.size != inode.size) known.lists.clear();
  known.lists = object.lists(known.lists, changed);
  object.know(known.lists);
  known.epoch = inode.epoch;
  known.size = inode.size;
  known.digest = sys::digest_of("file", object.object());
  if (inode.size <= kChunkSize) chunks.clear();
  known.chunks = std::move(chunks);
  return known.digest;
}

void DigestCache::State::begin(uint64_t snapshot_serial) {
  if (serial == snapshot_serial) return;
  serial = snapshot_serial;
  dirs.clear();
  roots.clear();
}

// Forgets files that are gone, once they may be half of what is kept.
void DigestCache::State::prune(const InodeTable& inodes) {
  constexpr size_t kFew = 4096;
  if (files.size() < 2 * files_kept + kFew) return;
  std::erase_if(files, [&](const auto& file) { return inodes.find(file.first) == nullptr; });
  files_kept = files.size();
}

DigestCache::DigestCache() : state_(std::make_unique<State>()) {}
DigestCache::~DigestCache() = default;

Expected<TreeDigest> digest_tree(const Snapshot& snapshot, Ino root, DigestCache& cache) {
  const InodeTable& inodes = Inspect::inodes(snapshot);
  DigestCache::State& state = *cache.state_;
  const Inode* inode = inodes.find(root);
  if (inode == nullptr) return err(ENOENT);
  if (!inode->is_dir() && !inode->is_file()) return err(EINVAL);
  state.begin(Inspect::serial(snapshot));
  if (const auto known = state.roots.find(root); known != state.roots.end()) return known->second;

  Digester digester{state};
  TRY(walk(inodes, root, digester));
  if (digester.meta.size() > kMaxMeta) return err(EFBIG);
  digester.meta.finish();
  digester.result.kind = kind_of(*inode);
  digester.result.meta = sys::digest_of("file", digester.meta.object().object());
  state.prune(inodes);
  state.roots[root] = digester.result;
  return digester.result;
}

}  // namespace turnbox::fs
