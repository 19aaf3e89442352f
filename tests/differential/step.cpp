#include "tests/differential/step.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace turnbox::differential {

namespace {

struct Flag {
  uint32_t bits;
  const char* name;
};
constexpr Flag kOpenFlags[] = {
    {O_CREAT, "O_CREAT"},       {O_EXCL, "O_EXCL"},       {O_TRUNC, "O_TRUNC"},        {O_APPEND, "O_APPEND"},
    {O_NOFOLLOW, "O_NOFOLLOW"}, {O_TMPFILE, "O_TMPFILE"}, {O_DIRECTORY, "O_DIRECTORY"}};
constexpr Flag kRenameFlags[] = {{RENAME_NOREPLACE, "RENAME_NOREPLACE"},
                                 {RENAME_EXCHANGE, "RENAME_EXCHANGE"},
                                 {RENAME_WHITEOUT, "RENAME_WHITEOUT"}};
constexpr Flag kXattrFlags[] = {{XATTR_CREATE, "XATTR_CREATE"}, {XATTR_REPLACE, "XATTR_REPLACE"}};
constexpr Flag kAllocateFlags[] = {{FALLOC_FL_KEEP_SIZE, "FALLOC_FL_KEEP_SIZE"},
                                   {FALLOC_FL_PUNCH_HOLE, "FALLOC_FL_PUNCH_HOLE"},
                                   {FALLOC_FL_ZERO_RANGE, "FALLOC_FL_ZERO_RANGE"},
                                   {FALLOC_FL_COLLAPSE_RANGE, "FALLOC_FL_COLLAPSE_RANGE"}};

std::string flags_text(uint32_t flags, std::span<const Flag> known, const char* none) {
  std::string text;
  for (const Flag& flag : known) {
    if ((flags & flag.bits) != flag.bits) continue;
    text += (text.empty() ? "" : "|") + std::string(flag.name);
    flags &= ~flag.bits;
  }
  if (flags != 0) text += (text.empty() ? "" : "|") + std::to_string(flags);
  return text.empty() ? none : text;
}

std::string open_flags_text(uint32_t flags) {
  static constexpr const char* kModes[] = {"O_RDONLY", "O_WRONLY", "O_RDWR", "3"};
  const std::string rest = flags_text(flags & ~3U, kOpenFlags, "");
  return kModes[flags & 3U] + (rest.empty() ? "" : "|" + rest);
}

std::string quoted(const std::string& bytes) {
  if (bytes.size() > 64 && bytes.find_first_not_of(bytes[0]) == bytes.npos) {
    return std::string("\"") + bytes[0] + "\"*" + std::to_string(bytes.size());
  }
  std::string text = "\"";
  for (const char c : bytes) {
    constexpr const char* kHex = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 32 && byte < 127 && c != '"' && c != '\\') {
      text += c;
    } else {
      text += "\\x";
      text += kHex[byte >> 4];
      text += kHex[byte & 15];
    }
  }
  return text + "\"";
}

std::string octal(uint32_t mode) {
  std::string text;
  do text.insert(text.begin(), static_cast<char>('0' + mode % 8));
  while ((mode /= 8) != 0);
  return "0" + text;
}

std::string id(uint32_t number) {
  return number == UINT32_MAX ? "-1" : std::to_string(number);
}

std::string time_text(const timespec& time) {
  if (time.tv_nsec == UTIME_NOW) return "UTIME_NOW";
  if (time.tv_nsec == UTIME_OMIT) return "UTIME_OMIT";
  return std::to_string(time.tv_sec) + "s+" + std::to_string(time.tv_nsec) + "ns";
}

std::string at_text(const At& at) {
  if (at.slot >= 0) return "fd" + std::to_string(at.slot);
  return quoted(at.path) + (at.follow ? "" : " (nofollow)");
}

std::string arguments(const Step& step) {
  const auto number = [](uint64_t value) { return std::to_string(value); };
  const std::string at = at_text(step.at), path = quoted(step.at.path), to = quoted(step.to);
  const std::string range = number(step.offset) + ", " + number(step.size);
  switch (step.verb) {
    case Verb::open:
      return path + ", " + open_flags_text(step.flags) + ", " + octal(step.mode);
    case Verb::close:
    case Verb::stat:
    case Verb::listxattr:
      return at;
    case Verb::read:
      return at + ", " + range;
    case Verb::write:
      return at + ", " + range + " bytes from '" + std::to_string(step.fill) + "'";
    case Verb::seek:
      return at + ", " + number(step.offset) + ", " + (step.flags == SEEK_DATA ? "SEEK_DATA" : "SEEK_HOLE");
    case Verb::allocate:
      return at + ", " + flags_text(step.flags, kAllocateFlags, "0") + ", " + range;
    case Verb::copy_range:
      return at + ", " + number(step.offset) + ", fd" + std::to_string(step.slot) + ", " +
             number(step.to_offset) + ", " + number(step.size);
    case Verb::mkdir:
      return path + ", " + octal(step.mode);
    case Verb::mknod:
      return path + ", " + octal(step.mode) + ", " + id(step.uid) + ":" + id(step.gid);
    case Verb::symlink:
      return to + ", " + path;
    case Verb::link:
      return at + ", " + to;
    case Verb::rename:
      return path + ", " + to + ", " + flags_text(step.flags, kRenameFlags, "0");
    case Verb::rmdir:
    case Verb::readlink:
    case Verb::unlink:
    case Verb::list:
      return path;
    case Verb::chmod:
      return at + ", " + octal(step.mode);
    case Verb::chown:
      return at + ", " + id(step.uid) + ", " + id(step.gid);
    case Verb::utimens:
      return at + ", " + time_text(step.times[0]) + ", " + time_text(step.times[1]);
    case Verb::truncate:
      return at + ", " + number(step.size);
    case Verb::setxattr:
      return at + ", " + quoted(step.name) + ", " + number(step.size) + " bytes from '" +
             std::to_string(step.fill) + "', " + flags_text(step.flags, kXattrFlags, "0");
    case Verb::getxattr:
      return at + ", " + quoted(step.name) + ", room " + number(step.size);
    case Verb::removexattr:
      return at + ", " + quoted(step.name);
    case Verb::statfs:
      return "";
  }
  return "";
}

}  // namespace

