// The built turnbox-init: one static program, whose mistaken use ends with a sentence.
#include <elf.h>
#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstring>

#include "vmm/sys/fd.h"

using namespace turnbox;

BOOST_AUTO_TEST_SUITE(agent)

BOOST_AUTO_TEST_CASE(needs_no_library) {
  const std::string elf = sys::read_file(TURNBOX_INIT, size_t{64} << 20).value();
  Elf64_Ehdr header;
  BOOST_REQUIRE(elf.size() > sizeof header);
  std::memcpy(&header, elf.data(), sizeof header);
  bool code = false;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, elf.data() + header.e_phoff + i * sizeof segment, sizeof segment);
    BOOST_TEST(segment.p_type != static_cast<unsigned>(PT_INTERP));
    BOOST_TEST(segment.p_type != static_cast<unsigned>(PT_DYNAMIC));
    code = code || segment.p_type == PT_LOAD;
  }
  BOOST_TEST(code);
}

BOOST_AUTO_TEST_CASE(refuses_to_be_anything_but_pid_1) {
  FILE* pipe = ::popen(TURNBOX_INIT " 2>&1", "r");
  BOOST_REQUIRE(pipe != nullptr);
  char line[200] = {};
  BOOST_TEST(std::fgets(line, sizeof line, pipe) != nullptr);
  BOOST_TEST(std::string(line) == "turnbox-init: runs as PID 1 of a turnbox guest only\n");
  BOOST_TEST(WEXITSTATUS(::pclose(pipe)) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
