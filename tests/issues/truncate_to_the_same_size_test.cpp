// Was: truncate(2) of a file without pages to the size that it has moved its times. On tmpfs it leaves them. ftruncate(2),
// which comes with a handle, and an open with O_TRUNC, which comes like truncate(2) to nothing, do move
// mtime.
#include <fcntl.h>

#include "tests/guest/fs/cases.h"

namespace turnbox::fs_cases {
namespace {

fuse_attr attr_of(const FuseReply& reply) {
  return reply.as<fuse_attr_out>().attr;
}
auto mtime_of(const fuse_attr& attr) {
  return std::pair(attr.mtime, attr.mtimensec);
}
auto ctime_of(const fuse_attr& attr) {
  return std::pair(attr.ctime, attr.ctimensec);
}

BOOST_FIXTURE_TEST_CASE(truncate_of_a_hole_to_the_same_size_leaves_the_times, Workspace) {
  const uint64_t file = node_of(peer.create(dir, "file"));
  fuse_setattr_in in{};
  in.valid = FATTR_SIZE;
  in.size = 5;
  const fuse_attr before = attr_of(peer.setattr(file, in));
  const fuse_attr same = attr_of(peer.setattr(file, in));
  BOOST_TEST((mtime_of(same) == mtime_of(before)));
  BOOST_TEST((ctime_of(same) == ctime_of(before)));
  in.valid |= FATTR_FH;
  BOOST_TEST((mtime_of(attr_of(peer.setattr(file, in))) > mtime_of(before)));
  in.valid = FATTR_SIZE;
  in.size = 4;
  BOOST_TEST((mtime_of(attr_of(peer.setattr(file, in))) > mtime_of(before)));
}

BOOST_FIXTURE_TEST_CASE(truncate_of_pages_to_the_same_size_moves_mtime, Workspace) {
  const uint64_t file = node_of(peer.create(dir, "pages"));
  BOOST_REQUIRE_EQUAL(peer.write(file, 0, 0, "12345").error, 0);
  const fuse_attr before = attr_of(peer.getattr(file));
  fuse_setattr_in in{};
  in.valid = FATTR_SIZE;
  in.size = 5;
  BOOST_TEST((mtime_of(attr_of(peer.setattr(file, in))) > mtime_of(before)));
}

BOOST_FIXTURE_TEST_CASE(truncate_to_nothing_moves_mtime, Workspace) {
  const uint64_t file = node_of(peer.create(dir, "stamp"));
  const fuse_attr before = attr_of(peer.getattr(file));
  fuse_setattr_in in{};
  in.valid = FATTR_SIZE;
  BOOST_TEST((mtime_of(attr_of(peer.setattr(file, in))) > mtime_of(before)));
}

BOOST_FIXTURE_TEST_CASE(o_trunc_of_an_empty_file_moves_mtime, Turn) {
  const FuseReply made = peer.create(outputs(), "empty");
  BOOST_REQUIRE_EQUAL(made.error, 0);
  const uint64_t file = node_of(made);
  const fuse_attr before = attr_of(peer.getattr(file));
  const FuseReply opened = peer.open(file, O_RDWR | O_TRUNC);
  BOOST_REQUIRE_EQUAL(opened.error, 0);
  BOOST_TEST((mtime_of(attr_of(peer.getattr(file))) > mtime_of(before)));
}

}  // namespace
}  // namespace turnbox::fs_cases
