#include "vmm/domain/spec.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include "vmm/sys/bytes.h"

namespace turnbox::domain {
namespace {

using sys::ErrorKind;
using sys::Status;

// Every field has passed check_text, so each byte is either markup to escape or fit for an attribute as it
// stands.
std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&apos;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// A value inside a QEMU option list: a comma would start the next option, so it is doubled.
std::string option_value(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ',') out += ',';
    out += c;
  }
  return out;
}

Status check_text(std::string_view field, std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      return sys::fail(ErrorKind::invalid,
                       "the " + std::string(field) + " holds a control character; choose one without");
    }
  }
  // U+FFFE and U+FFFF are the last two code points that XML 1.0 leaves out.
  if (!sys::is_utf8(text) || text.find("\xef\xbf\xbe") != text.npos ||
      text.find("\xef\xbf\xbf") != text.npos) {
    return sys::fail(ErrorKind::invalid,
                     "the " + std::string(field) + " is not UTF-8 text; choose one that is");
  }
  return {};
}

Status check_path(std::string_view field, const std::string& path, bool needed) {
  if (path.empty() && !needed) return {};
  if (path.empty() || path[0] != '/') {
    return sys::fail(ErrorKind::invalid,
                     "the " + std::string(field) + " «" + path + "» is not an absolute path");
  }
  return check_text(field, path);
}

Status check_name(const std::string& name) {
  const bool plain = name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == name.npos;
  if (name.empty() || name.size() > 40 || name[0] == '-' || !plain) {
    return sys::fail(ErrorKind::invalid,
                     "the domain name «" + name + "» is not 1 to 40 lower-case letters, digits and hyphens");
  }
  return {};
}

Status check_sizes(const DomainSpec& spec) {
  if (spec.memory_mib < kLeastMemoryMib || spec.memory_mib > kMostMemoryMib) {
    return sys::fail(ErrorKind::invalid,
                     std::to_string(spec.memory_mib) + " MiB of memory cannot boot; give " +
                         std::to_string(kLeastMemoryMib) + " to " + std::to_string(kMostMemoryMib) + " MiB");
  }
  if (spec.vcpus < 1 || spec.vcpus > kMostVcpus) {
    return sys::fail(
        ErrorKind::invalid,
        std::to_string(spec.vcpus) + " virtual CPUs cannot be had; give 1 to " + std::to_string(kMostVcpus));
  }
  return {};
}

Status check(const DomainSpec& spec) {
  TRY(check_name(spec.name));
  TRY(check_text("domain uuid", spec.uuid));
  TRY(check_sizes(spec));
  TRY(check_text("kernel command line", spec.cmdline));
  TRY(check_path("kernel", spec.kernel, true));
  TRY(check_path("initramfs", spec.initramfs, true));
  TRY(check_path("root image", spec.root_image, false));
  TRY(check_path("workspace socket", spec.workspace_socket, false));
  TRY(check_path("turn socket", spec.turn_socket, false));
  TRY(check_path("vsock socket", spec.vsock_socket, false));
  TRY(check_path("console socket", spec.console_socket, false));
  TRY(check_path("console log", spec.console_log, false));
  if (!spec.console_socket.empty() && !spec.console_log.empty()) {
    return sys::fail(ErrorKind::invalid, "a domain has one console: give a socket or a log file, not both");
  }
  return {};
}

// Emulated: QEMU's `max` model, minus 5-level paging, which only makes every TLB miss of TCG dearer.
std::string cpu(Tier tier) {
  if (tier == Tier::hardware) return "  <cpu mode='host-passthrough' check='none' migratable='off'/>\n";
  return "  <cpu mode='maximum' check='none'>\n    <feature policy='disable' name='la57'/>\n  </cpu>\n";
}

std::string disk(const std::string& image) {
  if (image.empty()) return {};
  return "    <disk type='file' device='disk'>\n"
         "      <driver name='qemu' type='raw'/>\n"
         "      <source file='" +
         escaped(image) +
         "'/>\n"
         "      <target dev='vda' bus='virtio'/>\n"
         "      <readonly/>\n"
         "      <address type='virtio-mmio'/>\n"
         "    </disk>\n";
}

