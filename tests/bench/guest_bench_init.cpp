// The only process of guest_bench.py's guest: does the same work in three directories, in turns, and prints a
// line for every time it took: ROW, what, where, nanoseconds an operation.
//
//   /places/turnbox     turnbox's /workspace (tag «workspace»)
//   /places/virtiofsd   QEMU's C virtiofsd on tmpfs (tag «peer»)
//   /places/tmpfs       the guest's own tmpfs: what no virtio-fs can beat
//
// Kernel words: bench.files=N bench.rounds=N. A disk that begins with a tar archive has the tools' input.
#include <sys/wait.h>
#include <time.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/bench/guest_start.h"

namespace turnbox::bench {
namespace {

struct Place {
  const char* name;
  std::string path;
};

std::vector<Place> places = {
    {"turnbox", "/places/turnbox/ws/1"}, {"virtiofsd", "/places/virtiofsd"}, {"tmpfs", "/places/tmpfs"}};

int64_t now() {
  timespec at{};
  ::clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec * 1'000'000'000 + at.tv_nsec;
}

void row(const char* what, const Place& place, int64_t took, int64_t count = 1) {
  std::printf("ROW\t%s\t%s\t%lld\n", what, place.name, static_cast<long long>(took / count));
  std::fflush(stdout);
}

void must(bool good, const char* what) {
  if (!good) stop(what);
}

void write_file(const char* path, const char* text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  must(fd >= 0 && ::write(fd, text, std::strlen(text)) > 0, path);
  ::close(fd);
}

// The number behind a kernel word.
unsigned word(const char* name, unsigned otherwise) {
  static char words[4096];
  if (words[0] == 0) {
    const int fd = ::open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
    must(fd >= 0 && ::read(fd, words, sizeof words - 1) > 0, "/proc/cmdline");
    ::close(fd);
  }
  const char* found = std::strstr(words, name);
  return found == nullptr ? otherwise
                          : static_cast<unsigned>(std::strtoul(found + std::strlen(name), nullptr, 10));
}

// --- small files, by system calls

class SmallFiles {
 public:
  explicit SmallFiles(unsigned count) : count_(count) {
    for (unsigned i = 0; i < count; ++i) names_.push_back("small/file-" + std::to_string(i));
  }

  void round(const Place& place) {
    must(::chdir(place.path.c_str()) == 0 && ::mkdir("small", 0755) == 0, "small");
    timed("create + 4 KiB", place, [](const char* name) { make(name); });
    const int64_t synced = now();
    sync_here();
    row("(syncfs after them, a file)", place, now() - synced, count_);
    timed("first stat after close", place, [](const char* name) { stat_of(name); });
    timed("repeated stat", place, [](const char* name) { stat_of(name); });
    timed("open + read", place, [](const char* name) { read_all(name); });
    timed("first stat of a missing name", place, [](const char* name) { missing(name); });
    timed("second stat of a missing name", place, [](const char* name) { missing(name); });
    timed("unlink", place, [](const char* name) { must(::unlink(name) == 0, "unlink"); });
    must(::rmdir("small") == 0, "rmdir");
  }

  // For rm -r: made, not timed.
  void make_all(const Place& place) {
    must(::chdir(place.path.c_str()) == 0 && ::mkdir("small", 0755) == 0, "small");
    for (const std::string& name : names_) make(name.c_str());
    sync_here();
  }

 private:
  static constexpr size_t kSize = 4096;
  inline static char bytes_[kSize];

  static void make(const char* name) {
    const int fd = ::open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    must(fd >= 0 && ::write(fd, bytes_, kSize) == kSize && ::close(fd) == 0, "create");
  }
  static void stat_of(const char* name) {
    struct stat about {};
    must(::stat(name, &about) == 0 && about.st_size == kSize, "stat");
  }
  static void read_all(const char* name) {
    const int fd = ::open(name, O_RDONLY | O_CLOEXEC);
    must(fd >= 0 && ::read(fd, bytes_, kSize) == kSize && ::close(fd) == 0, "read");
  }
  static void missing(const char* name) {
    char other[128];
    std::snprintf(other, sizeof other, "%s.missing", name);
    struct stat about {};
    must(::stat(other, &about) < 0 && errno == ENOENT, "a missing name");
  }
  static void sync_here() {
    const int fd = ::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(fd >= 0 && ::syncfs(fd) == 0, "syncfs");
    ::close(fd);
  }
  void timed(const char* what, const Place& place, const std::function<void(const char*)>& each) {
    const int64_t start = now();
    for (const std::string& name : names_) each(name.c_str());
    row(what, place, now() - start, count_);
  }

