// Reads a verb's options with CLI11, in turnbox's words: errors become one sentence of kind usage.
//
// CLI11 itself stays in options.cpp: its header alone takes seconds to compile.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "broker/cli/verb.h"

namespace turnbox::cli {

// `--state DIR` is there from the start. Everything else is declared before parse(), each bound to a variable
// that outlives it and that keeps its value where the option is not given.
class Options {
 public:
  explicit Options(const Verb& verb);
  ~Options();
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  void flag(const char* names, bool& value);  // «--quiet,-q»
  void text(const char* name, std::string& value);
  void texts(const char* name, std::vector<std::string>& values);  // may be repeated
  void choice(const char* name, std::string& value, std::vector<std::string> of);
  void number(const char* name, unsigned& value, unsigned least, unsigned most);
  void seconds(const char* name, double& value);  // above 0
  enum class Presence { required, optional };
  void argument(const char* name, std::string& value, Presence presence = Presence::required);

  const std::string& state() const { return state_; }
  // Arguments behind «--» are a usage error unless the verb takes them.
  sys::Status parse(const Arguments& arguments, bool takes_command = false);

 private:
  struct Parser;
  const Verb& verb_;
  std::unique_ptr<Parser> parser_;
  std::string state_;
};

}  // namespace turnbox::cli
