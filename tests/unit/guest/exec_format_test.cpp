// Golden bytes of the frame header (docs/WIRE.md, «Exec sessions»).
#include "vmm/guest/exec_format.h"

#include <boost/test/unit_test.hpp>

using namespace turnbox;
using guest::FrameHeader;
using guest::FrameType;

namespace {

std::optional<FrameHeader> decode(std::string_view hex) {
  const auto bytes = sys::from_hex(hex);
  return guest::decode_frame_header(std::span<const std::byte, guest::kFrameHeaderSize>(bytes->data(), 8));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exec_format)

BOOST_AUTO_TEST_CASE(golden_headers) {
  BOOST_TEST(sys::to_hex(guest::encode({FrameType::stdin_data, 0})) == "0100000000000000");
  BOOST_TEST(sys::to_hex(guest::encode({FrameType::stdout_data, 65'536})) == "0200000000000100");
  BOOST_TEST(sys::to_hex(guest::encode({FrameType::stderr_data, 258})) == "0300000002010000");
  BOOST_TEST(sys::to_hex(guest::encode({FrameType::exit, 10})) == "040000000a000000");
}

BOOST_AUTO_TEST_CASE(decodes_what_it_encodes) {
  BOOST_TEST((decode("0200000000000100") == FrameHeader{FrameType::stdout_data, 65'536}));
}

BOOST_AUTO_TEST_CASE(refuses_a_wrong_header) {
  BOOST_TEST(!decode("0000000000000000"));  // type 0
  BOOST_TEST(!decode("0500000000000000"));  // type 5
  BOOST_TEST(!decode("0100010000000000"));  // reserved byte
  BOOST_TEST(!decode("0100000001000100"));  // 65,537 bytes
}

BOOST_AUTO_TEST_SUITE_END()
