// The only process of risk_caches.py's guest: uses both virtio-fs devices as programs do, and checks what a kernel that
// caches shows of them while the host changes the tree. «@@WORD» asks the host's side to do something.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

int checks = 0;
int failures = 0;

void check(bool good, int line, const char* what) {
  ++checks;
  if (good) return;
  ++failures;
  std::printf("FAILED line %d: %s (errno %d, %s)\n", line, what, errno, std::strerror(errno));
}

void check_errno(long result, int wanted, int line, const char* what) {
  const int got = result == -1 ? errno : 0;
  ++checks;
  if (got == wanted) return;
  ++failures;
  std::printf("FAILED line %d: %s gave %ld, errno %d (%s), not %s\n", line, what, result, got, std::strerror(got),
              std::strerror(wanted));
}

#define CHECK(cond) check(cond, __LINE__, #cond)
#define CHECK_ERRNO(call, wanted) check_errno(call, wanted, __LINE__, #call)

void ask(const char* word) { std::printf("@@%s\n", word); }

// A name that the host makes appears: polled, as a program would, without a sleep that hides a cached answer.
bool appears(const char* path) {
  struct stat about {};
  for (int i = 0; i < 100'000; ++i) {
    if (::stat(path, &about) == 0) return true;
  }
  return false;
}

std::string read_all(int fd) {
  std::string all;
  char piece[4096];
  ssize_t size = 0;
  while ((size = ::read(fd, piece, sizeof piece)) > 0) all.append(piece, static_cast<size_t>(size));
  return all;
}

std::string read_link(const char* path) {
  char target[4096];
  const ssize_t size = ::readlink(path, target, sizeof target);
  return size < 0 ? std::string() : std::string(target, static_cast<size_t>(size));
}

void drop_caches() {
  ::sync();
  const int fd = ::open("/proc/sys/vm/drop_caches", O_WRONLY);
  CHECK(::write(fd, "3", 1) == 1);
  ::close(fd);
}

void names() {
  struct stat about {};
  CHECK(::mkdir("d", 0755) == 0);
  const int fd = ::open("d/a", O_CREAT | O_RDWR | O_EXCL, 0640);
  CHECK(::write(fd, "hello", 5) == 5);
  CHECK_ERRNO(::open("d/a", O_CREAT | O_EXCL, 0600), EEXIST);
  CHECK(::rename("d/a", "d/b") == 0);
  CHECK_ERRNO(::access("d/a", F_OK), ENOENT);
  CHECK(::link("d/b", "d/c") == 0);
  CHECK(::stat("d/c", &about) == 0 && about.st_nlink == 2 && about.st_size == 5 && (about.st_mode & 07777) == 0640);
  CHECK(::symlink("b", "d/l") == 0 && read_link("d/l") == "b");
  CHECK(::unlink("d/b") == 0 && ::unlink("d/c") == 0);
  CHECK(::fstat(fd, &about) == 0 && about.st_nlink == 0);
  CHECK(::pwrite(fd, " world", 6, 5) == 6 && ::lseek(fd, 0, SEEK_SET) == 0 && read_all(fd) == "hello world");
  ::close(fd);
  CHECK_ERRNO(::rmdir("d"), ENOTEMPTY);
  CHECK(::unlink("d/l") == 0 && ::rmdir("d") == 0);

  CHECK(::mkdir("x", 0755) == 0 && ::mkdir("y", 0755) == 0 && ::mkdir("x/in", 0755) == 0);
  CHECK_ERRNO(::renameat2(AT_FDCWD, "x", AT_FDCWD, "y", RENAME_NOREPLACE), EEXIST);
  CHECK(::renameat2(AT_FDCWD, "x", AT_FDCWD, "y", RENAME_EXCHANGE) == 0 && ::access("y/in", F_OK) == 0);
  CHECK_ERRNO(::rename("y", "y/in/z"), EINVAL);
  CHECK(::mkdir(std::string(255, 'n').c_str(), 0700) == 0);
  CHECK_ERRNO(::mkdir(std::string(256, 'n').c_str(), 0700), ENAMETOOLONG);
  CHECK(::mkdir("\xff\xfe odd", 0700) == 0);
  CHECK(::mknod("fifo", S_IFIFO | 0600, 0) == 0 && ::mknod("null", S_IFCHR | 0600, 0x103) == 0);
  CHECK(::stat("null", &about) == 0 && about.st_rdev == 0x103);
}

