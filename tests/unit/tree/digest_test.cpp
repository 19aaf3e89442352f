// Digests against a second way to compute them, written from docs/RECORD.md alone: recursion over whole
// strings.
#include "fs/tree/digest.h"

#include <map>
#include <set>
#include <thread>

#include "tests/unit/tree/fixture.h"
#include "vmm/sys/bytes.h"

namespace turnbox::fs {
namespace {

template <typename T>
std::string le(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string hash(std::string_view kind, const std::string& bytes) {
  const std::string prefixed = "turnbox." + std::string(kind) + ".v1" + '\0' + bytes;
  const sys::Digest digest = sys::plain_sha256(sys::as_bytes(prefixed));
  return {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()};
}

std::string file_digest(const std::string& content) {
  std::vector<std::string> level;
  for (size_t at = 0; at < content.size(); at += 65'536)
    level.push_back(hash("chunk", content.substr(at, 65'536)));
  while (level.size() > 1024) {
    std::vector<std::string> above;
    for (size_t at = 0; at < level.size(); at += 1024) {
      std::string list;
      for (size_t i = at; i < std::min(level.size(), at + 1024); ++i) list += level[i];
      above.push_back(hash("list", list));
    }
    level = above;
  }
  std::string object = le(uint64_t{content.size()});
  for (const auto& digest : level) object += digest;
  return hash("file", object);
}

std::string entry_digest(const View& view, Ino ino);

std::string dir_digest(const View& view, Ino ino) {
  static const std::map<Type, char> kLetters{
      {Type::regular, 'f'}, {Type::directory, 'd'}, {Type::symlink, 'l'}, {Type::character, 'c'},
      {Type::block, 'b'},   {Type::fifo, 'p'},      {Type::socket, 's'}};
  std::string rows;
  for (const auto& name : names(view, ino)) {
    const Attr attr = view.lookup(ino, name).value();
    rows += kLetters.at(attr.type) + le(uint32_t{attr.mode}) + le(static_cast<uint16_t>(name.size())) + name +
            entry_digest(view, attr.ino);
  }
  return hash("dir", rows);
}

std::string entry_digest(const View& view, Ino ino) {
  const Attr attr = view.getattr(ino).value();
  switch (attr.type) {
    case Type::directory:
      return dir_digest(view, ino);
    case Type::regular:
      return file_digest(read(view, ino, 0, attr.size));
    case Type::symlink:
      return hash("symlink", std::string(view.readlink(ino).value()));
    default:
      return hash("node", le(uint32_t{attr.rdev >> 8 & 0xfff}) + le(attr.rdev & 0xff));
  }
}

std::string xattr_rows(const View& view, Ino ino) {
  std::string rows;
  uint16_t count = 0;
  (void)view.listxattr(ino, [&](std::string_view name) {
    const auto value = view.getxattr(ino, name).value();
    rows += le(static_cast<uint16_t>(name.size())) + std::string(name) + le(static_cast<uint32_t>(value.size()));
    rows.append(reinterpret_cast<const char*>(value.data()), value.size());
    return ++count, true;
  });
  return le(count) + rows;
}

void meta_rows(const View& view, Ino ino, const std::string& path, std::string& rows) {
  const Attr attr = view.getattr(ino).value();
  rows += le(static_cast<uint32_t>(path.size())) + path + le(uint64_t{ino}) + le(attr.uid) + le(attr.gid) +
          le(attr.nlink) + le(attr.mtime.sec) + le(attr.mtime.nsec) + le(uint32_t{attr.mode}) +
          xattr_rows(view, ino);
  if (attr.type != Type::directory) return;
  for (const auto& name : names(view, ino)) {
    meta_rows(view, view.lookup(ino, name)->ino, path.empty() ? name : path + "/" + name, rows);
  }
}

std::string raw(const sys::Digest& digest) {
  return {reinterpret_cast<const char*>(digest.bytes.data()), digest.bytes.size()};
}

void check(const Snapshot& snapshot, Ino root, DigestCache& cache) {
  const TreeDigest digest = digest_tree(snapshot, root, cache).value();
  BOOST_TEST((raw(digest.content) == entry_digest(snapshot, root)));
  std::string rows;
  meta_rows(snapshot, root, "", rows);
  BOOST_TEST((raw(digest.meta) == file_digest(rows)));
}

struct Digests : Fixture {
  DigestCache cache;
  void check_now() {
    Snapshot snapshot = tree.snapshot();
    check(snapshot, root, cache);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(digests, Digests)

BOOST_AUTO_TEST_CASE(every_type_empty_ones_and_any_name) {
  check_now();
  dir(root, "empty");
  file(root, "empty file");
  file(dir(root, "\xff\xfe not utf-8"), std::string(255, '\x80'), "x", 04711);
  symlink(root, "link", "target\xff");
  BOOST_REQUIRE(tree.create(root, "null", {.type = Type::character, .mode = 0666, .rdev = 0x103}, guest));
  BOOST_REQUIRE(tree.create(root, "disk", {.type = Type::block, .mode = 0660, .rdev = 0x801}, guest));
  BOOST_REQUIRE(tree.create(root, "pipe", {.type = Type::fifo, .mode = 0600}, guest));
  const Ino f = file(root, "a-b", "dash sorts before slash");
  BOOST_REQUIRE(tree.link(f, dir(root, "a"), "hard", guest));
  check_now();
}

BOOST_AUTO_TEST_CASE(xattrs_are_in_the_meta_and_not_in_the_content) {
  const Ino f = file(root, "f", "x");
  Snapshot before = tree.snapshot();
  const TreeDigest plain = digest_tree(before, root, cache).value();
  for (const char* name : {"user.z", "user.a", "trusted.t", "security.s"}) {
    BOOST_REQUIRE(tree.setxattr(f, name, std::vector<std::byte>(70, std::byte{7}), Tree::XattrMode::create, guest));
  }
  BOOST_REQUIRE(tree.setxattr(root, "user.large", std::vector<std::byte>(65'536), Tree::XattrMode::create, guest));
  check_now();
  Snapshot after = tree.snapshot();
  const TreeDigest with = digest_tree(after, root, cache).value();
  BOOST_TEST((with.content == plain.content));
  BOOST_TEST((with.meta != plain.meta));
}

BOOST_AUTO_TEST_CASE(known_bytes) {  // printf and sha256sum give the same
  file(root, "f", "abc", 0644);
  Snapshot snapshot = tree.snapshot();
  const auto digest = digest_tree(snapshot, root, cache).value();
  BOOST_TEST(sys::to_hex(digest.content) ==
             sys::to_hex(
                 sys::digest_of("dir", sys::as_bytes("f" + le(uint32_t{0644}) + le(uint16_t{1}) + "f" +
                                                     hash("file", le(uint64_t{3}) + hash("chunk", "abc"))))));
  BOOST_TEST((digest.kind == ObjectKind::dir));
  BOOST_TEST(digest.files == 1u);
  BOOST_TEST(digest.dirs == 1u);
  BOOST_TEST(digest.bytes == 3u);
}

BOOST_AUTO_TEST_CASE(sizes_around_chunks_and_lists) {
  for (const size_t size : {1, 65'535, 65'536, 65'537, 131'072}) {
    file(root, "f" + std::to_string(size), std::string(size, 's'));
  }
  for (const uint64_t size :
       {uint64_t{1024} << 16, (uint64_t{1024} << 16) + 1, (uint64_t{2048} << 16) + 70'000}) {
    const Ino f = file(root, "sparse" + std::to_string(size));
    BOOST_REQUIRE(resize(f, size));
    write(f, size / 2, "something");
    write(f, size - 1, "e");
  }
  check_now();
}

BOOST_AUTO_TEST_CASE(what_is_kept_follows_every_kind_of_change) {
  const Ino f = file(root, "f", std::string(300'000, 'a'));
  check_now();
  write(f, 100'000, "changed");
  check_now();
  BOOST_REQUIRE(resize(f, 250'000));
  check_now();
  BOOST_REQUIRE(resize(f, 260'000));  // no page changes, the last chunk's length does
  check_now();
  BOOST_REQUIRE(resize(f, 900'000));
  check_now();
  BOOST_REQUIRE(resize(f, 70'000));
  BOOST_REQUIRE(resize(f, 900'000));
  check_now();
  write(f, 65'536, std::string(65'536, '\0'));  // zeros that are there
  check_now();
  const Ino small = file(root, "small", "x");
  check_now();
  BOOST_REQUIRE(resize(small, 2));
  check_now();
  write(small, 70'000, "y");
  check_now();
  BOOST_REQUIRE(tree.clone(tree, f, root, "clone", 0));
  write(f, 0, "the original moves on");
  check_now();
  BOOST_REQUIRE(
      tree.setattr(f, {.valid = SetAttr::kMode | SetAttr::kMtime, .mode = 0400, .mtime = {-1, 5}}, guest));
  check_now();
}

// Lists of 1,024 chunks are kept too: each change touches one list, both, or only the size.
BOOST_AUTO_TEST_CASE(what_is_kept_of_lists_follows_every_kind_of_change) {
  constexpr uint64_t kChunk = 65'536, kList = 1024 * kChunk;
  const Ino f = file(root, "f");
  BOOST_REQUIRE(resize(f, 2 * kList + 5 * kChunk + 100));
  for (const uint64_t at : {uint64_t{0}, 3 * kChunk, kList - 1, kList, 2 * kList, 2 * kList + 5 * kChunk})
    write(f, at, "x");
  check_now();
  write(f, kList + 7 * kChunk, "in a hole of the second list");
  check_now();
  write(f, kList - 2, "both lists");
  check_now();
  BOOST_REQUIRE(tree.allocate(f, kList, kChunk, 3, guest));  // PUNCH_HOLE | KEEP_SIZE
  check_now();
  BOOST_REQUIRE(tree.allocate(f, 2 * kList, kChunk, 3, guest));
  BOOST_REQUIRE(tree.allocate(f, 0, 4 * kChunk, 3, guest));
  check_now();
  BOOST_REQUIRE(resize(f, 2 * kList + 5 * kChunk + 200));
  check_now();
  BOOST_REQUIRE(resize(f, kList + 100));
  BOOST_REQUIRE(resize(f, 2 * kList + 5 * kChunk + 200));
  check_now();
  Snapshot older = tree.snapshot();
  write(f, 0, "newer");
  write(f, kList, "newer");
  Snapshot newer = tree.snapshot();
  check(newer, root, cache);
  check(older, root, cache);
  check(newer, root, cache);
}

BOOST_AUTO_TEST_CASE(an_older_snapshot_digests_right_after_a_newer_one) {
  const Ino f = file(root, "f", std::string(200'000, 'a'));
  Snapshot older = tree.snapshot();
  write(f, 0, "b");
  Snapshot newer = tree.snapshot();
  check(newer, root, cache);
  check(older, root, cache);
  check(newer, root, cache);
}

BOOST_AUTO_TEST_CASE(a_subtree_and_a_single_file_are_roots_too) {
  const Ino d = dir(root, "d");
  const Ino f = file(d, "f", "content", 0640);
  Snapshot snapshot = tree.snapshot();
  check(snapshot, d, cache);
  check(snapshot, f, cache);
  BOOST_TEST((digest_tree(snapshot, f, cache)->kind == ObjectKind::file));
  BOOST_TEST(error_of(digest_tree(snapshot, 999, cache)) == ENOENT);
}

BOOST_AUTO_TEST_CASE(holes_cost_nothing_at_any_size) {
  const Ino f = file(root, "f");
  BOOST_REQUIRE(resize(f, uint64_t{1} << 40));
  write(f, uint64_t{1} << 39, "x");
  const Ino most = file(root, "most");
  BOOST_REQUIRE(resize(most, (uint64_t{1} << 63) - 1));
  Snapshot snapshot = tree.snapshot();
  BOOST_TEST(error_of(digest_tree(snapshot, root, cache)) ==
             0);  // a test that hashed holes would not come back
  size_t objects = 0;
  emit_objects(
      snapshot, root, cache, [](auto, const auto&) { return true; },
      [&](auto, const auto&, auto) { ++objects; });
  BOOST_TEST(objects < 100u);
}

BOOST_AUTO_TEST_CASE(paths_longer_than_a_record_can_hold_are_an_error) {
  Ino at = root;
  for (int i = 0; i < 300; ++i) at = dir(at, std::string(255, 'd'));
  Snapshot snapshot = tree.snapshot();
  BOOST_TEST(error_of(digest_tree(snapshot, root, cache)) == ENAMETOOLONG);
}

BOOST_AUTO_TEST_SUITE_END()

namespace {

using Store = std::map<std::pair<ObjectKind, sys::Digest>, std::string>;

// Digests that an object's bytes name, with their kinds.
std::vector<std::pair<ObjectKind, sys::Digest>> children(ObjectKind kind, const std::string& bytes,
                                                         const Store& store) {
  std::vector<std::pair<ObjectKind, sys::Digest>> all;
  const auto digest_at = [&](size_t at) {
    sys::Digest digest;
    std::memcpy(digest.bytes.data(), bytes.data() + at, 32);
    return digest;
  };
  if (kind == ObjectKind::dir) {
    for (size_t at = 0; at < bytes.size();) {
      const char type = bytes[at];
      at += 7 + sys::load_le<uint16_t>(reinterpret_cast<const std::byte*>(bytes.data() + at + 5));
      all.emplace_back(type == 'd'   ? ObjectKind::dir
                       : type == 'f' ? ObjectKind::file
                       : type == 'l' ? ObjectKind::symlink
                                     : ObjectKind::node,
                       digest_at(at));
      at += 32;
    }
  } else if (kind == ObjectKind::file || kind == ObjectKind::list) {
    for (size_t at = kind == ObjectKind::file ? 8 : 0; at < bytes.size(); at += 32) {
      const auto digest = digest_at(at);
      all.emplace_back(store.contains({ObjectKind::list, digest}) ? ObjectKind::list : ObjectKind::chunk,
                       digest);
    }
  }
  return all;
}

// Emits into the store as a store would take it: what it has is not wanted. Checks the order and every
// digest.
size_t take(const Snapshot& snapshot, Ino root, DigestCache& cache, Store& store) {
  size_t taken = 0;
  emit_objects(
      snapshot, root, cache,
      [&](ObjectKind kind, const sys::Digest& digest) {
        return !store.contains({kind, digest});
      },
      [&](ObjectKind kind, const sys::Digest& digest, sys::ByteSpan bytes) {
        const std::string text(sys::as_text(bytes));
        BOOST_TEST((raw(digest) == hash(name_of(kind), text)));
        for (const auto& child : children(kind, text, store)) BOOST_TEST(store.contains(child));
        store[{kind, digest}] = text;
        ++taken;
      });
  return taken;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(objects, Digests)

BOOST_AUTO_TEST_CASE(everything_is_emitted_children_first_and_once_had_never_again) {
  const Ino d = dir(root, "d");
  const Ino big = file(d, "big", std::string(200'000, 'x') + std::string(200'000, 'y'));
  const Ino sparse = file(root, "sparse");
  BOOST_REQUIRE(resize(sparse, (uint64_t{1500} << 16) + 5));
  write(sparse, uint64_t{1100} << 16, "data");
  symlink(d, "l", "t");
  file(root, "empty");
  Snapshot first = tree.snapshot();
  const auto before = digest_tree(first, root, cache).value();
  Store store;
  BOOST_TEST(take(first, root, cache, store) > 10u);
  BOOST_TEST(store.contains({ObjectKind::dir, before.content}));
  BOOST_TEST(store.contains({ObjectKind::file, before.meta}));
  BOOST_TEST(take(first, root, cache, store) == 0u);
  write(big, 0, "z");
  Snapshot second = tree.snapshot();
  BOOST_REQUIRE(digest_tree(second, root, cache));
  // The chunk, its file, two directories; the meta's chunk and file do not change with the clock standing
  // still.
  BOOST_TEST(take(second, root, cache, store) == 4u);
}

BOOST_AUTO_TEST_CASE(a_file_with_more_than_a_list_of_chunks_is_emitted_whole) {
  const Ino f = file(root, "f");
  for (uint64_t chunk = 0; chunk < 1030; ++chunk) write(f, chunk << 16, std::to_string(chunk));
  Snapshot snapshot = tree.snapshot();
  const auto digest = digest_tree(snapshot, f, cache).value();
  Store store;
  BOOST_TEST(take(snapshot, f, cache, store) ==
             1030u + 2 + 1 + 2);  // chunks, lists, file; the meta's chunk and file
  BOOST_TEST(store.contains({ObjectKind::file, digest.content}));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(threads, Digests)

// Run under -fsanitize=thread to see that a reader of a snapshot shares nothing with the owner that changes.
BOOST_AUTO_TEST_CASE(a_hasher_reads_while_the_owner_changes_everything) {
  std::vector<Ino> files;
  for (int i = 0; i < 300; ++i) files.push_back(file(root, "f" + std::to_string(i), std::string(5000, 'a')));
  const Ino big = file(root, "big", std::string(1'000'000, 'b'));
  Snapshot snapshot = tree.snapshot();
  const std::string expected = entry_digest(snapshot, root);
  sys::Digest found;
  std::thread hasher([&] {
    for (int i = 0; i < 5; ++i) {
      DigestCache fresh;
      found = digest_tree(snapshot, root, fresh)->content;
      emit_objects(
          snapshot, root, fresh, [](auto, const auto&) { return true; }, [](auto, const auto&, auto) {});
    }
  });
  for (int i = 0; i < 2000; ++i) {
    const size_t at = static_cast<size_t>(i) % files.size();
    write(files[at], static_cast<uint64_t>(i), "changed");
    write(big, static_cast<uint64_t>(i) * 500, "x");
    const std::string name = "f" + std::to_string(at);
    if (i % 3 == 0) (void)tree.rename(root, name, root, name + "x", 0, guest);
    if (i % 7 == 0) {
      (void)tree.unlink(root, name, guest);
      (void)tree.unlink(root, name + "x", guest);
      files[at] = file(root, "again" + std::to_string(i), "z");
    }
    if (i % 11 == 0) file(root, "new" + std::to_string(i), "y");
    if (i % 50 == 0) tree.release(tree.snapshot());
    tree.reclaim(50);
  }
  hasher.join();
  BOOST_TEST((raw(found) == expected));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs
