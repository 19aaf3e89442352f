#include "broker/store/env.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>

namespace turnbox::store {

using sys::ByteSpan;
using sys::ErrorKind;
using sys::Result;
using sys::Status;

namespace {

constexpr std::array<const char*, kDbs> kNames{"meta",     "accounts",  "projects",  "demands", "objects",
                                               "segments", "records",   "chains",    "heads",   "turns",
                                               "keys",     "sandboxes", "workspaces"};
constexpr unsigned kMaxReaders = 1'024;

// Directories open in this process; LMDB cannot see for itself that it is opened twice.
struct OpenDirs {
  std::mutex lock;
  std::set<std::pair<dev_t, ino_t>> ids;
};
OpenDirs& open_dirs() {
  static OpenDirs dirs;
  return dirs;
}

MDB_val val(ByteSpan bytes) {
  return {bytes.size(), const_cast<std::byte*>(bytes.data())};
}
ByteSpan span(const MDB_val& value) {
  return {static_cast<const std::byte*>(value.mv_data), value.mv_size};
}

// Where LMDB's locks or its shared map cannot be trusted.
std::string_view bad_file_system(int64_t type) {
  switch (static_cast<uint32_t>(type)) {
    case 0x6969:
      return "NFS";
    case 0x517B:
    case 0xFF534D42:
    case 0xFE534D42:
      return "SMB";
    case 0x65735546:
      return "FUSE";
    case 0x01021997:
      return "9p";
    case 0x00C36400:
      return "Ceph";
    case 0x5346414F:
    case 0x6B414653:
      return "AFS";
    default:
      return "";
  }
}

Status make_dir(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) < 0 && errno != EEXIST) {
    if (errno == ENOSPC || errno == EDQUOT) {
      return sys::fail(ErrorKind::limit,
                       "no space is left to make " + path + "; free some space and run this again");
    }
    const char* why = errno == ENOENT    ? "the directory above it does not exist"
                      : errno == ENOTDIR ? "something above it is no directory"
                                         : ::strerror(errno);
    return sys::fail(ErrorKind::unavailable, "the state directory " + path + " cannot be made: " + why +
                                                 "; choose another with --state DIR or TURNBOX_STATE");
  }
  return {};
}

// LMDB makes its lock file sparse and writes to it through a mapping: on a full disk that is SIGBUS. So its
// blocks are allocated first; no more of them than LMDB's own size, which the first opener sets. Only before
// the environment is open: closing a descriptor of the lock file drops this process's locks on it.
int reserve_lock_file(const std::string& path) {
  constexpr off_t kBytes = off_t{kMaxReaders} * 64;
  const sys::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return errno;
  return ::fallocate(fd.get(), 0, 0, kBytes) < 0 && errno != EOPNOTSUPP ? errno : 0;
}

// LMDB 0.9.24 opens the data file without O_CLOEXEC.
void close_on_exec(const std::string& dir) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const auto target = std::filesystem::read_symlink(entry.path(), ignored);
    if (target.parent_path() == dir) ::fcntl(std::atoi(entry.path().filename().c_str()), F_SETFD, FD_CLOEXEC);
  }
}

// A new name lasts only when its directory was synced.
Status sync_dir(const std::string& path) {
  TRY_ASSIGN(const sys::Fd fd, sys::open_fd(path.c_str(), O_RDONLY | O_DIRECTORY));
  if (::fsync(fd.get()) < 0) return sys::fail_errno("cannot sync " + path);
  return {};
}

}  // namespace

