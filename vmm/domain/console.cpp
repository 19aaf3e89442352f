#include "vmm/domain/console.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "vmm/sys/bytes.h"
#include "vmm/sys/socket.h"

namespace turnbox::domain {
namespace {

constexpr size_t kKeep = 64 * 1024;

}  // namespace

std::string printable_tail(std::string_view raw, size_t lines) {
  std::string text;
  for (size_t i = 0; i < raw.size(); ++i) {
    const auto byte = static_cast<unsigned char>(raw[i]);
    if (byte == 0x1b && i + 1 < raw.size() &&
        raw[i + 1] == '[') {  // a terminal's control sequence goes as a whole
      for (i += 2; i < raw.size() && (raw[i] < 0x40 || raw[i] > 0x7e);) ++i;
      continue;
    }
    if (byte == '\n' || byte == '\t' || (byte >= 0x20 && byte != 0x7f)) text += raw[i];
  }
  if (!sys::is_utf8(text)) {
    for (char& c : text) {
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    }
  }
  while (!text.empty() && text.back() == '\n') text.pop_back();
  size_t from = text.size();
  for (size_t n = 0; n < lines && from != std::string::npos; ++n) {
    from = from == 0 ? std::string::npos : text.rfind('\n', from - 1);
  }
  return from == std::string::npos ? text : text.substr(from + 1);
}

sys::Result<std::unique_ptr<Console>> Console::listen(const std::string& path, std::optional<uid_t> peer) {
  TRY_ASSIGN(sys::Fd listener, sys::listen_unix(path, 0600, 1));
  if (peer && ::chown(path.c_str(), *peer, static_cast<gid_t>(-1)) < 0) {
    auto failed = sys::fail_errno("cannot give the console socket " + path + " to QEMU's user");
    ::unlink(path.c_str());
    return failed;
  }
  sys::Fd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop) return sys::fail_errno("cannot create an eventfd");
  return std::unique_ptr<Console>(
      new Console(path, std::move(listener), std::move(stop), peer.value_or(::geteuid())));
}

Console::Console(std::string path, sys::Fd listener, sys::Fd stop, uid_t peer)
    : path_(std::move(path)), listener_(std::move(listener)), stop_(std::move(stop)), peer_(peer) {
  thread_ = std::thread([this] { run(); });
}

Console::~Console() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
  ::unlink(path_.c_str());
}

std::string Console::tail(size_t lines) const {
  const std::lock_guard lock(mutex_);
  return printable_tail(kept_, lines);
}

void Console::keep(std::string_view text) {
  const std::lock_guard lock(mutex_);
  kept_.append(text);
  if (kept_.size() > 2 * kKeep) kept_.erase(0, kept_.size() - kKeep);
}

void Console::run() {
  sys::Fd peer;
  std::array<char, 4096> buffer;
  while (true) {
    pollfd waits[2] = {{stop_.get(), POLLIN, 0}, {peer ? peer.get() : listener_.get(), POLLIN, 0}};
    if (::poll(waits, 2, -1) < 0) continue;  // EINTR
    if (waits[1].revents != 0 && peer) {
      const ssize_t n = ::read(peer.get(), buffer.data(), buffer.size());
      if (n <= 0) return;  // QEMU is gone; there is no second console
      keep({buffer.data(), static_cast<size_t>(n)});
      continue;  // read to the end before a stop is looked at
    }
    if (waits[1].revents != 0) {
      sys::Fd came(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!came) continue;
      auto who = sys::peer_of(came.get());
      if (who && (who->uid == peer_ || who->uid == 0)) peer = std::move(came);
      continue;
    }
    if (waits[0].revents != 0) return;
  }
}

}  // namespace turnbox::domain
