// The archive's bytes, against the kernel's description of the format, and reading them back.
#include "vmm/image/initramfs.h"

#include <boost/test/unit_test.hpp>

using namespace turnbox::image;

BOOST_AUTO_TEST_SUITE(initramfs)

BOOST_AUTO_TEST_CASE(golden_bytes) {
  Cpio cpio;
  cpio.character_device("c", 5, 1);
  cpio.file("ab", "xyz", 0644);
  const std::string expected = std::string(
                                   "070701"
                                   "00000001"
                                   "00002180"
                                   "00000000"
                                   "00000000"
                                   "00000001"
                                   "00000000"
                                   "00000000"
                                   "00000000"
                                   "00000000"
                                   "00000005"
                                   "00000001"
                                   "00000002"
                                   "00000000") +
                               std::string("c\0", 2) +
                               "070701"
                               "00000002"
                               "000081A4"
                               "00000000"
                               "00000000"
                               "00000001"
                               "00000000"
                               "00000003"
                               "00000000"
                               "00000000"
                               "00000000"
                               "00000000"
                               "00000003"
                               "00000000" +
                               std::string("ab\0\0\0\0", 6) + std::string("xyz\0", 4) +
                               "070701"
                               "00000000"
                               "00000000"
                               "00000000"
                               "00000000"
                               "00000001"
                               "00000000"
                               "00000000"
                               "00000000"
                               "00000000"
                               "00000000"
                               "00000000"
                               "0000000B"
                               "00000000" +
                               std::string("TRAILER!!!\0\0\0\0", 14);
  BOOST_TEST(cpio.finish() == expected);
}

BOOST_AUTO_TEST_CASE(equal_entries_give_equal_bytes) {
  auto make = [] {
    Cpio cpio;
    cpio.directory("d");
    cpio.file("d/f", std::string(1000, 'x'), 0755);
    return cpio.finish();
  };
  BOOST_TEST(make() == make());
}

BOOST_AUTO_TEST_CASE(reads_back) {
  Cpio cpio;
  cpio.directory("d");
  for (int i = 0; i < 9; ++i)
    cpio.file("d/" + std::to_string(i), std::string(static_cast<size_t>(i), 'x'), 0644);
  const std::string archive = cpio.finish();
  for (int i = 0; i < 9; ++i) {
    BOOST_TEST(file_in_cpio(archive, "d/" + std::to_string(i)).value() ==
               std::string(static_cast<size_t>(i), 'x'));
  }
  BOOST_TEST(!file_in_cpio(archive, "d/9"));
}

BOOST_AUTO_TEST_CASE(a_damaged_archive_is_not_read_past_its_end) {
  Cpio cpio;
  cpio.file("f", "content", 0644);
  cpio.file("last", "z", 0644);
  const std::string archive = cpio.finish();
  for (size_t cut = 0; cut < archive.size(); ++cut) {
    for (const char byte : {'0', 'F', '\xff'}) {
      std::string damaged = archive.substr(0, cut);
      damaged += byte;
      (void)file_in_cpio(damaged, "last");
    }
  }
  std::string huge = archive;
  huge.replace(6 + 8 * 6, 8, "FFFFFFFF");  // the size of the first file
  BOOST_TEST(!file_in_cpio(huge, "last"));
}

BOOST_AUTO_TEST_SUITE_END()