  unsigned count_;
  std::vector<std::string> names_;
};

// --- real tools

// Runs a program of the image to its end; what it wrote to standard output.
std::string run(const std::vector<std::string>& words, const std::string& more_env = {}) {
  int out[2];
  must(::pipe2(out, O_CLOEXEC) == 0, "pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> argv, env;
    for (const std::string& each : words) argv.push_back(const_cast<char*>(each.c_str()));
    argv.push_back(nullptr);
    const std::string fixed[] = {"PATH=/usr/bin:/bin",
                                 "HOME=/tmp",
                                 "LANG=C.UTF-8",
                                 "GIT_CONFIG_COUNT=1",
                                 "GIT_CONFIG_KEY_0=safe.directory",
                                 "GIT_CONFIG_VALUE_0=*",
                                 more_env};
    for (const std::string& each : fixed) {
      if (!each.empty()) env.push_back(const_cast<char*>(each.c_str()));
    }
    env.push_back(nullptr);
    ::dup2(out[1], STDOUT_FILENO);
    ::execvpe(argv[0], argv.data(), env.data());
    stop(argv[0]);
  }
  ::close(out[1]);
  std::string said;
  char piece[4096];
  for (ssize_t size; (size = ::read(out[0], piece, sizeof piece)) > 0;)
    said.append(piece, static_cast<size_t>(size));
  ::close(out[0]);
  int status = 0;
  must(::waitpid(child, &status, 0) == child && status == 0, words.front().c_str());
  return said;
}

// The same, timed.
void run_row(const char* what, const Place& place, const std::vector<std::string>& words) {
  const int64_t start = now();
  run(words);
  row(what, place, now() - start);
}

// A script that tells how long the part that matters took.
void told_row(const char* what, const Place& place, const std::vector<std::string>& words,
              const std::string& more_env = {}) {
  row(what, place, std::strtoll(run(words, more_env).c_str(), nullptr, 10));
}

// What is cached of any file system is forgotten; the program itself is read again before it is timed.
void forget_caches(const std::vector<std::string>& warm_up) {
  ::sync();
  write_file("/proc/sys/vm/drop_caches", "3");
  run(warm_up);
}

void prepare_tools(const Place& place) {
  run({"tar", "-xf", "/data/repo.tar", "-C", place.path});
  run({"git", "-C", place.path + "/repo", "status", "--porcelain"});  // the index learns the files' new times
  run({"mkdir", "-p", place.path + "/py/lib"});
  run({"cp", "-a", "/usr/lib/python3.11", place.path + "/py/lib/"});
}

void tools_round(const Place& place) {
  const std::vector<std::string> git = {"git", "-C", place.path + "/repo", "status", "--porcelain"};
  const std::string home = "PYTHONHOME=" + place.path + "/py";
  const std::vector<std::string> imports = {"python3", "-B", "-W", "ignore", "/data/imports.py"};
  run(git);
  run_row("git status, warm", place, git);
  forget_caches({"git", "--version"});
  run_row("git status, cold", place, git);
  run({"mkdir", place.path + "/untar"});
  run_row("untar", place, {"tar", "-xf", "/data/files.tar", "-C", place.path + "/untar"});
  run_row("rm -r of what was untarred", place, {"rm", "-r", place.path + "/untar"});
  told_row("sqlite3 inserts", place, {"python3", "-B", "/data/inserts.py", place.path + "/db"});
  run(imports, home);
  told_row("python imports, warm", place, imports, home);
  forget_caches({"python3", "-S", "-c", ""});
  told_row("python imports, cold", place, imports, home);
}

// --- start

// The disk with these bytes at that place.
std::string disk_with(const char* bytes, off_t at) {
  for (const char* path : {"/dev/vda", "/dev/vdb"}) {
    char found[8] = {};
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    const bool here =
        fd >= 0 && ::pread(fd, found, std::strlen(bytes), at) > 0 && std::strcmp(found, bytes) == 0;
    if (fd >= 0) ::close(fd);
    if (here) return path;
  }
  return {};
}

void start() {
  mount_or_stop("devtmpfs", "devtmpfs", "/dev", MS_NOSUID, "mode=0755");
  mount_or_stop("proc", "proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "");
  load_modules();
  move_to_root(disk_with("\xe2\xe1\xf5\xe0", 1024).c_str());  // erofs
  mount_or_stop("tmpfs", "tmpfs", "/tmp", 0, "mode=1777");
  ::mkdir("/places", 0755);
  mount_or_stop("virtiofs", "workspace", "/places/turnbox", MS_NODEV, "");
  mount_or_stop("virtiofs", "peer", "/places/virtiofsd", MS_NODEV, "");
  mount_or_stop("tmpfs", "tmpfs", "/places/tmpfs", MS_NODEV, "mode=0755,size=1g");
}

void measure() {
  const unsigned rounds = word("bench.rounds=", 5);
  const std::string data = disk_with("ustar", 257);
  SmallFiles files(word("bench.files=", 2000));
  for (unsigned i = 0; i < rounds; ++i) {
    for (const Place& place : places) files.round(place);
    for (const Place& place : places) {
      files.make_all(place);
      run_row("rm -r", place, {"rm", "-r", "small"});
    }
  }
  if (data.empty()) return;
  mount_or_stop("tmpfs", "tmpfs", "/data", 0, "mode=0755,size=1g");
  run({"tar", "-xf", data, "-C", "/data"});
  for (const Place& place : places) prepare_tools(place);
  for (unsigned i = 0; i < rounds; ++i) {
    for (const Place& place : places) tools_round(place);
  }
}

}  // namespace
}  // namespace turnbox::bench

int main() {
  turnbox::bench::start();
  turnbox::bench::measure();
  std::printf("BENCH DONE\n");
  std::fflush(stdout);
  ::reboot(RB_POWER_OFF);
  while (true) ::pause();
}
