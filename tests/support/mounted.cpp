#include "tests/support/mounted.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "vmm/sys/memfd.h"
#include "vmm/sys/socket.h"

namespace turnbox::support {
namespace {

template <typename T>
T must(sys::Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

std::vector<std::string> environment() {
  std::vector<std::string> env;
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TURNBOX_LOG"}) {
    if (const char* value = ::getenv(name)) env.push_back(std::string(name) + "=" + value);
  }
  return env;
}

}  // namespace

void need_fuse() {
  const test::TempDir dir;
  const auto mount = sys::FuseMount::make(dir.path(), false);
  if (mount) return;
  const char* must_run = ::getenv("TURNBOX_MUST_RUN");
  std::fprintf(stderr, "cannot mount here: %s\n", mount.error().text.c_str());
  std::exit(must_run != nullptr && std::string_view(must_run).find("mount") != std::string_view::npos ? 1
                                                                                                      : 77);
}

GuestlessFsd::GuestlessFsd(std::vector<std::string> more_options) {
  auto [ours, theirs] = must(sys::socket_pair(SOCK_STREAM));
  std::vector<std::string> argv{"turnbox-fsd", "--control-fd", "3"};
  argv.insert(argv.end(), more_options.begin(), more_options.end());
  process_ = must(sys::Process::spawn({.program = must(sys::sibling_program("turnbox-fsd")),
                                       .argv = argv,
                                       .env = environment(),
                                       .fds = {{theirs.get(), 3}}}));
  client_ = std::make_unique<control::Client>(std::move(ours), std::chrono::seconds(60));
}

Mounted::Mounted(const MountOptions& options) : fsd_(std::make_unique<GuestlessFsd>(options.fsd)) {
  if (!options.import_stream.empty()) {
    const sys::Fd stream = must(sys::memfd_with("import", sys::as_bytes(options.import_stream)));
    must(client().import("workspace", stream.get(), false));
  }
  mount_ = std::make_unique<sys::FuseMount>(
      must(sys::FuseMount::make(options.dir.empty() ? own_.path() : options.dir, options.write)));
  must(client().mount_attach("workspace", options.write, mount_->device()));
  mount_->close_device();
}

Mounted::~Mounted() = default;  // the mount first, then fsd, then the directory

sys::FuseMount Mounted::mount_again(const std::string& dir, const std::string& of, bool write) {
  sys::FuseMount mount = must(sys::FuseMount::make(dir, write));
  must(client().mount_attach(of, write, mount.device()));
  mount.close_device();
  return mount;
}

}  // namespace turnbox::support
