// Rules of whole messages: header, reply room, and what may come before INIT.
#include "tests/guest/fs/cases.h"

namespace turnbox::fs_cases {

BOOST_FIXTURE_TEST_SUITE(message, Workspace)

BOOST_AUTO_TEST_CASE(chain_shorter_than_a_header_is_consumed_without_a_reply) {
  const uint64_t before = counter("dropped");
  const sys::Bytes whole = peer.message(FUSE_STATFS, kRoot, {});
  for (const size_t size : {size_t{1}, size_t{16}, size_t{39}}) {
    const FuseReply reply = peer.send(std::span(whole).first(size));
    BOOST_TEST(reply.used == 0U);
  }
  BOOST_TEST(counter("dropped") == before + 3);
}

BOOST_AUTO_TEST_CASE(header_length_other_than_the_chain_is_refused) {
  for (const uint32_t wrong : {0U, 39U, 40U, 55U, 57U, 0x80000000U, UINT32_MAX}) {
    const FuseReply reply = peer.call(FUSE_GETATTR, kRoot, pack(fuse_getattr_in{}), FusePeer::kRoom,
                                      [wrong](fuse_in_header& head) { head.len = wrong; });
    BOOST_TEST(reply.error == EINVAL);
    BOOST_TEST(reply.used == 16U);
  }
}

BOOST_AUTO_TEST_CASE(unique_zero_is_refused) {
  const FuseReply reply = peer.call(FUSE_STATFS, kRoot, {}, FusePeer::kRoom,
                                    [](fuse_in_header& head) { head.unique = 0; });
  BOOST_TEST(reply.error == EINVAL);
}

BOOST_AUTO_TEST_CASE(reply_echoes_unique_and_used_length_is_the_reply_s) {
  const FuseReply reply = peer.getattr(kRoot);
  BOOST_TEST(reply.error == 0);
  BOOST_TEST(reply.unique == peer.last_unique());
  BOOST_TEST(reply.used == reply.length);
  BOOST_TEST(reply.used == sizeof(fuse_out_header) + sizeof(fuse_attr_out));
  const FuseReply missing = peer.getattr(0xdead);
  BOOST_TEST(missing.used == sizeof(fuse_out_header));
  BOOST_TEST(missing.length == sizeof(fuse_out_header));
}

BOOST_AUTO_TEST_CASE(extensions_that_were_not_negotiated_are_refused) {
  const FuseReply reply = peer.call(FUSE_STATFS, kRoot, {}, FusePeer::kRoom, [](fuse_in_header& head) {
    std::memset(reinterpret_cast<char*>(&head) + 36, 0xff, 2);
  });
  BOOST_TEST(reply.error == EINVAL);
}

BOOST_AUTO_TEST_CASE(unknown_opcode_answers_enosys) {
  for (const uint32_t opcode : {0U, 7U, 19U, 52U, 63U, 64U, 4096U, UINT32_MAX}) {
    BOOST_TEST(peer.call(opcode, kRoot, pack(uint64_t{0})).error == ENOSYS);
  }
}

BOOST_AUTO_TEST_CASE(locks_and_whatever_is_not_served_answer_enosys) {
  for (const uint32_t opcode :
       {FUSE_GETLK, FUSE_SETLK, FUSE_SETLKW, FUSE_ACCESS, FUSE_BMAP, FUSE_IOCTL, FUSE_POLL, FUSE_SETUPMAPPING,
        FUSE_REMOVEMAPPING, FUSE_FLUSH, FUSE_FSYNC, FUSE_FSYNCDIR, FUSE_OPEN, FUSE_OPENDIR}) {
    BOOST_TEST(peer.call(opcode, kRoot, sys::Bytes(64)).error == ENOSYS);
    BOOST_TEST(peer.call(opcode, kRoot, {}).error == ENOSYS);
  }
}

BOOST_AUTO_TEST_CASE(no_writable_part_is_consumed_without_effect) {
  const uint64_t before = counter("dropped");
  for (const size_t room : {size_t{0}, size_t{1}, size_t{15}}) {
    const FuseReply reply = peer.call(FUSE_MKDIR, dir, pack(fuse_mkdir_in{.mode = 0755, .umask = 0}, "unseen"), room);
    BOOST_TEST(reply.used == 0U);
  }
  BOOST_TEST(counter("dropped") == before + 3);
  BOOST_TEST(node_of(peer.lookup(dir, "unseen")) == 0U);
}

BOOST_AUTO_TEST_CASE(too_little_room_for_the_fixed_reply_is_refused_without_effect) {
  const FuseReply reply =
      peer.call(FUSE_MKDIR, dir, pack(fuse_mkdir_in{.mode = 0755, .umask = 0}, "unseen"), 16 + sizeof(fuse_entry_out) - 1);
  BOOST_TEST(reply.error == EINVAL);
  BOOST_TEST(reply.used == 16U);
  const fuse_create_in in{.flags = 2, .mode = 0644, .umask = 0, .open_flags = 0};
  BOOST_TEST(peer.call(FUSE_CREATE, dir, pack(in, "unseen"), 16 + sizeof(fuse_entry_out)).error == EINVAL);
  BOOST_TEST(node_of(peer.lookup(dir, "unseen")) == 0U);
}

BOOST_AUTO_TEST_CASE(fixed_arguments_of_another_size_are_refused) {
  BOOST_TEST(peer.call(FUSE_GETATTR, kRoot, sys::Bytes(15)).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_GETATTR, kRoot, sys::Bytes(17)).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_SETATTR, kRoot, sys::Bytes(87)).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_READ, kRoot, {}).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_WRITE, kRoot, sys::Bytes(39)).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_MKNOD, kRoot, sys::Bytes(15)).error == EINVAL);
  BOOST_TEST(peer.call(FUSE_STATFS, kRoot, sys::Bytes(1)).error == EINVAL);
}

