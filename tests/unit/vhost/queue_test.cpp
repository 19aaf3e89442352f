#include "vmm/vhost/queue.h"

#include <array>
#include <boost/test/unit_test.hpp>

#include "vmm/sys/bytes.h"

namespace turnbox::vhost {
namespace {

struct Buffers {
  std::array<std::byte, 3> a{};
  std::array<std::byte, 5> b{};
  std::vector<std::span<std::byte>> parts{a, std::span<std::byte>(), b};
  std::string text() const { return std::string(sys::as_text(a)) + std::string(sys::as_text(b)); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(chain_bytes)

BOOST_FIXTURE_TEST_CASE(a_writer_fills_parts_in_order_and_nothing_beyond, Buffers) {
  ChainWriter writer(parts);
  BOOST_TEST(writer.remaining() == 8U);
  BOOST_TEST(writer.write(sys::as_bytes("12")));
  BOOST_TEST(writer.write(sys::as_bytes("3456")));
  BOOST_TEST(!writer.write(sys::as_bytes("789")));
  BOOST_TEST(writer.written() == 6U);
  BOOST_TEST(writer.write(sys::as_bytes("78")));
  BOOST_TEST(writer.write({}));
  BOOST_TEST(!writer.write(sys::as_bytes("9")));
  BOOST_TEST(text() == "12345678");
  BOOST_TEST(writer.written() == 8U);
}

BOOST_FIXTURE_TEST_CASE(a_reserved_head_is_filled_after_the_body, Buffers) {
  ChainWriter writer(parts);
  BOOST_TEST(!writer.reserve(9));
  auto head = writer.reserve(4);
  BOOST_REQUIRE(head.has_value());
  BOOST_TEST(writer.write(sys::as_bytes("body")));
  BOOST_TEST(writer.written() == 8U);
  BOOST_TEST(!head->write(sys::as_bytes("head!")));
  BOOST_TEST(head->write(sys::as_bytes("head")));
  BOOST_TEST(head->written() == 4U);
  BOOST_TEST(text() == "headbody");
}

BOOST_FIXTURE_TEST_CASE(a_reader_gives_all_it_was_asked_for_or_nothing, Buffers) {
  ChainWriter(parts).write(sys::as_bytes("12345678"));
  ChainReader reader(parts);
  std::array<std::byte, 4> four;
  BOOST_TEST(reader.skip(1));
  BOOST_TEST(reader.read(four));
  BOOST_TEST(sys::as_text(four) == "2345");
  BOOST_TEST(!reader.read(four));
  BOOST_TEST(!reader.skip(4));
  BOOST_TEST(reader.remaining() == 3U);
  BOOST_TEST(reader.skip(3));
  BOOST_TEST(reader.read({}));
}

BOOST_FIXTURE_TEST_CASE(a_chain_counts_its_two_sides, Buffers) {
  const Chain chain(7, parts, 1);
  BOOST_TEST(chain.head() == 7U);
  BOOST_TEST(chain.readable_bytes() == 3U);
  BOOST_TEST(chain.writable_bytes() == 5U);
  BOOST_TEST(chain.reader().remaining() == 3U);
  BOOST_TEST(chain.writer().remaining() == 5U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::vhost
