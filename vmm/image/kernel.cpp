#include "vmm/image/kernel.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

#include "vmm/sys/bytes.h"
#include "vmm/sys/fd.h"

namespace turnbox::image {
namespace {

namespace stdfs = std::filesystem;
using sys::ErrorKind;
using sys::fail;
using sys::Result;

constexpr std::string_view kMetaPackage = "linux-image-cloud-amd64";
constexpr size_t kMaxKernel = size_t{256} << 20;
constexpr size_t kMaxModule = size_t{64} << 20;

// What a guest loads. Their dependencies come along. No virtio_rng: every processor offered has RDRAND, which
// the kernel seeds itself from before it starts init.
constexpr const char* kModules[] = {
    "virtio_mmio", "vmw_vsock_virtio_transport", "virtio_blk", "erofs", "overlay", "virtiofs"};

template <typename T>
std::optional<T> load_at(std::string_view bytes, uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Result<std::string> versioned_package(const Tools& tools) {
  const std::string meta(kMetaPackage);
  TRY_ASSIGN(const std::string text,
             tools.run("cannot find the kernel package", {.argv = {"apt-cache", "depends", meta}}));
  for (const std::string& line : lines_of(text)) {
    const size_t at = line.find("Depends: linux-image-");
    if (at != std::string::npos) return line.substr(at + std::strlen("Depends: "));
  }
  return fail(ErrorKind::unavailable,
              "the package lists know no " + meta + "; run apt-get update, on Debian for amd64");
}

// A temporary file in, what the program makes of it out.
Result<std::string> decompress(const Tools& tools, std::string_view payload) {
  struct Format {
    std::string_view magic;
    const char* program;
  };
  using namespace std::string_view_literals;
  constexpr Format kFormats[] = {{"\x02\x21\x4c\x18"sv, "lz4"},
                                 {"\x28\xb5\x2f\xfd"sv, "zstd"},
                                 {"\xfd"
                                  "7zXZ"sv,
                                  "xz"},
                                 {"\x1f\x8b"sv, "gzip"}};
  for (const Format& format : kFormats) {
    if (!payload.starts_with(format.magic)) continue;
    const std::string in = tools.directory() + "/payload";
    const std::string out = tools.directory() + "/vmlinux";
    TRY(sys::replace_file(in, payload, 0600));
    TRY(tools.run("cannot decompress the kernel",
                  {.argv = {format.program, "-dc"}, .input = in, .output = out}));
    return sys::read_file(out, kMaxKernel);
  }
  return fail(ErrorKind::invalid, "the kernel is compressed in an unknown way");
}

// The ELF that QEMU starts without running a decompressor in the guest; the bzImage as it is where that
// cannot be.
Result<std::string> startable(const Tools& tools, std::string bz_image) {
  auto payload = payload_of(bz_image);
  if (!payload) return bz_image;
  auto elf = decompress(tools, *payload);
  if (!elf) return tl::make_unexpected(std::move(elf).error());
  return has_pvh_entry(*elf) ? std::move(*elf) : std::move(bz_image);
}

Result<std::vector<Module>> take_modules(const Tools& tools, const std::string& tree,
                                         const std::string& version) {
  TRY(tools.run("cannot order the modules", {.argv = {"depmod", "-b", tree, version}}));
  std::vector<Module> modules;
  for (const char* name : kModules) {
    TRY_ASSIGN(const std::string text,
               tools.run(std::string("cannot find the module ") + name,
                         {.argv = {"modprobe", "--show-depends", "-S", version, "-d", tree, name}}));
    for (const std::string& line : lines_of(text)) {
      constexpr std::string_view kInsert = "insmod ";
      if (!line.starts_with(kInsert)) continue;  // «builtin»
      std::string path = line.substr(kInsert.size());
      path.resize(path.find_last_not_of(' ') + 1);
      const std::string file = stdfs::path(path).filename().string();
      // An accelerator that some processors lack; the kernel has the plain algorithm built in.
      if (file == "crc32c-intel.ko" || std::ranges::find(modules, file, &Module::name) != modules.end())
        continue;
      if (!file.ends_with(".ko")) return fail(ErrorKind::invalid, "the module " + file + " is compressed");
      TRY_ASSIGN(const std::string bytes, sys::read_file(path, kMaxModule));
      modules.push_back({file, std::string(without_signature(bytes))});
    }
  }
  return modules;
}

Result<std::string> only_entry(const std::string& directory, std::string_view prefix) {
  std::error_code error;
  for (stdfs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().starts_with(prefix)) return at->path().string();
  }
  return fail(ErrorKind::invalid, "the kernel package holds no " + std::string(prefix));
}

}  // namespace

Result<std::string_view> payload_of(std::string_view bz_image) {
  const auto magic = load_at<uint32_t>(bz_image, 0x202);
  const auto protocol = load_at<uint16_t>(bz_image, 0x206);
  const auto sectors = load_at<uint8_t>(bz_image, 0x1f1);
  const auto offset = load_at<uint32_t>(bz_image, 0x248);
  const auto length = load_at<uint32_t>(bz_image, 0x24c);
  if (!magic || *magic != 0x53726448 /* HdrS */ || *protocol < 0x208 || !length) {
    return fail(ErrorKind::invalid, "not a bzImage");
  }
  const uint64_t at = (uint64_t{*sectors == 0 ? uint8_t{4} : *sectors} + 1) * 512 + *offset;
  // The last four bytes are the decompressed size, which is not part of the compressed stream.
  if (*length < 4 || at > bz_image.size() || bz_image.size() - at < *length) {
    return fail(ErrorKind::invalid, "a bzImage whose payload lies outside");
  }
  return bz_image.substr(at, *length - 4);
}

bool has_pvh_entry(std::string_view elf) {
  constexpr uint32_t kPhys32Entry = 18;  // XEN_ELFNOTE_PHYS32_ENTRY
  const auto header = load_at<Elf64_Ehdr>(elf, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64)
    return false;
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    const auto segment = load_at<Elf64_Phdr>(elf, header->e_phoff + uint64_t{i} * sizeof(Elf64_Phdr));
    if (!segment || segment->p_type != PT_NOTE || segment->p_offset > elf.size()) continue;
    std::string_view notes = elf.substr(segment->p_offset, segment->p_filesz);
    while (const auto note = load_at<Elf64_Nhdr>(notes, 0)) {
      auto padded = [](uint64_t size) { return (size + 3) & ~uint64_t{3}; };
      const std::string_view name = notes.substr(sizeof *note, note->n_namesz);
      if (note->n_type == kPhys32Entry && name.starts_with("Xen")) return true;
      const uint64_t size = sizeof *note + padded(note->n_namesz) + padded(note->n_descsz);
      notes.remove_prefix(std::min<uint64_t>(size, notes.size()));
    }
  }
  return false;
}

