#include "broker/demand/reconcile.h"

#include <sys/stat.h>

#include <ctime>
#include <filesystem>

#include "broker/demand/runtime_dir.h"
#include "vmm/domain/leftover.h"

namespace turnbox::demand {
namespace {

namespace stdfs = std::filesystem;

// A directory that is being made has no lock for a moment; nobody needs this long to take it.
constexpr time_t kMakingSeconds = 60;

bool may_be_in_the_making(const std::string& path) {
  struct stat st;
  return ::stat(path.c_str(), &st) == 0 && ::time(nullptr) - st.st_mtime < kMakingSeconds;
}

sys::Status clear(const std::string& path, Reconciled& done) {
  auto dir = RuntimeDir::take_over(path);
  if (!dir)
    return dir.error().kind == sys::ErrorKind::conflict ? sys::Status{} : tl::make_unexpected(dir.error());
  TRY_ASSIGN(const size_t killed, domain::kill_qemu_below(path));
  done.processes += killed;
  TRY(dir->remove());
  done.sandboxes.push_back(stdfs::path(path).filename().string());
  return {};
}

bool has_living_owner(const std::string& path) {
  std::error_code ec;
  if (!stdfs::exists(path, ec)) return false;
  return !RuntimeDir::is_free(path);
}

}  // namespace

sys::Result<Reconciled> reconcile(const Places& places, store::Store& store) {
  Reconciled done;
  std::error_code ec;
  std::vector<std::string> found;
  for (const auto& entry : stdfs::directory_iterator(places.runtime, ec)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(".new-") && !may_be_in_the_making(entry.path().string())) {
      found.push_back(entry.path().string());
    } else if (stdfs::exists(entry.path() / "owner.lock", ec)) {
      found.push_back(entry.path().string());
    }
  }
  for (const auto& path : found) TRY(clear(path, done));
  TRY_ASSIGN(const auto rows, store.sandboxes());
  for (const auto& row : rows) {
    // A row is written after its directory was locked, so a row without a living directory has no owner.
    if (!has_living_owner(row.runtime_dir)) TRY(store.erase_sandbox(row.id));
  }
  return done;
}

}  // namespace turnbox::demand
