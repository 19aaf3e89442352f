#include "fs/fuse/door.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "fs/fuse/server.h"
#include "vmm/sys/log.h"

namespace turnbox::fuse {
namespace {

using sys::ErrorKind;

constexpr unsigned kRound = 32;  // requests of one wake-up
constexpr unsigned kFuseMajor = 10, kFuseMinor = 229;

// libfuse says everything on stderr; the interesting part is what a caller of ours learns anyway.
void log_line(fuse_log_level level, const char* format, va_list args) noexcept {
  if (level > FUSE_LOG_WARNING) return;
  static sys::LogLimit limit;
  if (!limit.pass()) return;
  char line[256];
  std::vsnprintf(line, sizeof line, format, args);
  std::string_view text(line);
  while (text.ends_with('\n')) text.remove_suffix(1);
  spdlog::warn("libfuse: {}", text);
}

sys::Status check_device(int fd) {
  struct stat found {};
  if (::fstat(fd, &found) < 0) return sys::fail_errno("cannot look at the descriptor of a mount");
  if (S_ISCHR(found.st_mode) && found.st_rdev == makedev(kFuseMajor, kFuseMinor)) return {};
  return sys::fail(ErrorKind::invalid,
                   "the descriptor of a mount is not of /dev/fuse; open that and mount it first");
}

struct Destroy {
  void operator()(fuse_session* session) const noexcept { fuse_session_destroy(session); }
};

}  // namespace

// The session in the loop. `descriptor_` only waits: libfuse owns the descriptor and reads it.
class Door::Session {
 public:
  Session(boost::asio::io_context& io, Options options, std::function<void()> gone)
      : server_(std::move(options)), descriptor_(io), gone_(std::move(gone)) {}
  ~Session() {
    if (descriptor_.is_open()) descriptor_.release();
    std::free(buffer_.mem);
  }

  sys::Status start(sys::Fd device);
  uint64_t requests() const { return server_.requests(); }

 private:
  void wait();
  void serve();
  void end();

  Server server_;
  std::unique_ptr<fuse_session, Destroy> session_;
  boost::asio::posix::stream_descriptor descriptor_;
  std::function<void()> gone_;
  fuse_buf buffer_{};
};

sys::Status Door::Session::start(sys::Fd device) {
  TRY(check_device(device.get()));
  TRY(sys::set_nonblocking(device.get()));
  ::fuse_set_log_func(log_line);
  char program[] = "turnbox";
  char* words[] = {program, nullptr};
  fuse_args args = FUSE_ARGS_INIT(1, words);
  session_.reset(fuse_session_new(&args, &Server::operations(), sizeof(fuse_lowlevel_ops), &server_));
  fuse_opt_free_args(&args);
  if (session_ == nullptr) return sys::fail(ErrorKind::unavailable, "libfuse could not make a session");
  // Names the descriptor of a mount that stands already; nothing is opened.
  const std::string path = "/dev/fd/" + std::to_string(device.get());
  if (fuse_session_mount(session_.get(), path.c_str()) != 0) {
    return sys::fail(ErrorKind::invalid, "libfuse did not take the descriptor of the mount");
  }
  (void)device.release();
  descriptor_.assign(fuse_session_fd(session_.get()));
  wait();
  return {};
}

void Door::Session::wait() {
  descriptor_.async_wait(descriptor_.wait_read, [this](const boost::system::error_code& failed) {
    if (!failed) serve();
  });
}

void Door::Session::serve() {
  for (unsigned i = 0; i < kRound; ++i) {
    const int size = fuse_session_receive_buf(session_.get(), &buffer_);
    if (size == -EINTR) continue;
    if (size == -EAGAIN) break;
    if (size <= 0) return end();  // 0: the mount is gone
    const std::span request(static_cast<const char*>(buffer_.mem), static_cast<size_t>(size));
    if (server_.serve_tmpfile(fuse_session_fd(session_.get()), request)) continue;
    fuse_session_process_buf(session_.get(), &buffer_);
    if (fuse_session_exited(session_.get()) != 0) return end();
  }
  wait();
}

void Door::Session::end() {
  server_.end_session();
  if (gone_) boost::asio::post(descriptor_.get_executor(), std::exchange(gone_, nullptr));
}

sys::Result<std::unique_ptr<Door>> Door::open(boost::asio::io_context& io, Options options, sys::Fd device,
                                              std::function<void()> gone) {
  auto session = std::make_unique<Session>(io, std::move(options), std::move(gone));
  TRY(session->start(std::move(device)));
  return std::unique_ptr<Door>(new Door(std::move(session)));
}

Door::Door(std::unique_ptr<Session> session) : session_(std::move(session)) {}
Door::~Door() = default;

uint64_t Door::requests() const {
  return session_->requests();
}

}  // namespace turnbox::fuse
