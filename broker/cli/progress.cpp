#include "broker/cli/progress.h"

#include <unistd.h>

#include <cstdio>

namespace turnbox::cli {

Progress::Progress(bool wanted) : on_(wanted && ::isatty(STDERR_FILENO) == 1) {}

void Progress::show(const std::string& text) {
  if (!on_) return;
  std::fprintf(stderr, "\r\033[Kturnbox: %s", text.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace turnbox::cli
