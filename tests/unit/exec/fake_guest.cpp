#include "tests/unit/exec/fake_guest.h"

#include <stdlib.h>
#include <sys/socket.h>

#include <array>
#include <boost/json/parse.hpp>
#include <filesystem>
#include <stdexcept>

#include "vmm/sys/bytes.h"
#include "vmm/sys/socket.h"

namespace turnbox::exec {

void Peer::say(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void Peer::frame(guest::FrameType type, std::string_view bytes) {
  const auto header = guest::encode(guest::FrameHeader{type, static_cast<uint32_t>(bytes.size())});
  say(sys::as_text(header));
  say(bytes);
}

std::string Peer::hear_line() {
  std::string line;
  for (char byte; ::recv(fd_, &byte, 1, 0) == 1 && byte != '\n';) line += byte;
  return line;
}

std::string Peer::hear(size_t size) {
  std::string bytes(size, '\0');
  const ssize_t n = ::recv(fd_, bytes.data(), size, MSG_WAITALL);
  bytes.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return bytes;
}

std::string Peer::hear_stdin() {
  std::string all;
  while (true) {
    const std::string head = hear(guest::kFrameHeaderSize);
    if (head.size() < guest::kFrameHeaderSize) return all + "<broken>";
    const auto header = guest::decode_frame_header(sys::as_bytes(head).first<guest::kFrameHeaderSize>());
    if (!header || header->type != guest::FrameType::stdin_data) return all + "<wrong frame>";
    if (header->length == 0) return all;
    all += hear(header->length);
  }
}

bool Peer::ended() {
  char bytes[4096];
  ssize_t n;
  while ((n = ::recv(fd_, bytes, sizeof bytes, 0)) > 0) {
  }
  return n == 0 || errno == ECONNRESET;
}

FakeGuest::FakeGuest(Script script, int refused) : script_(std::move(script)), refused_(refused) {
  std::string pattern = (std::filesystem::temp_directory_path() / "turnbox-exec-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory");
  directory_ = pattern;
  path_ = directory_ + "/vsock.sock";
  listener_ = std::move(*sys::listen_unix(path_, 0600));
  thread_ = std::thread([this] { serve(); });
}

FakeGuest::~FakeGuest() {
  ::shutdown(listener_.get(), SHUT_RDWR);
  thread_.join();
  std::filesystem::remove_all(directory_);
}

std::vector<boost::json::object> FakeGuest::requests() {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void FakeGuest::serve() {
  while (true) {
    sys::Fd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) break;
    if (refused_ > 0) {
      --refused_;
    } else {
      talks_.emplace_back(
          [this, moved = std::make_shared<sys::Fd>(std::move(fd))] { talk(std::move(*moved)); });
    }
  }
  for (auto& talk : talks_) talk.join();
}

void FakeGuest::talk(sys::Fd fd) {
  Peer peer(fd.get());
  if (peer.hear_line() != "CONNECT 1025") return;
  peer.say("OK 1073741824\n");
  boost::system::error_code ec;
  const auto request = boost::json::parse(peer.hear_line(), ec);
  if (ec || !request.is_object()) return;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request.get_object());
  }
  script_(peer, request.get_object());
}

}  // namespace turnbox::exec
