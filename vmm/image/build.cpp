#include "vmm/image/build.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "vmm/image/initramfs.h"
#include "vmm/image/kernel.h"
#include "vmm/image/manifest.h"
#include "vmm/image/root.h"
#include "vmm/image/tool.h"
#include "vmm/sys/fd.h"
#include "vmm/sys/process.h"

namespace turnbox::image {
namespace {

namespace stdfs = std::filesystem;
using sys::ErrorKind;
using sys::fail;
using sys::fail_errno;
using sys::Fd;
using sys::Result;
using sys::Status;

constexpr size_t kMaxAgent = size_t{64} << 20;

// The directory of one build, <state>/images/.build, held under <state>/images/.lock. Removed on destruction.
class Workshop {
 public:
  static Result<Workshop> open(const std::string& images, const Progress& progress) {
    std::error_code error;
    stdfs::create_directories(images, error);
    if (error) return fail(ErrorKind::io, "cannot make " + images + ": " + error.message());
    const std::string lock_path = images + "/.lock";
    TRY_ASSIGN(Fd lock, sys::open_fd(lock_path.c_str(), O_RDWR | O_CREAT, 0600));
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) < 0) {
      progress("wait", "another build is running");
      while (::flock(lock.get(), LOCK_EX) < 0) {
        if (errno != EINTR) return fail_errno("cannot lock " + lock_path);
      }
    }
    Workshop workshop(images + "/.build", std::move(lock));
    stdfs::remove_all(workshop.directory_, error);  // what a killed build left
    if (!error) stdfs::create_directories(workshop.image(), error);
    if (error) return fail(ErrorKind::io, "cannot make " + workshop.directory_ + ": " + error.message());
    return workshop;
  }
  Workshop(Workshop&&) = default;
  ~Workshop() {
    std::error_code ignored;
    if (lock_) stdfs::remove_all(directory_, ignored);
  }

  const std::string& directory() const { return directory_; }
  std::string image() const { return directory_ + "/image"; }

 private:
  Workshop(std::string directory, Fd lock) : directory_(std::move(directory)), lock_(std::move(lock)) {}
  std::string directory_;
  Fd lock_;
};

Result<std::string> read_agent(const std::string& asked) {
  auto path = asked.empty() ? sys::sibling_program("turnbox-init") : Result<std::string>(asked);
  if (!path) return path;
  auto agent = sys::read_file(*path, kMaxAgent);
  if (agent && !agent->starts_with("\x7f"
                                   "ELF"))
    return fail(ErrorKind::invalid, *path + " is not an ELF program");
  return agent;
}

std::string make_initramfs(const std::string& agent, const std::vector<Module>& modules) {
  Cpio cpio;
  cpio.directory("dev");
  cpio.character_device("dev/console", 5, 1);  // what init's messages go to
  cpio.directory("modules");
  std::string list;
  for (const Module& module : modules) list += module.name + "\n";
  cpio.file("modules/list", list, 0644);
  for (const Module& module : modules) cpio.file("modules/" + module.name, module.bytes, 0644);
  cpio.file("init", agent, 0755);
  return cpio.finish();
}

Status write_part(const std::string& path, std::string_view bytes) {
  TRY_ASSIGN(const Fd file, sys::open_fd(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644));
  auto written = sys::write_full(file.get(), sys::as_bytes(bytes));
  if (!written) return sys::context(path, std::move(written).error());
  return {};
}

Result<ImageFile> describe(const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  TRY_ASSIGN(const Fd file, sys::open_fd(path.c_str(), O_RDONLY));
  sys::Sha256 hash;
  ImageFile out{.name = name, .sha256 = {}, .size = 0};
  std::vector<std::byte> chunk(size_t{1} << 20);
  while (true) {
    TRY_ASSIGN(const size_t got, sys::read_full(file.get(), chunk));
    hash.update(sys::ByteSpan(chunk).first(got));
    out.size += got;
    if (got < chunk.size()) break;
  }
  out.sha256 = hash.finish();
  return out;
}