tl::unexpected<sys::Error> Env::failure(int code, std::string_view doing) const {
  struct statvfs fs {};
  // LMDB reports a short write, which is how a disk fills up, as EIO.
  const bool full =
      code == ENOSPC || code == EDQUOT ||
      (code == EIO && ::statvfs(store_dir_.c_str(), &fs) == 0 && fs.f_bavail * fs.f_frsize < 1'048'576);
  if (full) {
    return sys::fail(ErrorKind::limit,
                     "no space is left for the store in " + state_dir_ +
                         ": nothing of this was kept, what was stored before is whole; free some "
                         "space there and run it again");
  }
  if (code == EACCES || code == EROFS || code == EPERM) {
    return sys::fail(ErrorKind::unavailable, "the state directory " + state_dir_ + " is not writable (" +
                                                 ::strerror(code) +
                                                 "); choose another with --state DIR or TURNBOX_STATE");
  }
  if (code == MDB_READERS_FULL) {
    return sys::fail(ErrorKind::unavailable, "too many turnbox processes read the store in " + state_dir_ +
                                                 "; try again when some have ended");
  }
  if (code == MDB_INVALID || code == MDB_VERSION_MISMATCH || code == MDB_CORRUPTED ||
      code == MDB_PAGE_NOTFOUND) {
    return sys::fail(ErrorKind::invalid, "the store in " + state_dir_ + " is damaged (" +
                                             ::mdb_strerror(code) + "); put a backup of " + store_dir_ +
                                             " in its place, or choose another with --state DIR");
  }
  return sys::fail(ErrorKind::io, "cannot " + std::string(doing) + " the store in " + state_dir_ + ": " +
                                      ::mdb_strerror(code));
}

Result<std::unique_ptr<Env>> Env::open(const std::string& state_dir, const OpenOptions& options) {
  std::unique_ptr<Env> env(new Env(state_dir, options));
  TRY(make_dir(state_dir));
  TRY(make_dir(env->store_dir_));
  struct statfs fs {};
  if (::statfs(env->store_dir_.c_str(), &fs) < 0) return sys::fail_errno("cannot look at " + env->store_dir_);
  if (const auto name = bad_file_system(fs.f_type); !name.empty()) {
    return sys::fail(ErrorKind::refused,
                     "the state directory " + state_dir + " is on " + std::string(name) +
                         ", where the store would not be safe; choose one on a local disk with "
                         "--state DIR or TURNBOX_STATE");
  }
  struct stat st {};
  if (::stat(env->store_dir_.c_str(), &st) < 0) return sys::fail_errno("cannot look at " + env->store_dir_);
  {
    std::lock_guard guard(open_dirs().lock);
    if (!open_dirs().ids.insert({st.st_dev, st.st_ino}).second) {
      return sys::fail(ErrorKind::conflict, "the store in " + state_dir + " is open in this process already");
    }
    env->claimed_ = {st.st_dev, st.st_ino};
  }
  TRY(env->open_env());
  return env;
}

Env::~Env() {
  TURNBOX_ASSERT(live_ == 0);
  close_env();
  if (!claimed_) return;
  std::lock_guard guard(open_dirs().lock);
  open_dirs().ids.erase(*claimed_);
}

void Env::close_env() {
  // After a fork the environment is the parent's: closing it here would clear the parent's reader slots.
  if (env_ != nullptr && pid_ == ::getpid()) ::mdb_env_close(env_);
  env_ = nullptr;
}

Status Env::open_env() {
  const bool fresh = ::access((store_dir_ + "/data.mdb").c_str(), F_OK) != 0;
  if (const int code = reserve_lock_file(store_dir_ + "/lock.mdb"); code != 0) return failure(code, "open");
  if (const int code = ::mdb_env_create(&env_); code != 0) return failure(code, "open");
  ::mdb_env_set_maxdbs(env_, kDbs);
  ::mdb_env_set_maxreaders(env_, kMaxReaders);
  ::mdb_env_set_mapsize(env_, options_.map_bytes);
  // MDB_NOTLS: a read transaction belongs to its Reader, not to a thread. All else is the default: durable.
  if (const int code = ::mdb_env_open(env_, store_dir_.c_str(), MDB_NOTLS, 0600); code != 0) {
    auto error = failure(code, "open");
    close_env();
    return error;
  }
  std::error_code ignored;
  close_on_exec(std::filesystem::canonical(store_dir_, ignored));
  auto rest = [&]() -> Status {
    int dead = 0;
    if (const int code = ::mdb_reader_check(env_, &dead); code != 0) return failure(code, "open");
    MDB_envinfo info{};
    MDB_stat stat{};
    ::mdb_env_info(env_, &info);
    ::mdb_env_stat(env_, &stat);
    const uint64_t used = (uint64_t{info.me_last_pgno} + 1) * stat.ms_psize;
    // A data file that somebody cut short: reads behind its end must find zeros (and be found out), not
    // SIGBUS. fallocate never shortens, whatever other processes do meanwhile; pages freed at the end look
    // the same.
    int fd = -1;
    struct stat st {};
    if (::mdb_env_get_fd(env_, &fd) == 0 && ::fstat(fd, &st) == 0 &&
        static_cast<uint64_t>(st.st_size) < used) {
      if (::fallocate(fd, 0, static_cast<off_t>(used) - 1, 1) < 0 && errno != EOPNOTSUPP) {
        return failure(errno, "open");
      }
    }
    if (used > info.me_mapsize / 2) ::mdb_env_set_mapsize(env_, used * 2);
    TRY(open_databases());
    if (fresh) {
      TRY(sync_dir(store_dir_));
      TRY(sync_dir(state_dir_));
    }
    return {};
  };
  auto opened = rest();
  if (!opened) close_env();
  return opened;
}

