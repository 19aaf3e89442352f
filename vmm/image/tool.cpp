#include "vmm/image/tool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "vmm/sys/fd.h"
#include "vmm/sys/process.h"

namespace turnbox::image {
namespace {

using sys::ErrorKind;
using sys::fail;
using sys::Fd;
using sys::Result;

constexpr size_t kMaxOutput = size_t{16} << 20;
constexpr size_t kTailLines = 5;

std::optional<std::string> find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string directories = std::string(path == nullptr ? "/usr/bin:/bin" : path) + ":/usr/sbin:/sbin";
  for (size_t from = 0; from <= directories.size();) {
    const size_t end = std::min(directories.find(':', from), directories.size());
    const std::string candidate = directories.substr(from, end - from) + "/" + name;
    if (candidate.front() == '/' && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    from = end + 1;
  }
  return std::nullopt;
}

// The caller's environment (proxies, mirrors), with the programs' own language and a fixed build time.
std::vector<std::string> environment(const std::string& tmp) {
  std::vector<std::string> env;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view entry = *at;
    const bool ours = entry.starts_with("LC_") || entry.starts_with("LANG") ||
                      entry.starts_with("DEBIAN_FRONTEND=") || (!tmp.empty() && entry.starts_with("TMPDIR="));
    if (!ours) env.emplace_back(entry);
  }
  env.emplace_back("LC_ALL=C.UTF-8");
  env.emplace_back("DEBIAN_FRONTEND=noninteractive");
  // 2023-11-14, an arbitrary moment: files newer than it get it as their time, so that equal packages give
  // equal images.
  if (std::getenv("SOURCE_DATE_EPOCH") == nullptr) env.emplace_back("SOURCE_DATE_EPOCH=1700000000");
  if (!tmp.empty()) env.push_back("TMPDIR=" + tmp);
  return env;
}

std::string last_lines(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  size_t from = text.size();
  for (size_t lines = 0; lines < kTailLines && from != std::string_view::npos && from > 0; ++lines) {
    from = text.rfind('\n', from - 1);
  }
  return std::string(from == std::string_view::npos
                         ? text
                         : text.substr(from + (from < text.size() && text[from] == '\n' ? 1 : 0)));
}

}  // namespace

sys::Status need_tools(const std::vector<Tool>& tools) {
  std::string programs;
  std::string packages;
  for (const Tool& tool : tools) {
    if (find_program(tool.program)) continue;
    programs += std::string(programs.empty() ? "" : ", ") + tool.program;
    packages += std::string(" ") + tool.package;
  }
  if (programs.empty()) return {};
  return fail(ErrorKind::unavailable,
              "building an image needs " + programs + "; run: apt-get install" + packages);
}

Result<std::string> Tools::run(const std::string& what, const Run& run) const {
  const auto program = find_program(run.argv[0]);
  if (!program)
    return fail(ErrorKind::unavailable, what + ": the program " + run.argv[0] + " is not installed");
  const std::string out_path = run.output.empty() ? directory_ + "/stdout" : run.output;
  const std::string err_path = directory_ + "/stderr";
  TRY_ASSIGN(const Fd in, sys::open_fd(run.input.empty() ? "/dev/null" : run.input.c_str(), O_RDONLY));
  TRY_ASSIGN(const Fd out, sys::open_fd(out_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644));
  TRY_ASSIGN(const Fd err, sys::open_fd(err_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0644));
  TRY_ASSIGN(sys::Process process,
             sys::Process::spawn({.program = *program,
                                  .argv = run.argv,
                                  .env = environment(own_tmp_ ? directory_ : ""),
                                  .fds = {{in.get(), 0}, {out.get(), 1}, {err.get(), 2}}}));
  std::optional<sys::Exit> exit;
  while (!(exit = process.wait_for(std::chrono::minutes(1)))) {
  }
  TRY_ASSIGN(const std::string printed,
             run.output.empty() ? sys::read_file(out_path, kMaxOutput) : Result<std::string>(""));
  if (!exit->signalled && exit->code == 0) return printed;
  const std::string how = exit->signalled ? "was killed by signal " + std::to_string(exit->code)
                                          : "failed with status " + std::to_string(exit->code);
  auto complaint = sys::read_file(err_path, kMaxOutput);
  std::string tail = last_lines(complaint && !complaint->empty() ? *complaint : printed);
  return fail(ErrorKind::unavailable,
              what + ": " + run.argv[0] + " " + how + (tail.empty() ? "" : ":\n" + tail));
}

}  // namespace turnbox::image