// What may be kept of the image that has the name now.
struct Kept {
  std::string directory;
  Manifest manifest;
  std::vector<Module> modules;
};

Result<std::vector<Module>> modules_of(const std::string& directory, const Manifest& manifest) {
  TRY_ASSIGN(const std::string archive, sys::read_file(directory + "/initramfs", kMaxAgent));
  std::vector<Module> modules;
  for (const std::string& name : manifest.modules) {
    auto bytes = file_in_cpio(archive, "modules/" + name);
    if (!bytes) return fail(ErrorKind::invalid, directory + "/initramfs holds no " + name);
    modules.push_back({name, std::move(*bytes)});
  }
  return modules;
}

// Empty where there is none, where it is damaged, or where its recipe is another.
std::optional<Kept> find_kept(const std::string& state, const BuildSpec& spec, const Recipe& recipe) {
  if (spec.fresh) return std::nullopt;
  auto image = Images(state).find(spec.name);
  if (!image) return std::nullopt;
  auto bytes = sys::read_file(image->directory + "/image.json", size_t{1} << 20);
  auto manifest = bytes ? parse_manifest(*bytes) : tl::make_unexpected(bytes.error());
  if (!manifest || manifest->recipe != recipe) return std::nullopt;
  auto modules = modules_of(image->directory, *manifest);
  if (!modules) return std::nullopt;
  return Kept{image->directory, std::move(*manifest), std::move(*modules)};
}

Status link_part(const std::string& from, const std::string& to, const std::string& name) {
  if (::link((from + "/" + name).c_str(), (to + "/" + name).c_str()) < 0)
    return fail_errno("cannot link " + from + "/" + name);
  return {};
}