std::string filesystem(const std::string& socket, std::string_view tag) {
  if (socket.empty()) return {};
  return "    <filesystem type='mount'>\n"
         "      <driver type='virtiofs' queue='1024'/>\n"
         "      <source socket='" +
         escaped(socket) +
         "'/>\n"
         "      <target dir='" +
         std::string(tag) +
         "'/>\n"
         "      <address type='virtio-mmio'/>\n"
         "    </filesystem>\n";
}

std::string console(const DomainSpec& spec) {
  std::string source;
  std::string type;
  if (!spec.console_socket.empty()) {
    type = "unix";
    source = "      <source mode='connect' path='" + escaped(spec.console_socket) + "'/>\n";
  } else if (!spec.console_log.empty()) {
    type = "file";
    source = "      <source path='" + escaped(spec.console_log) + "' append='on'/>\n";
  } else {
    return {};
  }
  return "    <serial type='" + type + "'>\n" + source +
         "      <target type='isa-serial' port='0'/>\n    </serial>\n";
}

std::string seclabel(const DomainSpec& spec) {
  if (!spec.qemu_user) return {};
  return "  <seclabel type='static' model='dac' relabel='no'>\n"
         "    <label>+" +
         std::to_string(spec.qemu_user->uid) + ":+" + std::to_string(spec.qemu_user->gid) +
         "</label>\n  </seclabel>\n";
}

std::string qemu_args(const DomainSpec& spec) {
  std::string out = "  <qemu:commandline>\n";
  auto arg = [&](std::string_view value) { out += "    <qemu:arg value='" + escaped(value) + "'/>\n"; };
  // Legacy virtio-mmio (QEMU's default) cannot carry a vhost-user back end.
  arg("-global");
  arg("virtio-mmio.force-legacy=false");
  if (!spec.vsock_socket.empty()) {
    arg("-chardev");
    arg("socket,id=vsock0,path=" + option_value(spec.vsock_socket));
    arg("-device");
    arg("vhost-user-vsock-device,chardev=vsock0");
  }
  return out + "  </qemu:commandline>\n";
}

}  // namespace

sys::Result<std::string> to_xml(const DomainSpec& spec) {
  TRY(check(spec));
  std::string xml = "<domain type='";
  xml += spec.tier == Tier::hardware ? "kvm" : "qemu";
  xml += "' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>\n";
  xml += "  <name>" + spec.name + "</name>\n";
  if (!spec.uuid.empty()) xml += "  <uuid>" + escaped(spec.uuid) + "</uuid>\n";
  xml += "  <memory unit='MiB'>" + std::to_string(spec.memory_mib) + "</memory>\n";
  xml += "  <memoryBacking>\n    <source type='memfd'/>\n    <access mode='shared'/>\n  </memoryBacking>\n";
  xml += "  <vcpu>" + std::to_string(spec.vcpus) + "</vcpu>\n";
  xml += "  <os>\n    <type arch='x86_64' machine='microvm'>hvm</type>\n";
  xml += "    <kernel>" + escaped(spec.kernel) + "</kernel>\n";
  xml += "    <initrd>" + escaped(spec.initramfs) + "</initrd>\n";
  xml += "    <cmdline>" + escaped(spec.cmdline) + "</cmdline>\n  </os>\n";
  xml += "  <features>\n    <acpi/>\n  </features>\n";
  xml += cpu(spec.tier);
  xml +=
      "  <on_poweroff>destroy</on_poweroff>\n  <on_reboot>destroy</on_reboot>\n  "
      "<on_crash>destroy</on_crash>\n";
  xml += "  <devices>\n    <emulator>/usr/bin/qemu-system-x86_64</emulator>\n";
  xml += "    <controller type='usb' model='none'/>\n";
  xml += disk(spec.root_image);
  xml += filesystem(spec.workspace_socket, "workspace");
  xml += filesystem(spec.turn_socket, "turn");
  xml += console(spec);
  xml += "    <memballoon model='none'/>\n";
  xml +=
      "    <rng model='virtio'>\n      <backend model='builtin'/>\n      <address type='virtio-mmio'/>\n    "
      "</rng>\n";
  xml += "  </devices>\n";
  xml += seclabel(spec);
  xml += qemu_args(spec);
  return xml + "</domain>\n";
}

}  // namespace turnbox::domain