const char* name_of(Verb verb) {
  static constexpr const char* kNames[] = {
      "open",     "close",     "read",        "write",   "seek",     "fallocate", "copy_file_range",
      "mkdir",    "rmdir",     "mknod",       "symlink", "readlink", "link",      "unlink",
      "rename",   "stat",      "chmod",       "chown",   "utimens",  "truncate",  "setxattr",
      "getxattr", "listxattr", "removexattr", "list",    "statfs"};
  return kNames[static_cast<size_t>(verb)];
}

std::string to_text(const Step& step) {
  std::string text = step.verb == Verb::open ? "fd" + std::to_string(step.slot) + " = " : "";
  text += std::string(name_of(step.verb)) + "(" + arguments(step) + ")";
  if (step.who.uid != 0) text += "  as " + id(step.who.uid) + ":" + id(step.who.gid);
  if (step.who.umask != 022) text += "  umask " + octal(step.who.umask);
  return text;
}

std::string to_text(Answer answer) {
  if (answer >= 0) return std::to_string(answer);
  const char* name = ::strerrorname_np(static_cast<int>(-answer));
  return name != nullptr ? name : "errno " + std::to_string(-answer);
}

std::string bytes_of(const Step& step) {
  std::string bytes(step.size, '\0');
  uint32_t state = step.fill * 2654435761U + 12345;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

Outcome run(const Step& step, FileSystem& fs) {
  fs.become(step.who);
  Outcome out;
  Stat ignored;
  std::vector<Entry> entries;
  Space space;
  const At& at = step.at;
  const auto size = static_cast<uint32_t>(step.size);
  // clang-format off
  switch (step.verb) {
    case Verb::open: out.answer = fs.open(step.slot, at.path, step.flags, step.mode); break;
    case Verb::close: out.answer = fs.close(at.slot); break;
    case Verb::read: out.answer = fs.read(at.slot, step.offset, size, out.bytes); break;
    case Verb::write: out.answer = fs.write(at.slot, step.offset, bytes_of(step)); break;
    case Verb::seek: out.answer = fs.seek(at.slot, step.offset, static_cast<int>(step.flags)); break;
    case Verb::allocate: out.answer = fs.allocate(at.slot, step.flags, step.offset, step.size); break;
    case Verb::copy_range:
      out.answer = fs.copy_range(at.slot, step.offset, step.slot, step.to_offset, step.size);
      break;
    case Verb::mkdir: out.answer = fs.mkdir(at.path, step.mode); break;
    case Verb::rmdir: out.answer = fs.rmdir(at.path); break;
    case Verb::mknod: out.answer = fs.mknod(at.path, step.mode, step.uid, step.gid); break;
    case Verb::symlink: out.answer = fs.symlink(step.to, at.path); break;
    case Verb::readlink: out.answer = fs.readlink(at.path, out.bytes); break;
    case Verb::link: out.answer = fs.link(at, step.to); break;
    case Verb::unlink: out.answer = fs.unlink(at.path); break;
    case Verb::rename: out.answer = fs.rename(at.path, step.to, step.flags); break;
    case Verb::stat: out.answer = fs.stat(at, ignored); break;
    case Verb::chmod: out.answer = fs.chmod(at, step.mode); break;
    case Verb::chown: out.answer = fs.chown(at, step.uid, step.gid); break;
    case Verb::utimens: out.answer = fs.utimens(at, step.times); break;
    case Verb::truncate: out.answer = fs.truncate(at, step.size); break;
    case Verb::setxattr: out.answer = fs.setxattr(at, step.name, bytes_of(step), static_cast<int>(step.flags)); break;
    case Verb::getxattr: out.answer = fs.getxattr(at, step.name, size, out.bytes); break;
    case Verb::listxattr: out.answer = fs.listxattr(at, size, out.names); break;
    case Verb::removexattr: out.answer = fs.removexattr(at, step.name); break;
    case Verb::list: out.answer = fs.list(at.path, entries); break;
    case Verb::statfs: out.answer = fs.statfs(space); break;
  }
  // clang-format on
  std::sort(out.names.begin(), out.names.end());
  return out;
}

}  // namespace turnbox::differential
