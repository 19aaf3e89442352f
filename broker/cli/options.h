// Reads a verb's options with CLI11, in turnbox's words: errors become one sentence of kind usage.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "broker/cli/verb.h"

namespace turnbox::cli {

// A parser without CLI11's own help and with `--state DIR` bound to `state`.
class Options {
 public:
  explicit Options(const Verb& verb);
  CLI::App& app() { return app_; }
  const std::string& state() const { return state_; }
  // Arguments behind «--» are a usage error unless the verb takes them.
  sys::Status parse(const Arguments& arguments, bool takes_command = false);

 private:
  const Verb& verb_;
  CLI::App app_;
  std::string state_;
};

}  // namespace turnbox::cli
