// Starts one command inside a ProcessSet: pipes, identity, directory, PATH search, execve.
//
// Asynchronous: `launch` forks and returns; `report` becomes readable when the child either ran execve (end
// of file) or failed (one LaunchFailure). One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vmm/guest/process_set.h"
#include "vmm/guest/request.h"
#include "vmm/sys/fd.h"

namespace turnbox::guest {

struct Launched {
  pid_t pid = -1;
  sys::Fd input;  // non-blocking ends of ours
  sys::Fd output;
  sys::Fd errors;
  sys::Fd report;  // non-blocking
};

// What the child writes to `report` when it cannot become the command.
struct LaunchFailure {
  enum class Step : uint32_t { prepare, directory, identity, program, interpreter };
  Step step;
  int32_t err;
};

// An answer with "ok":false: one of exec_format.h's words and a sentence.
struct Refusal {
  std::string_view error;
  std::string text;
};
Refusal explain(const LaunchFailure& failure, const Exec& exec);

sys::Result<Launched> launch(const Exec& exec, ProcessSet& set);

// The paths that execve is tried with, in order: argv[0] itself if it has a slash, else one for each
// directory of PATH in `env` (kDefaultPath without one; an empty directory is the current one). Empty for an
// empty name.
std::vector<std::string> candidates(const std::string& name, const std::vector<std::string>& env);

}  // namespace turnbox::guest
