// The real turnbox-fsd without a guest, and its workspace mounted on a directory of the test's own.
//
//   Mounted mounted({.write = true});
//   std::ofstream(mounted.path() + "/file") << "text";
//
// Without /dev/fuse, or the right to mount, need_fuse() ends the test with 77. What must happen and does not
// is thrown (std::runtime_error).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fs/control/client.h"
#include "tests/support/temp_dir.h"
#include "vmm/sys/fuse_mount.h"
#include "vmm/sys/process.h"

namespace turnbox::support {

// Returns, or exits with 77 and the reason (1 under TURNBOX_MUST_RUN=mount).
void need_fuse();

// fsd with neither virtio-fs device, and its control socket.
class GuestlessFsd {
 public:
  explicit GuestlessFsd(std::vector<std::string> more_options = {});
  control::Client& client() { return *client_; }
  sys::Process& process() { return process_; }

 private:
  sys::Process process_;
  std::unique_ptr<control::Client> client_;
};

struct MountOptions {
  bool write = true;
  std::string dir = {};               // where; empty: a directory of its own
  std::vector<std::string> fsd = {};  // more options of fsd: --bytes, --inodes
  std::string import_stream = {};     // docs/WIRE.md, «Import stream»; empty: an empty workspace
};

class Mounted {
 public:
  explicit Mounted(const MountOptions& options = {});
  ~Mounted();

  const std::string& path() const { return mount_->dir(); }
  GuestlessFsd& fsd() { return *fsd_; }
  control::Client& client() { return fsd_->client(); }
  // One mount more: of the workspace as it stands now, read-only, or of another version (docs/WIRE.md,
  // `mount.attach`).
  sys::FuseMount mount_again(const std::string& dir, const std::string& of = "workspace", bool write = false);

 private:
  test::TempDir own_;
  std::unique_ptr<GuestlessFsd> fsd_;
  std::unique_ptr<sys::FuseMount> mount_;
};

}  // namespace turnbox::support
