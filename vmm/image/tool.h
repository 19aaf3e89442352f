// Runs the programs that an image build needs, and says clearly what went wrong. One build, one thread.
#pragma once

#include <string>
#include <vector>

#include "vmm/sys/result.h"

namespace turnbox::image {

// A program of the host and the Debian package it comes in.
struct Tool {
  const char* program;
  const char* package;
};

// Kind unavailable, naming every missing program and the one command that installs them.
sys::Status need_tools(const std::vector<Tool>& tools);

struct Run {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH and the sbin directories
  std::string input;              // a file for stdin; empty: none
  std::string output;  // a file for stdout; empty: it is returned (and with stderr shown on failure)
};

class Tools {
 public:
  // `directory`: where runs keep their output while they last, and TMPDIR of the programs when `own_tmp`.
  Tools(std::string directory, bool own_tmp) : directory_(std::move(directory)), own_tmp_(own_tmp) {}

  // What the program printed on stdout. A failure's text: what, how it ended, and its last output lines.
  sys::Result<std::string> run(const std::string& what, const Run& run) const;

  const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
  bool own_tmp_;
};

}  // namespace turnbox::image
