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
  move_to(root.ino, zone, epoch);
  return {};
}

void Workspace::move_to(fs::Ino root, fs::ZoneId zone, uint64_t epoch) {
  root_ = root;
  zone_ = zone;
  epoch_ = epoch;
  importer_.reset();
  importing_ = false;
}

sys::Status Workspace::retire(uint64_t epoch, fs::ZoneId zone) {
  tree_.set_zone_state(zone, fs::ZoneState::stale);
  return lift(sweeper_.discard(ws_, std::to_string(epoch)), "cannot remove the old workspace");
}

sys::Result<uint64_t> Workspace::restore(const fs::View& view, fs::Ino root) {
  const std::string name = std::to_string(epoch_ + 1);
  const fs::ZoneId zone = tree_.add_zone({fs::ZoneState::writable, fs::ZoneUse::plain});
  const auto made = lift(tree_.clone(view, root, ws_, name, zone), "cannot restore the workspace");
  if (!made) {
    (void)sweeper_.discard(ws_, name);
    return tl::make_unexpected(made.error());
  }
  const uint64_t old_epoch = epoch_;
  const fs::ZoneId old_zone = zone_;
  move_to(made->ino, zone, epoch_ + 1);
  TRY(retire(old_epoch, old_zone));
  return epoch_;
}

sys::Result<uint64_t> Workspace::next_epoch() {
  const fs::ZoneId old_zone = zone_;
  const uint64_t old_epoch = epoch_;
  TRY(make_epoch(epoch_ + 1));
  TRY(retire(old_epoch, old_zone));
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
