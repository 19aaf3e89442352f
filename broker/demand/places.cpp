#include "broker/demand/places.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "vmm/sys/bytes.h"
#include "vmm/sys/digest.h"

namespace turnbox::demand {
namespace {

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string usual_state() {
  if (::geteuid() == 0) return "/var/lib/turnbox";
  const std::string xdg = env("XDG_STATE_HOME");
  if (!xdg.empty()) return xdg + "/turnbox";
  const std::string home = env("HOME");
  return home.empty() ? "" : home + "/.local/state/turnbox";
}

std::string usual_runtime() {
  if (::geteuid() == 0) return "/run/turnbox";
  const std::string xdg = env("XDG_RUNTIME_DIR");
  return xdg.empty() ? "/tmp/turnbox-" + std::to_string(::geteuid()) : xdg + "/turnbox";
}

sys::Status check_writable(const std::string& path, const char* what) {
  if (::access(path.c_str(), W_OK | X_OK) == 0) return {};
  return sys::fail(sys::ErrorKind::invalid, std::string("the ") + what + " directory " + path +
                                                " is not writable for you; choose another with --state DIR");
}

}  // namespace

sys::Result<Places> find_places(const std::string& chosen) {
  Places places;
  std::string state = chosen.empty() ? env("TURNBOX_STATE") : chosen;
  places.runtime = usual_runtime();
  places.slots = places.runtime + "/slots";
  if (state.empty()) {
    places.state = usual_state();
    if (places.state.empty()) {
      return sys::fail(sys::ErrorKind::invalid, "no state directory: HOME is not set; give --state DIR");
    }
    return places;
  }
  std::error_code ec;
  places.state = std::filesystem::weakly_canonical(std::filesystem::absolute(state, ec), ec).string();
  if (ec)
    return sys::fail(sys::ErrorKind::invalid,
                     "the state directory " + state + " cannot be resolved: " + ec.message());
  if (places.state != usual_state()) {
    // Eight digits keep the socket paths below it within sun_path.
    places.runtime += "/s-" + to_hex(sys::plain_sha256(sys::as_bytes(places.state))).substr(0, 8);
  }
  return places;
}

sys::Status make_directories(const std::string& path, unsigned mode) {
  std::string at;
  size_t from = 0;
  while (from != std::string::npos) {
    const size_t slash = path.find('/', from + 1);
    at = path.substr(0, slash);
    from = slash;
    if (at.empty() || ::mkdir(at.c_str(), mode) == 0) continue;
    struct stat st;
    if (errno == EEXIST && ::stat(at.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) continue;
    return sys::fail_errno("cannot make the directory " + at, errno == EEXIST ? ENOTDIR : errno);
  }
  return {};
}

sys::Status make_places(const Places& places) {
  const unsigned mode = ::geteuid() == 0 ? 0755 : 0700;
  auto made = make_directories(places.state, mode);
  if (!made)
    return sys::fail(sys::ErrorKind::invalid,
                     made.error().text + "; choose a state directory you may write to with --state DIR");
  TRY(check_writable(places.state, "state"));
  auto runtime = make_directories(places.runtime, mode == 0755 ? 0711 : 0700);
  if (!runtime) return sys::context("no runtime directory", std::move(runtime).error());
  return check_writable(places.runtime, "runtime");
}

}  // namespace turnbox::demand
