#include "fs/turn/workspace.h"

#include <string>

#include "fs/turn/lift.h"

namespace turnbox::turn {
namespace {

const fs::Caller kHost{.host = true};

}  // namespace

sys::Result<Workspace> Workspace::make(fs::Tree& tree, Sweeper& sweeper, fs::ZoneId host_zone) {
  Workspace workspace(tree, sweeper);
  workspace.host_zone_ = host_zone;
  workspace.device_root_ = tree.make_root(host_zone, 0755);
  TRY_ASSIGN(const fs::Attr ws, lift(tree.create(workspace.device_root_, "ws",
                                                 {.type = fs::Type::directory, .mode = 0755}, kHost),
                                     "cannot make ws"));
  workspace.ws_ = ws.ino;
  TRY(workspace.make_epoch(1));
  return workspace;
}

// Which users the guest's commands run as is the guest's affair, so anyone may write there until an import
// says else.
sys::Status Workspace::make_epoch(uint64_t epoch) {
  const fs::ZoneId zone = tree_.add_zone({fs::ZoneState::writable, fs::ZoneUse::plain});
  TRY_ASSIGN(const fs::Attr root,
             lift(tree_.create(ws_, std::to_string(epoch),
                               {.type = fs::Type::directory, .mode = 0777, .zone = zone}, kHost),
                  "cannot make a workspace"));
  root_ = root.ino;
  zone_ = zone;
  epoch_ = epoch;
  importer_.reset();
  importing_ = false;
  return {};
}

sys::Result<uint64_t> Workspace::next_epoch() {
  const fs::ZoneId old_zone = zone_;
  const std::string old_name = std::to_string(epoch_);
  TRY(make_epoch(epoch_ + 1));
  tree_.set_zone_state(old_zone, fs::ZoneState::stale);
  TRY(lift(sweeper_.discard(ws_, old_name), "cannot remove the old workspace"));
  return epoch_;
}

sys::Status Workspace::feed(std::span<const std::byte> piece, bool more) {
  TRY(importer_->feed(piece));
  if (more) return {};
  return importer_->finish();
}

sys::Result<const fs::Importer*> Workspace::import(std::span<const std::byte> piece, bool more) {
  if (!importing_) {
    TRY_ASSIGN(const fs::Attr root, lift(tree_.getattr(root_), "the workspace"));
    if (root.size != 0 || importer_) {
      return sys::fail(sys::ErrorKind::conflict,
                       "the workspace is not empty; make a new epoch before another import");
    }
    importer_.emplace(tree_, ws_, std::to_string(epoch_), zone_);
    importing_ = true;
  }
  if (auto fed = feed(piece, more); !fed) {
    TRY(lift(sweeper_.discard(ws_, std::to_string(epoch_)), "cannot remove a broken import"));
    TRY(make_epoch(epoch_));
    return tl::make_unexpected(fed.error());
  }
  importing_ = more;
  return &*importer_;
}

}  // namespace turnbox::turn
