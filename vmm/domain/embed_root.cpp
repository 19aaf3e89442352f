#include "vmm/domain/embed_root.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "vmm/sys/fd.h"

namespace turnbox::domain {
namespace {

namespace stdfs = std::filesystem;
using sys::ErrorKind;
using sys::Status;

constexpr size_t kMostCapabilities = 4 << 20;

// Modes are set whatever the umask is: QEMU's user must be able to pass through.
Status make_dir(const std::string& path, unsigned mode, const std::optional<QemuUser>& user) {
  if (::mkdir(path.c_str(), 0700) < 0) return sys::fail_errno("cannot make " + path);
  if (user && ::chown(path.c_str(), static_cast<uid_t>(-1), user->gid) < 0) {
    return sys::fail_errno("cannot give " + path + " to QEMU's group");
  }
  if (::chmod(path.c_str(), mode) < 0) return sys::fail_errno("cannot set the mode of " + path);
  return {};
}

std::string shared_cache(const EmbedOptions& options) {
  return options.cache_dir + "/capabilities-" + std::string(name_of(options.tier));
}

bool is_cache_name(const std::string& name) {
  return name.ends_with(".xml") && name.find_first_not_of("0123456789abcdef.xml") == name.npos;
}

// Copies cache files that `to` has not, or has otherwise. Best effort: see EmbedRoot::save_cache.
void copy_cache(const std::string& from, const std::string& to) {
  std::error_code ec;
  for (stdfs::directory_iterator at(from, ec), end; !ec && at != end; at.increment(ec)) {
    const std::string name = at->path().filename().string();
    if (!is_cache_name(name)) continue;
    auto fd = sys::open_fd(at->path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    // Owned by the caller: neither QEMU nor another user wrote it.
    if (!fd || ::fstat(fd->get(), &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != ::geteuid()) continue;
    if (st.st_size <= 0 || static_cast<size_t>(st.st_size) > kMostCapabilities) continue;
    std::string content(static_cast<size_t>(st.st_size), '\0');
    auto got = sys::read_full(fd->get(), std::as_writable_bytes(std::span(content)));
    if (!got || *got != content.size() || content.find("</qemuCaps>") == content.npos) continue;
    auto there = sys::read_file(to + "/" + name, kMostCapabilities);
    if (there && *there == content) continue;
    (void)sys::replace_file(to + "/" + name, content, 0600);
  }
}

// QEMU's user passes through the root and lib to its own files below lib/qemu; libvirt makes that one root's,
// so it is open to pass for everybody who came this far.
Status make_tree(const EmbedOptions& options) {
  const unsigned pass = options.user ? 0710 : 0700;
  TRY(make_dir(options.root, pass, options.user));
  TRY(make_dir(options.root + "/lib", pass, options.user));
  TRY(make_dir(options.root + "/lib/qemu", 0711, std::nullopt));
  for (const char* below : {"/etc", "/run", "/log", "/cache", "/cache/qemu", "/cache/qemu/capabilities"}) {
    TRY(make_dir(options.root + below, 0700, std::nullopt));
  }
  return sys::replace_file(options.root + "/etc/qemu.conf", qemu_conf(::geteuid() == 0), 0600);
}

}  // namespace

std::string qemu_conf(bool privileged) {
  std::string conf;
  // QEMU's user is the domain's (DomainSpec::qemu_user), not the driver's: libvirt asks what QEMU can do in a
  // process that may open every device, then judges the answer by what the driver's user may open, and would
  // find it outdated at each look (10 s a start).
  if (privileged) conf += "user = \"+0\"\ngroup = \"+0\"\n";
  // Ownership of files is turnbox's; the guest's confinement is QEMU's user, its seccomp filter and its empty
  // environment. cgroups, namespaces and virtlogd belong to a host-wide libvirtd, which embed is not.
  conf +=
      "security_driver = \"none\"\n"
      "dynamic_ownership = 0\n"
      "remember_owner = 0\n"
      "namespaces = []\n"
      "cgroup_controllers = []\n"
      "stdio_handler = \"file\"\n"
      "seccomp_sandbox = 1\n"
      "clear_emulator_capabilities = 1\n"
      "max_core = 0\n"
      // With this capability libvirt reads some 400 CPU properties of every new QEMU one by one (0.35 s).
      // What it learns, the CPU model as QEMU made it, nobody asks for.
      "capability_filters = [ \"cpu-unavailable-features\" ]\n"
      "dump_guest_core = 0\n";
  return conf;
}

sys::Result<EmbedRoot> EmbedRoot::make(const EmbedOptions& options) {
  if (options.root.size() > kLongestRoot || options.root.empty() || options.root[0] != '/') {
    return sys::fail(ErrorKind::invalid, "libvirt's directory " + options.root +
                                             " must be absolute and at most " + std::to_string(kLongestRoot) +
                                             " bytes long; choose a shorter runtime directory");
  }
  // The root stands in a URI's query; turnbox makes these names itself.
  if (options.root.find_first_of("%&?#+; ") != std::string::npos) {
    return sys::fail(ErrorKind::invalid,
                     "libvirt's directory " + options.root +
                         " holds a character that has a meaning in a URI; choose another one");
  }
  if (options.user && ::geteuid() != 0) {
    return sys::fail(ErrorKind::refused, "only root can run QEMU as another user");
  }
  struct stat st;
  if (::lstat(options.root.c_str(), &st) == 0) {
    return sys::fail(ErrorKind::conflict,
                     "libvirt's directory " + options.root + " exists already; delete it");
  }
  EmbedRoot root(options);  // from here the directory goes with `root`
  TRY(make_tree(options));
  if (!options.cache_dir.empty()) {
    std::error_code ec;
    stdfs::create_directories(shared_cache(options), ec);
    copy_cache(shared_cache(options), options.root + "/cache/qemu/capabilities");
  }
  return root;
}

EmbedRoot::EmbedRoot(EmbedRoot&& other) noexcept : options_(std::exchange(other.options_, {})) {}

EmbedRoot::~EmbedRoot() {
  std::error_code ec;
  if (!options_.root.empty()) stdfs::remove_all(options_.root, ec);
}

std::string EmbedRoot::uri() const {
  return "qemu:///embed?root=" + options_.root;
}

std::string EmbedRoot::pid_file(const std::string& domain) const {
  return options_.root + "/run/qemu/" + domain + ".pid";
}

std::string EmbedRoot::qemu_log(const std::string& domain) const {
  return options_.root + "/log/qemu/" + domain + ".log";
}

void EmbedRoot::save_cache() const {
  if (options_.cache_dir.empty()) return;
  copy_cache(options_.root + "/cache/qemu/capabilities", shared_cache(options_));
}

}  // namespace turnbox::domain
