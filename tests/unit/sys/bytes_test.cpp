#include "vmm/sys/bytes.h"

#include <stdlib.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "vmm/sys/digest.h"
#include "vmm/sys/fd.h"

namespace turnbox::sys {

BOOST_AUTO_TEST_SUITE(bytes)

BOOST_AUTO_TEST_CASE(utf8_refuses_overlong_surrogates_and_cut_sequences) {
  BOOST_TEST(is_utf8("plain"));
  BOOST_TEST(is_utf8("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
  BOOST_TEST(!is_utf8("\xc0\x80"));
  BOOST_TEST(!is_utf8("\xed\xa0\x80"));
  BOOST_TEST(!is_utf8("\xe2\x82"));
  BOOST_TEST(!is_utf8("\xf4\x90\x80\x80"));
}

BOOST_AUTO_TEST_CASE(reader_stops_for_good_at_the_first_short_take) {
  const Bytes four{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  ByteReader reader(four);
  BOOST_TEST(reader.take_le<uint16_t>().value() == 0x0201);
  BOOST_TEST(!reader.take_le<uint32_t>());
  BOOST_TEST(!reader.take(1));
  BOOST_TEST(reader.failed());
}

BOOST_AUTO_TEST_CASE(hex_round_trip_and_refusal) {
  BOOST_TEST(to_hex(*from_hex("00ff7a")) == "00ff7a");
  BOOST_TEST(!from_hex("0"));
  BOOST_TEST(!from_hex("0G"));
  BOOST_TEST(!from_hex("FF"));
}

BOOST_AUTO_TEST_CASE(read_file_takes_up_to_the_limit_and_refuses_more) {
  char name[] = "/tmp/turnbox-test-XXXXXX";
  const Fd fd(::mkstemp(name));
  const std::string content(10'000, 'x');
  BOOST_REQUIRE(write_full(fd.get(), as_bytes(content)));
  BOOST_TEST((read_file(name, 10'000).value() == content));
  BOOST_TEST((read_file(name, size_t{1} << 40).value() == content));
  BOOST_TEST((read_file(name, 9'999).error().kind == ErrorKind::limit));
  ::unlink(name);
}

BOOST_AUTO_TEST_CASE(digest_is_prefixed_sha256) {
  // printf 'turnbox.chunk.v1\0abc' | sha256sum
  BOOST_TEST(to_hex(digest_of("chunk", as_bytes("abc"))) ==
             to_hex(plain_sha256(as_bytes(std::string_view("turnbox.chunk.v1\0abc", 20)))));
  BOOST_TEST(to_hex(plain_sha256(as_bytes("abc"))) ==
             "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::sys