Status Env::open_databases() {
  // First look without writing: opening an existing store must not wait for a writer. The handles'
  // transaction has to commit for them to stay.
  for (const bool create : {false, true}) {
    MDB_txn* raw = nullptr;
    if (const int code = ::mdb_txn_begin(env_, nullptr, create ? 0 : MDB_RDONLY, &raw); code != 0) {
      return failure(code, "open");
    }
    ++live_;
    Txn txn(*this, raw);
    // The schema first: a newer store may lack databases that this program knows.
    const unsigned flags = create ? MDB_CREATE : 0;
    int code = ::mdb_dbi_open(raw, kNames[0], flags, &dbs_[0]);
    if (code == MDB_NOTFOUND && !create) continue;
    if (code != 0) return failure(code, "open");
    TRY_ASSIGN(const auto schema, txn.get(Db::meta, sys::as_bytes("schema")));
    if (!schema && !create) continue;
    if (schema || !create) TRY(check_schema(txn));
    bool lacks_later_ones = false;
    for (size_t i = 1; i < kDbs; ++i) {
      // An older store gets the databases that came later; one that lacks a first one is damaged.
      const unsigned making = i >= kFirstDbs || !schema ? flags : 0;
      code = ::mdb_dbi_open(raw, kNames[i], making, &dbs_[i]);
      if (code == MDB_NOTFOUND && i >= kFirstDbs && !create) {
        lacks_later_ones = true;
        break;
      }
      if (code == MDB_NOTFOUND) code = MDB_INVALID;
      if (code != 0) return failure(code, "open");
    }
    if (lacks_later_ones) continue;
    if (!schema) {
      sys::Bytes version;
      sys::append_le<uint32_t>(version, kSchemaVersion);
      TRY(txn.put(Db::meta, sys::as_bytes("schema"), version));
      TRY(txn.put(Db::meta, sys::as_bytes("features"), {}));
    }
    return txn.commit();
  }
  return {};
}

Status Env::check_schema(Txn& txn) {
  TRY_ASSIGN(const auto schema, txn.get(Db::meta, sys::as_bytes("schema")));
  TRY_ASSIGN(const auto features, txn.get(Db::meta, sys::as_bytes("features")));
  if (!schema || schema->size() != 4 || !features) return failure(MDB_INVALID, "open");
  const uint32_t version = sys::load_le<uint32_t>(schema->data());
  const std::string remedy =
      "; use the turnbox that wrote it, or choose another state directory with --state DIR";
  if (version > kSchemaVersion) {
    return sys::fail(ErrorKind::refused, "the store in " + state_dir_ + " has schema version " +
                                             std::to_string(version) + ", newer than this turnbox knows (" +
                                             std::to_string(kSchemaVersion) + ")" + remedy);
  }
  if (!features->empty()) {  // none is known yet
    return sys::fail(ErrorKind::refused, "the store in " + state_dir_ +
                                             " uses features that this turnbox does not know (" +
                                             std::string(sys::as_text(*features)) + ")" + remedy);
  }
  return {};
}

