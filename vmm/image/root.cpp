#include "vmm/image/root.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "vmm/sys/fd.h"

namespace turnbox::image {
namespace {

using sys::ErrorKind;
using sys::fail;
using sys::Result;
using sys::Status;

// Not compressed: what compression saves on disk it costs at every first read
// (docs/decisions/0150-guest-boot-time.md). Unpacks, makes it the guest's own, lists its packages, packs. $1
// tar, $2 scratch, $3 erofs, $4 package list. Runs as root or as root of a user namespace, where device nodes
// cannot be made: the guest has devtmpfs.
constexpr const char* kPack = R"(
set -eu
rm -rf "$2"
mkdir "$2"
tar -C "$2" --numeric-owner --xattrs --xattrs-include='*' -xpf "$1" --exclude='./dev/*'
cd "$2"
mkdir -p workspace turn project
chmod 0755 .
rm -rf var/lib/apt/lists/* var/cache/apt/* var/cache/debconf/*-old var/cache/ldconfig/aux-cache var/lib/dpkg/*-old
rm -f var/log/*.log var/log/apt/* etc/.pwd.lock etc/mtab
ln -s /proc/self/mounts etc/mtab
echo turnbox > etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 turnbox\n::1 localhost\n' > etc/hosts
: > etc/resolv.conf
: > etc/machine-id
printf '[safe]\n\tdirectory = *\n' > etc/gitconfig
dpkg-query --root="$2" -W -f='${Package}=${Version}\n' | LC_ALL=C sort > "$4"
cd /
mkfs.erofs -T "${SOURCE_DATE_EPOCH}" -U 7475726e-626f-4078-8000-000000000001 "$3" "$2" > /dev/null
rm -rf "$2"
)";

// mmdebstrap in a user namespace needs subordinate ids and their set-uid helpers.
Status check_user_namespace() {
  const passwd* user = ::getpwuid(::geteuid());
  const std::string name = user == nullptr ? std::to_string(::geteuid()) : user->pw_name;
  for (const char* path : {"/etc/subuid", "/etc/subgid"}) {
    auto text = sys::read_file(path, size_t{1} << 20);
    if (!text || ("\n" + *text).find("\n" + name + ":") == std::string::npos) {
      return fail(ErrorKind::unavailable,
                  "building a root image as " + name + " needs an entry in " + path +
                      "; run as root: usermod --add-subuids 100000-165535 --add-subgids "
                      "100000-165535 " +
                      name + ", or build as root");
    }
  }
  TRY(need_tools({{"newuidmap", "uidmap"}}));
  auto clone = sys::read_file("/proc/sys/kernel/unprivileged_userns_clone", 16);
  if (clone && clone->starts_with("0")) {
    return fail(ErrorKind::unavailable,
                "user namespaces are switched off for " + name +
                    "; run as root: sysctl kernel.unprivileged_userns_clone=1, or build as root");
  }
  return {};
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : ",") + word;
  return out;
}

}  // namespace

Result<std::vector<std::string>> make_root(const Tools& tools, const Recipe& recipe, const std::string& out) {
  const bool root = ::geteuid() == 0;
  if (!root) TRY(check_user_namespace());
  const std::string tar = tools.directory() + "/root.tar";
  const std::string list = tools.directory() + "/packages";
  TRY(tools.run(
      "cannot make the root file system",
      {.argv = {"mmdebstrap", root ? "--mode=root" : "--mode=unshare", "--variant=minbase",
                "--include=" + joined(recipe.packages),
                // Manuals and translations are of no use to a program; licences stay.
                "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/info/*",
                "--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/doc/*",
                "--dpkgopt=path-include=/usr/share/doc/*/copyright", recipe.suite, tar}}));
  std::vector<std::string> pack;
  if (!root) pack = {"mmdebstrap", "--unshare-helper"};
  const std::vector<std::string> script = {"sh", "-c", kPack, "sh", tar, tools.directory() + "/root",
                                           out,  list};
  pack.insert(pack.end(), script.begin(), script.end());
  TRY(tools.run("cannot pack the root file system", {.argv = pack}));
  TRY_ASSIGN(const std::string text, sys::read_file(list, size_t{1} << 20));
  std::vector<std::string> packages;
  for (size_t from = 0, end; (end = text.find('\n', from)) != std::string::npos; from = end + 1) {
    packages.push_back(text.substr(from, end - from));
  }
  std::error_code ignored;
  std::filesystem::remove(tar, ignored);
  return packages;
}

}  // namespace turnbox::image
