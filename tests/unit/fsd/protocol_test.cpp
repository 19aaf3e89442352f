#include "fs/control/protocol.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <boost/test/unit_test.hpp>
#include <string>

#include "fs/control/change_list.h"
#include "fs/control/object_stream.h"
#include "fs/control/params.h"
#include "tests/support/print.h"
#include "vmm/sys/memfd.h"

namespace turnbox::control {
namespace {

std::vector<sys::Fd> nulls(size_t count) {
  std::vector<sys::Fd> fds;
  for (size_t i = 0; i < count; ++i) fds.push_back(sys::open_fd("/dev/null", O_RDONLY).value());
  return fds;
}

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

}  // namespace

std::ostream& operator<<(std::ostream& to, LineBuffer::Next next) {
  return to << static_cast<int>(next);
}

using Next = LineBuffer::Next;

BOOST_AUTO_TEST_SUITE(protocol)

BOOST_AUTO_TEST_CASE(lines_come_out_however_the_bytes_were_cut) {
  const std::string sent = "one\n\ntwo\nthree";
  for (size_t cut = 0; cut <= sent.size(); ++cut) {
    LineBuffer lines(64);
    std::vector<std::string> got;
    std::string line;
    for (const auto& part : {sent.substr(0, cut), sent.substr(cut)}) {
      BOOST_REQUIRE(lines.feed(sys::as_bytes(part), {}));
      while (lines.next(line) == Next::line) got.push_back(line);
    }
    BOOST_TEST((got == std::vector<std::string>{"one", "", "two"}));
  }
}

BOOST_AUTO_TEST_CASE(a_line_too_long_is_told_once_and_skipped) {
  LineBuffer lines(8);
  std::string line;
  (void)lines.feed(sys::as_bytes("1234567\n12345678\nok\n"), {});
  BOOST_TEST(lines.next(line) == Next::line);
  BOOST_TEST(lines.next(line) == Next::too_long);
  BOOST_TEST(lines.next(line) == Next::line);
  BOOST_TEST(line == "ok");
  for (int i = 0; i < 5; ++i) {
    (void)lines.feed(sys::as_bytes("longlonglong"), {});
    BOOST_TEST(lines.next(line) == (i == 0 ? Next::too_long : Next::none));
  }
  (void)lines.feed(sys::as_bytes("\nok\n"), {});
  BOOST_TEST(lines.next(line) == Next::line);
  BOOST_TEST(line == "ok");
}

BOOST_AUTO_TEST_CASE(descriptors_are_counted_and_strays_closed) {
  LineBuffer lines(64);
  std::string line;
  auto fds = nulls(3);
  const int stray = fds[2].get();
  BOOST_REQUIRE(lines.feed(sys::as_bytes("a\n"), std::move(fds)));
  BOOST_TEST(!lines.take_fds(4).has_value());
  BOOST_TEST(lines.take_fds(2)->size() == 2u);
  BOOST_TEST(lines.next(line) == Next::line);
  BOOST_TEST(lines.drop_stray_fds() == 1u);
  BOOST_TEST(!is_open(stray));
  BOOST_TEST(!lines.feed({}, nulls(kMaxQueuedFds + 1)));
}

BOOST_AUTO_TEST_CASE(descriptors_wait_while_their_line_is_cut) {
  LineBuffer lines(64);
  std::string line;
  BOOST_REQUIRE(lines.feed(sys::as_bytes("half"), nulls(1)));
  BOOST_TEST(lines.next(line) == Next::none);
  BOOST_TEST(lines.drop_stray_fds() == 0u);
  (void)lines.feed(sys::as_bytes("\n"), {});
  BOOST_TEST(lines.next(line) == Next::line);
  BOOST_TEST(lines.take_fds(1)->size() == 1u);
}

BOOST_AUTO_TEST_CASE(parameters_are_typed_bounded_and_known) {
  const auto value = boost::json::parse(
      R"({"t":"x","n":7,"neg":-1,"big":9007199254740992,"real":1.5,"f":true,"o":{},"l":["a"],"bad":["a",1]})");
  const auto& from = value.get_object();
  Params params(from);
  BOOST_TEST(params.text("t").value() == "x");
  BOOST_TEST(params.number("n").value() == 7u);
  BOOST_TEST(!params.number("neg").has_value());
  BOOST_TEST(!params.number("big").has_value());
  BOOST_TEST(!params.number("real").has_value());
  BOOST_TEST(!params.number("absent").has_value());
  BOOST_TEST(params.flag("f").value());
  BOOST_TEST(!params.flag("n").has_value());
  BOOST_TEST(params.texts("l").value().size() == 1u);
  BOOST_TEST(!params.texts("bad").has_value());
  const auto unknown = params.finish();
  BOOST_TEST(unknown.error().text == "unknown parameter o");
  BOOST_TEST(params.object("o").has_value());
  BOOST_TEST(params.finish().has_value());
}

BOOST_AUTO_TEST_CASE(object_stream_goes_through_a_memfd) {
  auto writer = ObjectStreamWriter::make().value();
  const std::string big((size_t{1} << 20) + 7, 'b');
  const auto digest = sys::digest_of("chunk", sys::as_bytes(big));
  BOOST_REQUIRE(writer.put(ObjectKind::chunk, digest, sys::as_bytes(big)));
  BOOST_REQUIRE(writer.put(ObjectKind::file, sys::digest_of("file", {}), {}));
  BOOST_TEST(writer.size() == big.size() + 80);
  const sys::Fd file = writer.finish().value();
  const auto bytes = sys::map_sealed(file.get(), kMaxBulk).value();
  std::vector<std::pair<ObjectKind, size_t>> got;
  BOOST_REQUIRE(
      read_object_stream(bytes.bytes(), [&](ObjectKind kind, const sys::Digest&, sys::ByteSpan body) {
        got.emplace_back(kind, body.size());
        return sys::Status{};
      }));
  BOOST_TEST((got == std::vector<std::pair<ObjectKind, size_t>>{{ObjectKind::chunk, big.size()},
                                                                {ObjectKind::file, 0}}));
  const auto nothing = [](ObjectKind, const sys::Digest&, sys::ByteSpan) { return sys::Status{}; };
  for (const size_t cut : {size_t{1}, size_t{39}, size_t{40}, big.size() + 41}) {
    BOOST_TEST(read_object_stream(sys::ByteSpan(bytes.bytes()).first(cut), nothing).error().kind ==
               sys::ErrorKind::protocol);
  }
  sys::Bytes bad_kind(40, std::byte{0});
  BOOST_TEST(!read_object_stream(bad_kind, nothing).has_value());
  bad_kind[0] = std::byte{7};
  BOOST_TEST(!read_object_stream(bad_kind, nothing).has_value());
}

BOOST_AUTO_TEST_CASE(change_list_golden_bytes) {
  sys::Bytes rows;
  append_change(rows, '+', letter_of(fs::Type::regular), "a/\xff");
  append_change(rows, '-', letter_of(fs::Type::directory), "d");
  BOOST_TEST(sys::to_hex(rows) == "2b66000003000000612fff2d6400000100000064");
  std::string told;
  BOOST_REQUIRE(read_change_list(rows, [&](char change, char type, std::string_view path) {
    told.append({change, type}).append(path).append("|");
  }));
  BOOST_TEST(told == "+fa/\xff|-dd|");
  rows[0] = std::byte{'?'};
  BOOST_TEST(!read_change_list(rows, [](char, char, std::string_view) {}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnbox::control
