#include <cstdio>
#include <iostream>

#include "broker/cli/options.h"
#include "broker/cli/progress.h"
#include "broker/cli/verb.h"
#include "broker/demand/places.h"
#include "vmm/image/build.h"
#include "vmm/image/image.h"

namespace turnbox::cli {
namespace {

sys::Result<demand::Places> places_of(const Options& options) {
  TRY_ASSIGN(demand::Places places, demand::find_places(options.state()));
  TRY(demand::make_places(places));
  return places;
}

sys::Result<int> enter_build(const Arguments& arguments) {
  Options options(kImageBuild);
  std::string name = "default";
  bool if_missing = false, fresh = false, quiet = false;
  options.argument("NAME", name, Options::Presence::optional);
  options.flag("--if-missing", if_missing);
  options.flag("--fresh", fresh);
  options.flag("--quiet,-q", quiet);
  TRY(options.parse(arguments));
  TRY_ASSIGN(const demand::Places places, places_of(options));
  if (if_missing) {
    const auto found = image::Images(places.state).find(name);
    if (found) {
      if (!quiet) std::printf("image %s is there: %s\n", name.c_str(), to_hex(found->digest).c_str());
      return 0;
    }
  }
  Progress progress(!quiet);
  auto tell = [&](const std::string& phase, const std::string& detail) {
    progress.show("image " + name + ": " + phase + (detail.empty() ? "" : ", " + detail));
  };
  TRY_ASSIGN(const image::Image built, image::build(places.state, {.name = name, .fresh = fresh}, tell));
  progress.clear();
  std::printf("image %s: %s\n", name.c_str(), to_hex(built.digest).c_str());
  return 0;
}

sys::Result<int> enter_list(const Arguments& arguments) {
  Options options(kImageList);
  TRY(options.parse(arguments));
  TRY_ASSIGN(const demand::Places places, places_of(options));
  TRY_ASSIGN(const auto images, image::Images(places.state).list());
  if (images.empty()) std::cout << "no images yet; turnbox image build makes the default one\n";
  for (const auto& listed : images) {
    std::printf("%-12s  %s\n", listed.name.empty() ? "-" : listed.name.c_str(),
                to_hex(listed.digest).c_str());
  }
  return 0;
}

sys::Result<int> enter_verify(const Arguments& arguments) {
  Options options(kImageVerify);
  std::string name = "default";
  options.argument("NAME", name, Options::Presence::optional);
  TRY(options.parse(arguments));
  TRY_ASSIGN(const demand::Places places, places_of(options));
  TRY_ASSIGN(const image::Image found, image::Images(places.state).verify(name));
  std::printf("image %s is what it says: %s\n", name.c_str(), to_hex(found.digest).c_str());
  return 0;
}

}  // namespace

const Verb kImageBuild{"image build", "build a guest image from Debian packages",
                       R"(usage: turnbox image build [NAME] [--if-missing] [--fresh] [--state DIR]

Builds a guest image: Debian's cloud kernel with the modules it needs, turnbox-init, and a read-only root with git, python3 and
ca-certificates. Nothing is installed on the host. Takes about a minute and a network connection to a Debian
mirror. The image is named by its digest; NAME (default: default) is then a name for it.

  --if-missing  do nothing when NAME is there and verifies
  --fresh       fetch every package anew, even when only turnbox-init changed
  --quiet, -q   no progress line
  --state DIR   where images are kept (TURNBOX_STATE)

example
  turnbox image build
)",
                       enter_build};

const Verb kImageList{"image list", "list the guest images",
                      R"(usage: turnbox image list [--state DIR]

Lists the guest images: name and digest. An image without a name shows as -.

  --state DIR   where images are kept (TURNBOX_STATE)

example
  turnbox image list
)",
                      enter_list};

const Verb kImageVerify{"image verify", "hash every file of a guest image",
                        R"(usage: turnbox image verify [NAME] [--state DIR]

Hashes every file of an image and compares with its digest. `turnbox run` believes an earlier check as long as no file changed
(device, inode, size and times); this command never does.

  --state DIR   where images are kept (TURNBOX_STATE)

example
  turnbox image verify default
)",
                        enter_verify};

}  // namespace turnbox::cli
