// Runs one command while a fresh, empty workspace is mounted for writing, and unmounts whatever happened:
//   with_mount [--bytes N] [--inodes N] COMMAND [WORD]…
// The command finds it in TURNBOX_PLACE. The exit status is the command's.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "tests/support/mounted.h"

namespace {

int run(char** command) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::execvp(command[0], command);
    std::perror(command[0]);
    ::_exit(127);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int enter(int argc, char** argv) {
  turnbox::support::MountOptions options;
  int at = 1;
  while (at + 1 < argc && argv[at][0] == '-') {
    options.fsd.insert(options.fsd.end(), {argv[at], argv[at + 1]});
    at += 2;
  }
  if (at >= argc) {
    std::fputs("usage: with_mount [--bytes N] [--inodes N] COMMAND [WORD]…\n", stderr);
    return 2;
  }
  turnbox::support::need_fuse();
  const turnbox::support::Mounted mounted(options);
  ::setenv("TURNBOX_PLACE", mounted.path().c_str(), 1);
  return run(argv + at);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return enter(argc, argv);
  } catch (const std::exception& failed) {
    std::fprintf(stderr, "with_mount: %s\n", failed.what());
    return 127;
  }
}
