#include "vmm/image/kernel.h"

#include <elf.h>

#include <boost/test/unit_test.hpp>
#include <cstring>

using namespace turnbox::image;

namespace {

template <typename T>
void put(std::string& bytes, size_t at, const T& value) {
  if (bytes.size() < at + sizeof value) bytes.resize(at + sizeof value);
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

std::string bz_image(std::string_view payload, uint32_t offset = 64) {
  std::string bytes(size_t{3} * 512, '\0');
  put<uint8_t>(bytes, 0x1f1, 2);
  put<uint32_t>(bytes, 0x202, 0x53726448);
  put<uint16_t>(bytes, 0x206, 0x20f);
  put<uint32_t>(bytes, 0x248, offset);
  put<uint32_t>(bytes, 0x24c, static_cast<uint32_t>(payload.size()));
  bytes.resize(bytes.size() + 64, 'p');
  return bytes.append(payload);
}

std::string elf_with_note(uint32_t type, std::string_view name) {
  std::string bytes;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_phoff = sizeof header;
  header.e_phnum = 1;
  put(bytes, 0, header);
  const size_t notes = sizeof header + sizeof(Elf64_Phdr);
  Elf64_Phdr segment{};
  segment.p_type = PT_NOTE;
  segment.p_offset = notes;
  const Elf64_Nhdr other{4, 5, 1};
  put(bytes, notes, other);
  bytes += std::string("GNU\0desc5\0\0\0", 12);
  const Elf64_Nhdr note{static_cast<Elf64_Word>(name.size() + 1), 4, type};
  put(bytes, bytes.size(), note);
  bytes.append(name).append(std::string(1, '\0')).append("addr");
  segment.p_filesz = bytes.size() - notes;
  put(bytes, sizeof header, segment);
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kernel)

BOOST_AUTO_TEST_CASE(payload_without_its_length) {
  BOOST_TEST(payload_of(bz_image("compressed\1\2\3\4")).value() == "compressed");
}

BOOST_AUTO_TEST_CASE(refuses_what_is_no_kernel) {
  BOOST_TEST(!payload_of(""));
  BOOST_TEST(!payload_of(std::string(4096, 'x')));
  std::string outside = bz_image("compressed\1\2\3\4");
  put<uint32_t>(outside, 0x24c, 1000);
  BOOST_TEST(!payload_of(outside));
  put<uint32_t>(outside, 0x24c, 0xffffffff);
  BOOST_TEST(!payload_of(outside));
  put<uint32_t>(outside, 0x24c, 3);
  BOOST_TEST(!payload_of(outside));
  BOOST_TEST(!payload_of(bz_image("xxxx", 0xffffffff)));
}

BOOST_AUTO_TEST_CASE(finds_the_pvh_note) {
  BOOST_TEST(has_pvh_entry(elf_with_note(18, "Xen")));
  BOOST_TEST(!has_pvh_entry(elf_with_note(17, "Xen")));
  BOOST_TEST(!has_pvh_entry(elf_with_note(18, "GNU")));
  BOOST_TEST(!has_pvh_entry(""));
  const std::string whole = elf_with_note(18, "Xen");
  // The note's name is the last thing needed; no shorter file may be read past its end.
  for (size_t cut = 0; cut < whole.size(); ++cut) (void)has_pvh_entry(std::string_view(whole).substr(0, cut));
}

BOOST_AUTO_TEST_CASE(takes_the_signature_off) {
  const std::string marker = "~Module signature appended~\n";
  const std::string info = std::string("\1\0\2\0\0\0\0\0", 8) + std::string("\0\0\0\5", 4);
  BOOST_TEST(without_signature("code"
                               "SIGNA" +
                               info + marker) == "code");
  BOOST_TEST(without_signature("code") == "code");
  const std::string lying = std::string("co") + std::string(8, '\0') + std::string("\0\0\1\0", 4) + marker;
  BOOST_TEST(without_signature(lying) == lying);
  BOOST_TEST(without_signature(marker) == marker);
}

BOOST_AUTO_TEST_SUITE_END()
