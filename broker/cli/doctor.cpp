#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <iostream>

#include "broker/cli/options.h"
#include "broker/cli/text.h"
#include "broker/demand/places.h"
#include "broker/demand/runtime_dir.h"
#include "broker/turn/ledger.h"
#include "vmm/domain/host_probe.h"
#include "vmm/image/image.h"
#include "vmm/sys/process.h"

namespace turnbox::cli {
namespace {

namespace json = boost::json;
using domain::Probe;
using domain::ProbeState;

// The host, in a runtime directory of this command's own; without one, that is the finding.
void probe_machines(const demand::Places& places, std::vector<Probe>& probes) {
  auto made = demand::make_places(places);
  auto dir = made ? demand::RuntimeDir::make(places.runtime, "doctor-" + std::to_string(::getpid()), 0)
                  : tl::make_unexpected(made.error());
  if (!dir) {
    probes.push_back(
        {"places", ProbeState::fail, dir.error().text, "choose another --state, or run as its owner"});
    return;
  }
  probes.push_back(
      {"places", ProbeState::ok, "state in " + places.state + ", live sandboxes in " + places.runtime, ""});
  for (auto& probe :
       domain::probe_host({.scratch = dir->path(), .cache_dir = places.state + "/cache/libvirt"})) {
    probes.push_back(std::move(probe));
  }
  if (auto gone = dir->remove(); !gone) {
    probes.push_back({"scratch", ProbeState::warn, gone.error().text, "remove " + dir->path()});
  }
}

Probe files_probe() {
  const auto program = sys::sibling_program("turnbox-fsd");
  if (!program) return {"files", ProbeState::fail, program.error().text, ""};
  return {"files", ProbeState::ok, "in memory, by turnbox-fsd", ""};
}

Probe images_probe(const demand::Places& places) {
  const image::Images images(places.state);
  const auto image = images.find("default");
  if (image) {
    return {
        "images", ProbeState::ok,
        "the default image is " + to_hex(image->digest).substr(0, 12) + "…, Linux " + image->kernel_version,
        ""};
  }
  if (image.error().kind == sys::ErrorKind::not_found) {
    return {"images", ProbeState::warn, "there is no default image yet", "turnbox image build"};
  }
  return {"images", ProbeState::fail, image.error().text, "turnbox image build"};
}

Probe store_probe(const demand::Places& places) {
  std::error_code ec;
  if (!std::filesystem::exists(places.state + "/store", ec)) {
    return {"store", ProbeState::ok, "empty; the first turn makes it", ""};
  }
  auto ledger = turn::Ledger::open(places.state);
  if (!ledger) return {"store", ProbeState::fail, ledger.error().text, ""};
  const auto reader = ledger->store().read();
  if (!reader) return {"store", ProbeState::fail, reader.error().text, ""};
  const auto count = reader->count();
  if (!count) return {"store", ProbeState::fail, count.error().text, ""};
  return {"store", ProbeState::ok, std::to_string(*count) + (*count == 1 ? " record" : " records"), ""};
}

void print(const std::vector<Probe>& probes) {
  for (const Probe& probe : probes) {
    std::string name = probe.name;
    name.resize(9, ' ');
    std::string state(domain::name_of(probe.state));
    if (probe.state == ProbeState::fail) state = "FAIL";
    state.resize(5, ' ');
    std::cout << name << " " << state << " " << probe.reason << "\n";
    if (!probe.remedy.empty()) std::cout << std::string(16, ' ') << "→ " << probe.remedy << "\n";
  }
}

void print_json(const std::vector<Probe>& probes) {
  json::array rows;
  for (const Probe& probe : probes) {
    json::object row{{"name", probe.name}, {"state", domain::name_of(probe.state)}, {"reason", probe.reason}};
    if (!probe.remedy.empty()) row["remedy"] = probe.remedy;
    rows.push_back(std::move(row));
  }
  std::cout << json::serialize(json::object{{"probes", rows}}) << "\n";
}

sys::Result<int> enter(const Arguments& arguments) {
  Options options(kDoctor);
  bool as_json = false;
  options.flag("--json", as_json);
  TRY(options.parse(arguments));
  TRY_ASSIGN(const demand::Places places, demand::find_places(options.state()));
  std::vector<Probe> probes;
  probe_machines(places, probes);
  probes.push_back(files_probe());
  probes.push_back(images_probe(places));
  probes.push_back(store_probe(places));
  as_json ? print_json(probes) : print(probes);
  for (const Probe& probe : probes) {
    if (probe.state == ProbeState::fail) return 1;
  }
  return 0;
}

}  // namespace

const Verb kDoctor{"doctor", "say what this host can do, and what to do about the rest",
                   R"(usage: turnbox doctor [--json] [--state DIR]

Tries what `turnbox run` needs, by doing it: tiers, KVM, QEMU, libvirt, vsock, FUSE, the kernel, the device
processes, images and the store. Each line says what was found; an arrow says what to do about it.

  ok     works
  warn   not to be had; sandboxes run without it
  FAIL   no sandbox can run until it is mended

  --json        one object: {"probes": [{"name": …, "state": …, "reason": …, "remedy": …}, …]}
  --state DIR   where images, records and keys are kept (TURNBOX_STATE)

Exit status: 0 when sandboxes can run, 1 when something failed, 2 usage.

example
  turnbox doctor --json | jq -r '.probes[] | select(.state != "ok") | .name'
)",
                   enter};

}  // namespace turnbox::cli