Result<Txn> Env::begin(unsigned flags) {
  TURNBOX_ASSERT(pid_ == ::getpid());  // never across fork
  for (int attempt = 0;; ++attempt) {
    if (env_ == nullptr) TRY(open_env());
    MDB_txn* txn = nullptr;
    const int code = ::mdb_txn_begin(env_, nullptr, flags, &txn);
    if (code == 0) {
      ++live_;
      return Txn(*this, txn);
    }
    if (attempt == 0 && live_ == 0 && code == MDB_MAP_RESIZED) {  // another process grew it
      if (const int adopted = ::mdb_env_set_mapsize(env_, 0); adopted != 0) return failure(adopted, "map");
    } else if (attempt == 0 && live_ == 0 && code == MDB_PANIC) {  // a meta page could not be written
      close_env();
    } else {
      return failure(code, flags == MDB_RDONLY ? "read" : "write to");
    }
  }
}

Result<Txn> Env::begin_read() {
  return begin(MDB_RDONLY);
}

Status Env::grow() {
  TURNBOX_ASSERT(live_ == 0);
  MDB_envinfo info{};
  ::mdb_env_info(env_, &info);
  if (const int code = ::mdb_env_set_mapsize(env_, info.me_mapsize * 2); code != 0)
    return failure(code, "grow");
  return {};
}

Status Env::write(const std::function<Status(Txn&)>& body) {
  TURNBOX_ASSERT(live_ == 0);  // a Reader of this process would keep the map from growing
  for (;;) {
    int code = 0;
    Status done;
    {
      TRY_ASSIGN(Txn txn, begin(0));
      done = body(txn);
      if (done) done = txn.commit();
      code = txn.failure();
    }
    if (done) return {};
    if (code != MDB_MAP_FULL) return done;
    TRY(grow());
  }
}

Status Txn::check(int code) const {
  if (code == 0) return {};
  failure_ = code;
  return env_->failure(code, "use");
}

Result<std::optional<ByteSpan>> Txn::get(Db db, ByteSpan key) const {
  MDB_val k = val(key);
  MDB_val value{};
  const int code = ::mdb_get(txn_, env_->dbs_[static_cast<size_t>(db)], &k, &value);
  if (code == MDB_NOTFOUND) return std::optional<ByteSpan>();
  TRY(check(code));
  return std::optional<ByteSpan>(span(value));
}

Status Txn::put(Db db, ByteSpan key, ByteSpan value) {
  MDB_val k = val(key);
  MDB_val v = val(value);
  return check(::mdb_put(txn_, env_->dbs_[static_cast<size_t>(db)], &k, &v, 0));
}

Status Txn::erase(Db db, ByteSpan key) {
  MDB_val k = val(key);
  const int code = ::mdb_del(txn_, env_->dbs_[static_cast<size_t>(db)], &k, nullptr);
  return code == MDB_NOTFOUND ? Status() : check(code);
}

Status Txn::scan(Db db, ByteSpan prefix, const Visit& visit) const {
  MDB_cursor* raw = nullptr;
  TRY(check(::mdb_cursor_open(txn_, env_->dbs_[static_cast<size_t>(db)], &raw)));
  const std::unique_ptr<MDB_cursor, decltype(&::mdb_cursor_close)> cursor(raw, &::mdb_cursor_close);
  MDB_val key = val(prefix);
  MDB_val value{};
  int code = ::mdb_cursor_get(raw, &key, &value, prefix.empty() ? MDB_FIRST : MDB_SET_RANGE);
  while (code == 0) {
    const ByteSpan found = span(key);
    if (found.size() < prefix.size() || !std::equal(prefix.begin(), prefix.end(), found.begin())) return {};
    TRY_ASSIGN(const bool more, visit(found, span(value)));
    if (!more) return {};
    code = ::mdb_cursor_get(raw, &key, &value, MDB_NEXT);
  }
  return code == MDB_NOTFOUND ? Status() : check(code);
}

Status Txn::commit() {
  MDB_txn* txn = std::exchange(txn_, nullptr);
  --env_->live_;
  return check(::mdb_txn_commit(txn));
}

void Txn::abort() {
  if (txn_ == nullptr) return;
  ::mdb_txn_abort(std::exchange(txn_, nullptr));
  --env_->live_;
}

}  // namespace turnbox::store