// Kernel, root image and their descriptions, kept or made; the initramfs always made.
Result<Manifest> make_parts(const Workshop& workshop, const Recipe& recipe, const std::string& agent,
                            const std::optional<Kept>& kept, const Progress& progress) {
  const std::string image = workshop.image();
  Manifest manifest{
      .agent = sys::plain_sha256(sys::as_bytes(agent)), .kernel_words = kernel_words(), .recipe = recipe};
  std::vector<Module> modules;
  if (kept) {
    progress("keep", "kernel " + kept->manifest.kernel_version + " and the root image of " + recipe.suite);
    for (const char* name : {"kernel", "root.erofs"}) TRY(link_part(kept->directory, image, name));
    manifest.kernel_version = kept->manifest.kernel_version;
    manifest.packages = kept->manifest.packages;
    modules = kept->modules;
  } else {
    const Tools tools(workshop.directory(), ::geteuid() == 0);
    progress("kernel", "taking Debian's cloud kernel out of its package");
    TRY_ASSIGN(Kernel kernel, take_kernel(tools));
    TRY(write_part(image + "/kernel", kernel.bytes));
    manifest.kernel_version = kernel.version;
    modules = std::move(kernel.modules);
    progress("root", "installing " + recipe.suite + " into a root image; this takes a minute");
    TRY_ASSIGN(manifest.packages, make_root(tools, recipe, image + "/root.erofs"));
  }
  progress("initramfs", std::to_string(modules.size()) + " modules and turnbox-init");
  TRY(write_part(image + "/initramfs", make_initramfs(agent, modules)));
  for (const Module& module : modules) manifest.modules.push_back(module.name);
  for (const char* name : {"initramfs", "kernel", "root.erofs"}) {
    TRY_ASSIGN(ImageFile file, describe(image, name));
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

// From here on the image exists, complete or not at all: a rename, then the name's rename.
Status publish(const Workshop& workshop, const std::string& images, const std::string& name,
               const Manifest& manifest) {
  const std::string bytes = format_manifest(manifest);
  const std::string digest = to_hex(sys::digest_of("image", sys::as_bytes(bytes)));
  TRY(write_part(workshop.image() + "/image.json", bytes));
  for (const char* file : {"initramfs", "kernel", "root.erofs", "image.json"}) {
    // The machine runs as another user; nobody changes an image.
    if (::chmod((workshop.image() + "/" + file).c_str(), 0444) < 0)
      return fail_errno("cannot set the mode of " + std::string(file));
  }
  if (::chmod(workshop.image().c_str(), 0755) < 0)
    return fail_errno("cannot set the mode of " + workshop.image());
  TRY_ASSIGN(const Fd directory, sys::open_fd(workshop.image().c_str(), O_RDONLY | O_DIRECTORY));
  if (::syncfs(directory.get()) < 0) return fail_errno("cannot write the image to disk");
  const std::string place = images + "/" + digest;
  // Something of that name that does not verify is moved out of the way; an equal image is simply kept.
  if (::rename(workshop.image().c_str(), place.c_str()) < 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) return fail_errno("cannot move the image to " + place);
    if (!Images(images.substr(0, images.rfind('/'))).verify(digest)) {
      if (::rename(place.c_str(), (workshop.directory() + "/damaged").c_str()) < 0 ||
          ::rename(workshop.image().c_str(), place.c_str()) < 0) {
        return fail_errno("cannot replace the damaged image " + place);
      }
    }
  }
  const std::string link = workshop.directory() + "/link";
  if (::symlink(digest.c_str(), link.c_str()) < 0 ||
      ::rename(link.c_str(), (images + "/" + name).c_str()) < 0) {
    return fail_errno("cannot name the image " + name);
  }
  return {};
}

Status check_words(const BuildSpec& spec) {
  auto plain = [](std::string_view text, std::string_view more) {
    return !text.empty() && text.front() != '-' && std::ranges::all_of(text, [&](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || more.find(c) != std::string_view::npos;
    });
  };
  if (!plain(spec.name, "-") || spec.name.size() > 40) {
    return fail(ErrorKind::usage,
                "an image's name is 1 to 40 lower-case letters, digits and hyphens, not " + spec.name);
  }
  if (!plain(spec.suite, "-"))
    return fail(ErrorKind::usage, spec.suite + " is not the name of a Debian suite");
  for (const std::string& package : spec.packages) {
    if (!plain(package, "+-."))
      return fail(ErrorKind::usage, package + " is not the name of a Debian package");
  }
  return {};
}

}  // namespace

const std::vector<std::string>& kernel_words() {
  // Measured in docs/decisions/0150-guest-boot-time.md.
  static const std::vector<std::string> words = {"pci=off", "cryptomgr.notests", "8250.nr_uarts=1"};
  return words;
}

Result<Image> build(const std::string& state, const BuildSpec& spec, const Progress& progress) {
  TRY(check_words(spec));
  TRY_ASSIGN(const std::string agent, read_agent(spec.agent));
  Recipe recipe{.suite = spec.suite, .packages = spec.packages, .version = kBuilderVersion};
  std::ranges::sort(recipe.packages);
  const std::string images = state + "/images";
  TRY_ASSIGN(const Workshop workshop, Workshop::open(images, progress));
  const auto kept = find_kept(state, spec, recipe);
  if (kept && kept->manifest.agent == sys::plain_sha256(sys::as_bytes(agent)) &&
      kept->manifest.kernel_words == kernel_words()) {
    return Images(state).find(spec.name);
  }
  if (!kept) {
    TRY(need_tools({{"apt-get", "apt"},
                    {"dpkg-deb", "dpkg"},
                    {"depmod", "kmod"},
                    {"lz4", "lz4"},
                    {"tar", "tar"},
                    {"mmdebstrap", "mmdebstrap"},
                    {"mkfs.erofs", "erofs-utils"}}));
  }
  TRY_ASSIGN(const Manifest manifest, make_parts(workshop, recipe, agent, kept, progress));
  progress("publish", spec.name);
  TRY(publish(workshop, images, spec.name, manifest));
  return Images(state).find(spec.name);
}

}  // namespace turnbox::image