void content() {
  struct stat about {};
  int fd = ::open("sparse", O_CREAT | O_RDWR | O_APPEND, 0644);
  CHECK(::write(fd, "1", 1) == 1 && ::write(fd, "2", 1) == 1 && ::ftruncate(fd, 1'000'000) == 0);
  CHECK(::write(fd, "3", 1) == 1 && ::fsync(fd) == 0);
  CHECK(::fstat(fd, &about) == 0 && about.st_size == 1'000'001);
  // Under writeback the kernel calls all of a file data (decision 0211); what it takes is told truly.
  CHECK(::lseek(fd, 0, SEEK_HOLE) == 1'000'001 && ::lseek(fd, 4096, SEEK_DATA) == 4096);
  ::close(fd);
  CHECK(::stat("sparse", &about) == 0 && about.st_blocks == 16);
  fd = ::open("sparse", O_RDWR);
  ::close(fd);

  fd = ::open("mapped", O_CREAT | O_RDWR, 0644);
  CHECK(::ftruncate(fd, 8192) == 0);
  auto* map = static_cast<char*>(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  std::memcpy(map + 5000, "mapped", 6);
  CHECK(::msync(map, 8192, MS_SYNC) == 0);
  ::munmap(map, 8192);
  ::close(fd);

  const timespec times[2] = {{1000, 5}, {2000, 999'999'999}};
  CHECK(::chmod("mapped", 04755) == 0 && ::chown("mapped", 5, 6) == 0);
  CHECK(::utimensat(AT_FDCWD, "mapped", times, 0) == 0);

  std::vector<char> big(size_t{3} << 20);
  for (size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>(i * 7 + i / 4099);
  fd = ::open("big", O_CREAT | O_RDWR, 0600);
  CHECK(::write(fd, big.data(), big.size()) == static_cast<ssize_t>(big.size()));
  drop_caches();  // from here on everything comes from the daemon
  CHECK((::lseek(fd, 0, SEEK_SET) == 0 && read_all(fd) == std::string(big.begin(), big.end())));
  ::close(fd);
  CHECK(::stat("mapped", &about) == 0 && about.st_mtim.tv_sec == 2000 && about.st_mtim.tv_nsec == 999'999'999);
  CHECK(about.st_uid == 5 && about.st_gid == 6 && (about.st_mode & 07777) == 0755);
  fd = ::open("mapped", O_RDONLY);
  CHECK(read_all(fd).substr(5000, 6) == "mapped");
  ::close(fd);
}

void many_names() {
  constexpr int kNames = 2000;
  CHECK(::mkdir("many", 0755) == 0);
  for (int i = 0; i < kNames; ++i) ::close(::open(("many/file-" + std::to_string(i)).c_str(), O_CREAT | O_WRONLY, 0600));
  for (const bool remove : {false, true}) {
    DIR* dir = ::opendir("many");
    int seen = 0;
    while (const dirent* entry = ::readdir(dir)) {
      ++seen;
      if (remove && entry->d_name[0] == 'f') CHECK(::unlink((std::string("many/") + entry->d_name).c_str()) == 0);
    }
    CHECK(seen == kNames + 2);
    ::closedir(dir);
  }
  CHECK(::rmdir("many") == 0);
  struct statvfs about {};
  CHECK(::statvfs(".", &about) == 0 && about.f_bsize == 4096 && about.f_bfree > 0 && about.f_ffree > 0);
  const int fd = ::open("locked", O_CREAT | O_RDWR, 0600);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  CHECK(::fcntl(fd, F_SETLK, &lock) == 0);
  ::close(fd);
}

constexpr const char* kOutputs = "/turn/main/stages/01-run/outputs";
constexpr const char* kEvents = "/turn/main/events";

// Four appenders and the host at once: every line whole, none lost.
void events() {
  CHECK_ERRNO(::open(kEvents, O_WRONLY), EPERM);
  CHECK_ERRNO(::open(kEvents, O_WRONLY | O_APPEND | O_TRUNC), EPERM);
  CHECK_ERRNO(::truncate(kEvents, 0), EPERM);
  CHECK_ERRNO(::unlink(kEvents), EROFS);
  constexpr int kWriters = 4, kLines = 200, kHostLines = 50;
  ask("events");
  for (int writer = 0; writer < kWriters; ++writer) {
    if (::fork() != 0) continue;
    const int fd = ::open(kEvents, O_WRONLY | O_APPEND);
    for (int i = 0; i < kLines; ++i) {
      const std::string line = "{\"writer\":" + std::to_string(writer) + ",\"i\":" + std::to_string(i) + "}\n";
      if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) ::_exit(1);
    }
    ::_exit(0);
  }
  for (int writer = 0; writer < kWriters; ++writer) {
    int status = 1;
    ::wait(&status);
    CHECK(status == 0);
  }
  const int reader = ::open(kEvents, O_RDONLY);  // one descriptor: it must see what comes later
  std::string all;
  int lines = 0, whole = 0;
  for (int i = 0; i < 10'000 && lines < kWriters * kLines + kHostLines; ++i) {
    all += read_all(reader);
    lines = 0;
    for (const char c : all) lines += c == '\n';
  }
  for (size_t at = 0; at < all.size();) {
    const size_t end = all.find('\n', at);
    whole += all[at] == '{' && all[end - 1] == '}';
    at = end + 1;
  }
  CHECK(lines == kWriters * kLines + kHostLines && whole == lines);
  const int appender = ::open(kEvents, O_WRONLY | O_APPEND);
  CHECK_ERRNO(::write(appender, "[]\n", 3), EINVAL);
  CHECK(::write(appender, "{\"half\":", 8) == 8 && ::write(appender, "1}\n", 3) == 3);
  ::close(appender);
  CHECK(read_all(reader) == "{\"half\":1}\n");
  ::close(reader);
}

void seal(int file, char* map) {
  ::sync();
  map[1] = 'E';  // dirty, and not flushed before the seal
  ask("seal");
  const std::string late = std::string(kOutputs) + "/late";
  bool sealed = false;
  for (int i = 0; i < 10'000 && !sealed; ++i) {
    const int fd = ::open(late.c_str(), O_CREAT | O_WRONLY, 0600);
    sealed = fd < 0 && errno == EROFS;
    if (fd >= 0) ::close(fd);
  }
  CHECK(sealed);
  CHECK_ERRNO(::pwrite(file, "xx", 2, 0), EROFS);
  CHECK(::msync(map, 4096, MS_SYNC) == -1);
  const std::string result = std::string(kOutputs) + "/result";
  CHECK_ERRNO(::open(result.c_str(), O_WRONLY), EROFS);
  CHECK_ERRNO(::unlink(result.c_str()), EROFS);
  CHECK_ERRNO(::truncate(result.c_str(), 0), EROFS);
}

void turn() {
  CHECK_ERRNO(::access("/turn/main", F_OK), ENOENT);
  ask("begin");
  CHECK(appears(kOutputs));  // polled while it was missing
  CHECK_ERRNO(::open("/turn/main/turn.json", O_WRONLY), EROFS);
  CHECK_ERRNO(::mkdir("/turn/mine", 0755), EROFS);
  const std::string result = std::string(kOutputs) + "/result";
  const int file = ::open(result.c_str(), O_CREAT | O_RDWR, 0644);
  CHECK(::write(file, "longer than it will be", 22) == 22);
  ::close(::open(result.c_str(), O_WRONLY | O_TRUNC));
  struct stat about {};
  CHECK(::fstat(file, &about) == 0 && about.st_size == 0);
  CHECK(::pwrite(file, "result\n", 7, 0) == 7);
  auto* map = static_cast<char*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  map[0] = 'R';
  CHECK(::msync(map, 4096, MS_SYNC) == 0);
  events();
  seal(file, map);

  const std::string first = read_link("/turn/main");
  ask("again");
  std::string now = first;
  for (int i = 0; i < 100'000 && now == first; ++i) now = read_link("/turn/main");
  CHECK(!now.empty() && now != first);
  const int json = ::open("/turn/main/turn.json", O_RDONLY);
  CHECK(read_all(json).find("\"thread_seq\":2") != std::string::npos);
  CHECK(::access(("/turn/" + first + "/turn.json").c_str(), R_OK) == 0);
}

void epoch() {
  const int old = ::open("/workspace/ws/1/kept-open", O_CREAT | O_RDWR, 0600);
  CHECK(::write(old, "x", 1) == 1 && ::fsync(old) == 0);
  ask("epoch");
  CHECK(appears("/workspace/ws/2"));
  drop_caches();
  char byte = 0;
  CHECK_ERRNO(::pread(old, &byte, 1, 0), ESTALE);
  CHECK(::mkdir("/workspace/ws/1/late", 0700) == -1);
  CHECK(::mkdir("/workspace/ws/2/fresh", 0700) == 0);
  ::close(old);
}

bool load_modules() {
  const int list = ::open("/modules/list", O_RDONLY);
  std::string names = read_all(list);
  for (size_t at = 0, end = 0; (end = names.find('\n', at)) != std::string::npos; at = end + 1) {
    const int module = ::open(("/modules/" + names.substr(at, end - at)).c_str(), O_RDONLY);
    if (module < 0 || (::syscall(SYS_finit_module, module, "", 0) != 0 && errno != EEXIST)) return false;
    ::close(module);
  }
  return true;
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (const char* dir : {"/proc", "/workspace", "/turn"}) ::mkdir(dir, 0755);
  CHECK(::mount("proc", "/proc", "proc", 0, "") == 0);
  CHECK(load_modules());
  CHECK(::mount("workspace", "/workspace", "virtiofs", 0, "") == 0);
  CHECK(::mount("turn", "/turn", "virtiofs", 0, "") == 0);
  CHECK(::chdir("/workspace/ws/1") == 0);
  if (failures == 0) {
    names();
    content();
    many_names();
    CHECK(::chdir("/") == 0);
    turn();
    epoch();
    CHECK(::umount("/workspace") == 0);
  }
  std::printf("CHECKS %d FAILURES %d\n", checks, failures);
  ::reboot(RB_POWER_OFF);
}
