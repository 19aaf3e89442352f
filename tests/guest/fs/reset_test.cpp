// RESET_DEVICE and regions one at a time on the real turnbox-fsd: the guest's session ends, the device stays.
#include <boost/test/unit_test.hpp>

#include "tests/support/fake_front_end.h"
#include "tests/support/fsd.h"
#include "tests/support/fuse_peer.h"

namespace turnbox::support {
namespace {

using vhost::Request;

class Guest final : public FusePeer {
 public:
  explicit Guest(const std::string& path) : front_end(path, {.queues = 2}) {}
  sys::Bytes exchange(std::span<const std::byte> readable, size_t room, unsigned queue) override {
    return front_end.request(queue, readable, room).bytes;
  }
  void set_up_rings() {
    for (unsigned queue = 0; queue < 2; ++queue) {
      front_end.set_up_ring(queue, front_end.ring(queue).avail_idx());
      front_end.enable_ring(queue);
    }
  }
  FakeFrontEnd front_end;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(fsd_reset)

BOOST_AUTO_TEST_CASE(a_reset_ends_the_session_and_its_lookups_and_the_tree_stays) {
  Fsd fsd;
  Guest guest(fsd.workspace_socket());
  guest.front_end.handshake();
  BOOST_TEST(guest.init().error == 0);
  const uint64_t dir = guest.walk("ws/1");
  const uint64_t file = guest.create(dir, "kept").as<fuse_entry_out>().nodeid;
  BOOST_TEST(guest.write(file, 0, 0, "bytes").error == 0);

  BOOST_TEST(guest.front_end.ack(Request::reset_device).value() == 0U);
  BOOST_TEST(
      guest.front_end.ack(Request::set_features, FakeFrontEnd::u64(guest.front_end.features())).value() ==
      0U);
  guest.set_up_rings();
  BOOST_TEST(guest.getattr(file).error == EIO);  // no session
  BOOST_TEST(guest.init().error == 0);
  BOOST_TEST(guest.getattr(file).error == ESTALE);  // a lookup of the session that ended
  const uint64_t again = guest.walk("ws/1/kept");
  BOOST_TEST(guest.read(again, 0, 0, 16).text() == "bytes");
  BOOST_TEST(fsd.alive());
}

BOOST_AUTO_TEST_CASE(a_session_goes_on_when_its_memory_is_taken_and_given_back) {
  Fsd fsd;
  Guest guest(fsd.workspace_socket());
  guest.front_end.negotiate();
  const vhost::Region all = guest.front_end.memory().region();
  const int fd = guest.front_end.memory().fd();
  const auto payload = FakeFrontEnd::one_region(all);
  BOOST_TEST(guest.front_end.ack(Request::add_mem_reg, payload, std::span(&fd, 1)).value() == 0U);
  guest.set_up_rings();
  BOOST_TEST(guest.init().error == 0);
  const uint64_t dir = guest.walk("ws/1");
  BOOST_TEST(guest.front_end.ack(Request::rem_mem_reg, payload).value() == 0U);
  BOOST_TEST(guest.front_end.ack(Request::add_mem_reg, payload, std::span(&fd, 1)).value() == 0U);
  BOOST_TEST(guest.getattr(dir).error == 0);
  BOOST_TEST(fsd.alive());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::support
