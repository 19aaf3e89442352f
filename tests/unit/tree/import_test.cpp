#include "fs/tree/import.h"

#include "tests/unit/tree/fixture.h"
#include "vmm/sys/bytes.h"

namespace turnbox::fs {
namespace {

template <typename T>
std::string le(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

struct Record {
  char type = 'f';
  std::string path{};
  std::string body{};
  uint16_t mode = 0644;
  uint32_t uid = 5, gid = 6;
  int64_t sec = 123;
  uint32_t nsec = 456;
  uint32_t rdev = 0;
  uint8_t zero = 0;

  std::string bytes() const {
    return std::string(1, type) + le(zero) + le(mode) + le(uid) + le(gid) + le(sec) + le(nsec) + le(rdev) +
           le(static_cast<uint32_t>(path.size())) + le(uint64_t{body.size()}) + path + body;
  }
};

std::string extent(uint64_t offset, const std::string& bytes) {
  return le(offset) + le(static_cast<uint32_t>(bytes.size())) + bytes;
}
std::string content(const std::string& bytes) {
  return le(uint64_t{bytes.size()}) + (bytes.empty() ? "" : extent(0, bytes));
}
const std::string kEnd = Record{.type = 'e', .mode = 0, .uid = 0, .gid = 0, .sec = 0, .nsec = 0}.bytes();

struct Imports : Fixture {
  Importer importer{tree, root, "in", 0};

  // The error's text, or an empty string.
  std::string feed(const std::string& bytes) {
    const auto fed = importer.feed(sys::as_bytes(bytes));
    return fed ? "" : fed.error().text;
  }
  std::string feed_all(const std::vector<Record>& records) {
    std::string stream = "TBIMPRT1";
    for (const Record& record : records) stream += record.bytes();
    if (const std::string wrong = feed(stream + kEnd); !wrong.empty()) return wrong;
    const auto finished = importer.finish();
    return finished ? "" : finished.error().text;
  }
  // The errors of streams that a directory root begins.
  std::string wrong(const Record& record) {
    Fixture other;
    Importer fresh(other.tree, other.root, "in", 0);
    const auto fed =
        fresh.feed(sys::as_bytes("TBIMPRT1" + Record{.type = 'd', .mode = 0755}.bytes() + record.bytes()));
    return fed ? "nothing" : fed.error().text;
  }
  Ino at(const std::string& name) { return tree.lookup(importer.root(), name).value().ino; }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(import_stream, Imports)

BOOST_AUTO_TEST_CASE(every_type_with_its_attributes) {
  BOOST_TEST(feed_all({{.type = 'd', .mode = 0750, .sec = 1},
                       {.path = "f", .body = content("hello"), .mode = 04755},
                       {.type = 'd', .path = "d", .mode = 02770, .gid = 9, .sec = 77},
                       {.path = "d/in", .body = content("")},
                       {.type = 'l', .path = "d/l", .body = "../f"},
                       {.type = 'h', .path = "d/hard", .body = "f"},
                       {.type = 'p', .path = "p"},
                       {.type = 'c', .path = "null", .rdev = 0x103}}) == "");
  BOOST_TEST(importer.entries() == 8u);
  BOOST_TEST(importer.bytes() == 5u);
  const Attr f = tree.getattr(at("f")).value();
  BOOST_TEST(read(tree, f.ino) == "hello");
  BOOST_TEST(f.mode == 04755);
  BOOST_TEST(f.uid == 5u);
  BOOST_TEST(f.gid == 6u);
  BOOST_TEST(f.nlink == 2u);
  BOOST_TEST((f.mtime == Time{123, 456}));
  const Attr d = tree.getattr(at("d")).value();
  BOOST_TEST(d.mode == 02770);
  BOOST_TEST((d.mtime == Time{77, 456}));           // not when its entries came
  BOOST_TEST(tree.lookup(d.ino, "in")->gid == 6u);  // as the record says, not as setgid would
  BOOST_TEST(tree.lookup(d.ino, "hard")->ino == f.ino);
  BOOST_TEST(tree.readlink(tree.lookup(d.ino, "l")->ino).value() == "../f");
  BOOST_TEST(tree.getattr(at("null"))->rdev == 0x103u);
  BOOST_TEST(tree.getattr(importer.root())->mode == 0750);
  BOOST_TEST((tree.getattr(importer.root())->mtime == Time{1, 456}));
}

BOOST_AUTO_TEST_CASE(holes_stay_holes_and_content_may_come_in_pieces) {
  const std::string first = le(uint64_t{1} << 30) + extent(4096, "abc") + extent(8192, "def");
  BOOST_TEST(feed("TBIMPRT1" + Record{.type = 'd', .mode = 0755}.bytes() +
                  Record{.path = "f", .body = first}.bytes()) == "");
  BOOST_TEST(feed(Record{.type = 'x', .path = "f", .body = extent(1 << 20, "ghi")}.bytes()) == "");
  BOOST_TEST(feed(kEnd) == "");
  BOOST_TEST(importer.finish().has_value());
  const Attr f = tree.getattr(at("f")).value();
  BOOST_TEST(f.size == 1u << 30);
  BOOST_TEST(f.blocks == 24u);
  BOOST_TEST((f.mtime == Time{123, 456}));
  BOOST_TEST(read(tree, f.ino, 4096, 3) == "abc");
  BOOST_TEST(read(tree, f.ino, 1 << 20, 3) == "ghi");
}

BOOST_AUTO_TEST_CASE(a_single_file_is_a_root) {
  BOOST_TEST(feed_all({{.type = 'f', .body = content("alone"), .mode = 0400}}) == "");
  BOOST_TEST(tree.lookup(root, "in")->ino == importer.root());
  BOOST_TEST(read(tree, importer.root()) == "alone");
}

BOOST_AUTO_TEST_CASE(a_directory_that_stands_there_is_filled) {
  const Ino there = dir(root, "in");
  BOOST_TEST(feed_all({{.path = "f", .body = content("x")}}) == "");
  BOOST_TEST(importer.root() == there);
}

BOOST_AUTO_TEST_CASE(any_byte_in_a_name_and_errors_that_show_it) {
  BOOST_TEST(feed_all({{.type = 'd', .mode = 0755}, {.path = "\xff\n", .body = content("x")}}) == "");
  BOOST_TEST(names(tree, importer.root()).front() == "\xff\n");
  BOOST_TEST(has(wrong({.path = "\xff\n/x", .body = content("")}), "\\xff\\x0a/x"));
}

BOOST_AUTO_TEST_CASE(xattrs_and_sockets) {
  const auto xattr = [](const std::string& name, const std::string& value) {
    return le(static_cast<uint16_t>(name.size())) + name + le(static_cast<uint32_t>(value.size())) + value;
  };
  const std::string both = xattr("user.x", std::string("a\0b", 3)) + xattr("security.capability", "");
  BOOST_TEST(feed_all({{.type = 'd', .path = "", .mode = 0755},
                       {.type = 'a', .path = "", .body = xattr("user.root", "r")},
                       {.path = "f", .body = content("text")},
                       {.type = 'a', .path = "f", .body = both},
                       {.type = 's', .path = "sock"}}) == "");
  BOOST_TEST(importer.entries() == 3u);
  const Ino f = tree.lookup(importer.root(), "f")->ino;
  const auto value = tree.getxattr(f, "user.x").value();
  BOOST_TEST(std::string(reinterpret_cast<const char*>(value.data()), value.size()) == std::string("a\0b", 3));
  BOOST_TEST(tree.getxattr(f, "security.capability").value().empty());
  BOOST_TEST(tree.getxattr(importer.root(), "user.root").value().size() == 1u);
  BOOST_TEST((tree.lookup(importer.root(), "sock")->type == Type::socket));
  BOOST_TEST(has(wrong({.type = 'a', .path = "", .body = both.substr(0, 9)}), "its body is cut"));
  BOOST_TEST(has(wrong({.type = 'a', .path = "", .body = xattr("system.x", "1")}), "not supported"));
  BOOST_TEST(has(wrong({.type = 'a', .path = "none", .body = both}), "\"none\""));
}

BOOST_AUTO_TEST_CASE(records_that_are_wrong_by_themselves) {
  BOOST_TEST(has(wrong({.type = '?', .path = "p"}), "unknown type"));
  BOOST_TEST(has(wrong({.path = "p", .body = content(""), .zero = 1}), "\"p\""));
  BOOST_TEST(has(wrong({.path = "p", .body = content(""), .mode = 0100644}), "07777"));
  BOOST_TEST(has(wrong({.path = "p", .body = content(""), .nsec = 1'000'000'000}), "nanoseconds"));
  BOOST_TEST(has(wrong({.path = "p", .body = content(""), .uid = UINT32_MAX}), "owner"));
  BOOST_TEST(has(wrong({.path = "p", .body = content(""), .rdev = 5}), "device"));
  BOOST_TEST(has(wrong({.type = 'd', .path = "p", .body = "x"}), "body"));
  BOOST_TEST(has(wrong({.type = 'l', .path = "p"}), "target"));
  BOOST_TEST(has(wrong({.type = 'l', .path = "p", .body = std::string("a\0b", 3)}), "\"p\""));
  BOOST_TEST(has(wrong({.type = 'h', .path = "p"}), "hard link"));
  BOOST_TEST(has(feed_all({{.type = 'l', .path = "", .body = "x"}}), "the root is no directory"));
}

BOOST_AUTO_TEST_CASE(paths_that_lead_elsewhere) {
  for (const char* path : {"/abs", "a//b", "..", "a/../b", ".", "a/.", "a/", "/"}) {
    BOOST_TEST(has(wrong({.path = path, .body = content("")}), "path"), path);
  }
  BOOST_TEST(has(wrong({.path = std::string("a\0b", 3), .body = content("")}), "NUL"));
  BOOST_TEST(has(wrong({.path = std::string(256, 'n'), .body = content("")}), "255"));
  BOOST_TEST(has(wrong({.path = std::string(65'537, 'n'), .body = content("")}), "65,536"));
  BOOST_TEST(has(wrong({.path = "none/f", .body = content("")}), "none/f"));
  BOOST_TEST(has(wrong({.type = 'h', .path = "p", .body = "../../etc"}), "path"));
  BOOST_TEST(has(wrong({.type = 'h', .path = "p", .body = "none"}), "\"p\""));
  BOOST_TEST(has(wrong({.type = 'd'}), "twice"));
}

BOOST_AUTO_TEST_CASE(a_symlink_is_never_followed) {
  const Ino outside = dir(root, "outside");
  const std::string text = feed_all({{.type = 'd', .mode = 0755},
                                     {.type = 'l', .path = "out", .body = "../outside"},
                                     {.path = "out/f", .body = content("x")}});
  BOOST_TEST(has(text, "out/f"));
  BOOST_TEST(names(tree, outside).empty());
}

BOOST_AUTO_TEST_CASE(bodies_that_are_wrong) {
  BOOST_TEST(has(wrong({.path = "p", .body = "1234567"}), "cut"));
  BOOST_TEST(has(wrong({.path = "p", .body = le(uint64_t{1} << 63)}), "2^63"));
  BOOST_TEST(has(wrong({.path = "p", .body = le(uint64_t{2}) + extent(0, "abc")}), "passes its size"));
  BOOST_TEST(has(wrong({.path = "p", .body = le(uint64_t{9}) + extent(UINT64_MAX, "a")}), "passes its size"));
  BOOST_TEST(has(wrong({.path = "p", .body = le(uint64_t{9}) + extent(0, "")}), "empty"));
  BOOST_TEST(
      has(wrong({.path = "p", .body = le(uint64_t{9}) + extent(4, "a") + extent(4, "b")}), "ascending"));
  BOOST_TEST(has(
      wrong({.path = "p", .body = le(uint64_t{99}) + le(uint64_t{0}) + le(uint32_t{50}) + "short"}), "cut"));
  BOOST_TEST(has(wrong({.type = 'x', .path = "none", .body = extent(0, "x")}), "none"));
  BOOST_TEST(has(wrong({.type = 'x', .path = "", .body = extent(0, "x")}), "no file"));
}

BOOST_AUTO_TEST_CASE(streams_that_are_wrong) {
  BOOST_TEST(has(feed("TBIMPRT2"), "TBIMPRT1"));
  BOOST_TEST(has(feed("TB"), "TBIMPRT1"));
  BOOST_TEST(!importer.finish().has_value());
  Importer second(tree, root, "in2", 0);
  const std::string start = "TBIMPRT1" + Record{.type = 'd', .mode = 0755}.bytes();
  const std::string record = Record{.path = "f", .body = content("abc")}.bytes();
  for (size_t cut = 1; cut < record.size(); ++cut) {
    Fixture other;
    Importer fresh(other.tree, other.root, "in", 0);
    const auto fed = fresh.feed(sys::as_bytes(start + record.substr(0, cut)));
    BOOST_TEST(!fed.has_value());
  }
  BOOST_TEST(second.feed(sys::as_bytes(start + kEnd)).has_value());
  BOOST_TEST(!second.feed(sys::as_bytes(record)).has_value());
  BOOST_TEST(second.finish().has_value());
}

BOOST_AUTO_TEST_CASE(a_name_twice_and_a_budget_are_told_with_the_path) {
  BOOST_TEST(has(feed_all({{.type = 'd', .mode = 0755},
                           {.path = "f", .body = content("")},
                           {.path = "f", .body = content("")}}),
                 "\"f\""));
  Fixture small({.bytes = 8192});
  Importer tight(small.tree, small.root, "in", 0);
  const auto fed =
      tight.feed(sys::as_bytes("TBIMPRT1" + Record{.type = 'd', .mode = 0755}.bytes() +
                               Record{.path = "big", .body = content(std::string(10'000, 'x'))}.bytes()));
  BOOST_REQUIRE(!fed.has_value());
  BOOST_TEST(has(fed.error().text, "\"big\""));
  BOOST_TEST(has(fed.error().text, "budget"));
  BOOST_TEST((fed.error().kind == sys::ErrorKind::limit));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs
