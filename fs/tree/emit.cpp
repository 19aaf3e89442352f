// The objects of a snapshot's subtree, children before parents (digest.h).
#include <bitset>

#include "fs/tree/digest_cache.h"
#include "fs/tree/meta.h"
#include "fs/tree/state.h"

namespace turnbox::fs {
namespace {

using Want = std::function<bool(ObjectKind, const sys::Digest&)>;
using Emit = std::function<void(ObjectKind, const sys::Digest&, sys::ByteSpan)>;
using ChunkBytes = std::function<sys::ByteSpan(uint64_t index)>;  // null: chunks were emitted before

struct Emitter {
  DigestCache::State& cache;
  const Want& want;
  const Emit& emit;
  std::bitset<8> holes_done{};     // levels whose full hole was emitted
  std::vector<sys::Bytes> dirs{};  // the objects of the directories that we are in
  sys::Bytes buffer{};

  bool enter(const Step& step);
  void leave(const Step& step);
  void row(const Step& step, const sys::Digest& digest) {
    if (!dirs.empty()) append_row(dirs.back(), step, digest);
  }
  void file(const FileObject& file, const sys::Digest& digest, const ChunkBytes& chunk);
  void part(const FileObject& file, unsigned level, uint64_t index, const ChunkBytes& chunk);
};

bool Emitter::enter(const Step& step) {
  const Inode& inode = step.inode;
  if (inode.is_dir()) {
    const sys::Digest& digest = cache.dirs.at(step.ino);
    if (!want(ObjectKind::dir, digest)) {
      row(step, digest);
      return false;
    }
    dirs.emplace_back();
    return true;
  }
  if (inode.is_file()) {
    const sys::Digest digest = cache.file(step.ino, inode);
    row(step, digest);
    if (!want(ObjectKind::file, digest)) return false;
    std::vector<uint64_t> changed;  // nothing: the digest was just asked for
    const auto chunks = digest_chunks(inode, cache.files.at(step.ino).chunks, changed);
    file(FileObject(inode.size, chunks), digest, [&](uint64_t index) {
      chunk_bytes(inode, index, buffer);
      return sys::ByteSpan(buffer);
    });
    return false;
  }
  const sys::Bytes bytes = leaf_object(inode);
  const sys::Digest digest = sys::digest_of(name_of(kind_of(inode)), bytes);
  row(step, digest);
  if (want(kind_of(inode), digest)) emit(kind_of(inode), digest, bytes);
  return false;
}

void Emitter::leave(const Step& step) {
  const sys::Bytes bytes = std::move(dirs.back());
  dirs.pop_back();
  const sys::Digest& digest = cache.dirs.at(step.ino);
  row(step, digest);
  emit(ObjectKind::dir, digest, bytes);
}

void Emitter::file(const FileObject& file, const sys::Digest& digest, const ChunkBytes& chunk) {
  for (uint64_t i = 0; i < file.nodes(file.top()); ++i) part(file, file.top(), i, chunk);
  emit(ObjectKind::file, digest, file.object());
}

void Emitter::part(const FileObject& file, unsigned level, uint64_t index, const ChunkBytes& chunk) {
  if (level == 0 && chunk == nullptr) return;
  if (file.full_hole(level, index)) {
    if (holes_done.test(level)) return;
    holes_done.set(level);
  }
  const sys::Digest digest = file.digest(level, index);
  if (!want(level == 0 ? ObjectKind::chunk : ObjectKind::list, digest)) return;
  if (level == 0) return emit(ObjectKind::chunk, digest, chunk(index));
  const uint64_t past = std::min(file.nodes(level - 1), (index + 1) * FileObject::kFan);
  for (uint64_t child = index * FileObject::kFan; child < past; ++child) part(file, level - 1, child, chunk);
  emit(ObjectKind::list, digest, file.list(level, index));
}

struct MetaRows {
  Meta& meta;
  bool enter(const Step& step) {
    meta.row(step);
    return true;
  }
  void leave(const Step&) {}
};

}  // namespace

Expected<void> emit_objects(const Snapshot& snapshot, Ino root, DigestCache& cache, const Want& want,
                            const Emit& emit) {
  TRY_ASSIGN(const TreeDigest digests, digest_tree(snapshot, root, cache));
  const InodeTable& inodes = Inspect::inodes(snapshot);
  Emitter emitter{*cache.state_, want, emit};
  TRY(walk(inodes, root, emitter));

  if (!want(ObjectKind::file, digests.meta)) return {};
  Meta meta([&](const sys::Digest& digest, sys::ByteSpan bytes) {
    if (want(ObjectKind::chunk, digest)) emit(ObjectKind::chunk, digest, bytes);
  });
  MetaRows rows{meta};
  TRY(walk(inodes, root, rows));
  meta.finish();
  emitter.file(meta.object(), digests.meta, nullptr);
  return {};
}

}  // namespace turnbox::fs
