// One line on a terminal that says what is being waited for, and is gone when it is over. On anything but a
// terminal, and with --quiet, nothing is printed.
#pragma once

#include <string>

namespace turnbox::cli {

class Progress {
 public:
  explicit Progress(bool wanted);
  ~Progress() { clear(); }
  void show(const std::string& text);  // replaces the line
  void clear();

 private:
  bool on_;
  bool shown_ = false;
};

}  // namespace turnbox::cli