BOOST_AUTO_TEST_CASE(messages_without_a_reply_never_write) {
  for (const uint32_t opcode : {FUSE_FORGET, FUSE_BATCH_FORGET, FUSE_INTERRUPT, FUSE_NOTIFY_REPLY}) {
    const sys::Bytes message = peer.message(opcode, kRoot, pack(uint64_t{1}));
    BOOST_TEST(peer.send(message, 4096).used == 0U);
    BOOST_TEST(peer.send(message, 4096, FusePeer::kHiprio).used == 0U);
    BOOST_TEST(peer.send(message, 0, FusePeer::kHiprio).used == 0U);
  }
}

BOOST_AUTO_TEST_CASE(hiprio_queue_takes_nothing_that_replies) {
  const sys::Bytes message = peer.message(FUSE_MKDIR, dir, pack(fuse_mkdir_in{.mode = 0755, .umask = 0}, "unseen"));
  BOOST_TEST(peer.send(message, FusePeer::kRoom, FusePeer::kHiprio).error == EINVAL);
  BOOST_TEST(node_of(peer.lookup(dir, "unseen")) == 0U);
}

BOOST_AUTO_TEST_CASE(nothing_but_init_is_served_before_init) {
  BOOST_TEST(peer.call(FUSE_DESTROY, 0, {}).error == 0);
  BOOST_TEST(peer.getattr(kRoot).error == EIO);
  BOOST_TEST(peer.mkdir(kRoot, "unseen").error == EIO);
  BOOST_TEST(peer.call(99, kRoot, {}).error == EIO);
  peer.forget(kRoot, 1);
  BOOST_TEST(peer.init().error == 0);
  BOOST_TEST(peer.getattr(kRoot).error == 0);
}

BOOST_AUTO_TEST_CASE(second_init_is_a_new_session) {
  BOOST_TEST(peer.getattr(dir).error == 0);
  BOOST_TEST(peer.init().error == 0);
  BOOST_TEST(peer.getattr(dir).error == ESTALE);
}

BOOST_AUTO_TEST_CASE(init_of_another_major_or_an_old_minor_is_refused) {
  BOOST_TEST(peer.init(0, 8, 0).error == EPROTO);
  BOOST_TEST(peer.init(0, 6, 40).error == EPROTO);
  BOOST_TEST(peer.init(0, 7, 30).error == EPROTO);
  BOOST_TEST(peer.getattr(dir).error == 0);  // the session before it goes on
  BOOST_TEST(peer.init(0, 7, 31).error == 0);
  BOOST_TEST(peer.init(0, 7, 4000).error == 0);
}

BOOST_AUTO_TEST_CASE(init_agrees_on_what_both_know) {
  const auto all = peer.init().as<fuse_init_out>();
  BOOST_TEST(all.major == 7U);
  BOOST_TEST(all.max_write == 1U << 20);
  BOOST_TEST(all.max_pages == 256U);
  BOOST_TEST(all.flags2 == 0U);
  const uint32_t wanted = FUSE_WRITEBACK_CACHE | FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO | FUSE_CACHE_SYMLINKS |
                          FUSE_HANDLE_KILLPRIV_V2 | FUSE_PARALLEL_DIROPS | FUSE_ASYNC_READ | FUSE_BIG_WRITES |
                          FUSE_MAX_PAGES | FUSE_NO_OPEN_SUPPORT | FUSE_NO_OPENDIR_SUPPORT;
  BOOST_TEST(all.flags == wanted);
  const auto few = peer.init(FUSE_ASYNC_READ | FUSE_SUBMOUNTS).as<fuse_init_out>();
  BOOST_TEST(few.flags == static_cast<uint32_t>(FUSE_ASYNC_READ));
  BOOST_TEST(few.max_pages == 0U);
}

BOOST_AUTO_TEST_CASE(init_shorter_than_its_oldest_form_is_refused_and_longer_is_taken) {
  BOOST_TEST(peer.call(FUSE_INIT, 0, sys::Bytes(15)).error == EINVAL);
  const sys::Bytes old = pack(uint32_t{7}, uint32_t{33}, uint32_t{0}, uint32_t{FUSE_INIT_EXT});
  BOOST_TEST(peer.call(FUSE_INIT, 0, old).error == 0);
  sys::Bytes longer = old;
  longer.resize(128);
  BOOST_TEST(peer.call(FUSE_INIT, 0, longer).error == 0);
  BOOST_TEST(peer.call(FUSE_INIT, 0, old, 16 + 63).error == EINVAL);
}

BOOST_AUTO_TEST_CASE(destroy_ends_the_session_and_needs_no_room) {
  BOOST_TEST(peer.call(FUSE_DESTROY, 0, {}, 0).used == 0U);
  BOOST_TEST(peer.getattr(kRoot).error == EIO);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::fs_cases