std::string_view without_signature(std::string_view module) {
  // «signature, 12 bytes whose last four are the signature's length (big-endian), ~Module signature
  // appended~\n»
  constexpr std::string_view kMarker = "~Module signature appended~\n";
  constexpr size_t kInfo = 12;
  if (!module.ends_with(kMarker) || module.size() < kMarker.size() + kInfo) return module;
  const std::string_view info = module.substr(module.size() - kMarker.size() - kInfo, kInfo);
  size_t length = 0;
  for (size_t i = 8; i < kInfo; ++i) length = length << 8 | static_cast<unsigned char>(info[i]);
  const size_t tail = kMarker.size() + kInfo;
  if (length > module.size() - tail) return module;
  return module.substr(0, module.size() - tail - length);
}

Result<Kernel> take_kernel(const Tools& tools) {
  TRY_ASSIGN(const std::string package, versioned_package(tools));
  const std::string tree = tools.directory() + "/kernel";
  const std::string debs = tools.directory() + "/debs";
  std::error_code error;
  stdfs::create_directory(debs, error);
  // apt-get downloads into its working directory; as root it must not drop to a user who cannot write there.
  TRY(tools.run(
      "cannot download " + package + " (do the package lists need apt-get update?)",
      {.argv = {"sh", "-c", "cd \"$1\" && exec apt-get -q -o APT::Sandbox::User=root download \"$2\"", "sh",
                debs, package}}));
  TRY_ASSIGN(const std::string deb, only_entry(debs, package + "_"));
  TRY(tools.run("cannot unpack " + package, {.argv = {"dpkg-deb", "-x", deb, tree}}));
  TRY_ASSIGN(const std::string image, only_entry(tree + "/boot", "vmlinuz-"));
  Kernel kernel;
  kernel.version = stdfs::path(image).filename().string().substr(std::strlen("vmlinuz-"));
  TRY_ASSIGN(std::string bz_image, sys::read_file(image, kMaxKernel));
  TRY_ASSIGN(kernel.bytes, startable(tools, std::move(bz_image)));
  TRY_ASSIGN(kernel.modules, take_modules(tools, tree, kernel.version));
  stdfs::remove_all(tree, error);
  stdfs::remove_all(debs, error);
  return kernel;
}

}  // namespace turnbox::image
