#include "broker/cli/workspace.h"

#include <boost/json/object.hpp>
#include <cstdio>

#include "broker/demand/runtime_dir.h"
#include "broker/exec/guest.h"

namespace turnbox::cli {
namespace {

constexpr std::chrono::milliseconds kFlushDeadline{5'000};

}  // namespace

sys::Result<std::unique_ptr<OpenVersion>> OpenVersion::open(Opened& opened, const demand::Version& version,
                                                            const OpenVersion* known) {
  auto made = std::make_unique<OpenVersion>();
  if (const auto* stored = std::get_if<demand::StoredVersion>(&version)) {
    TRY_ASSIGN(made->reader_, opened.ledger.store().read());
    made->fetch_ = turn::fetch_from(*made->reader_, stored->account);
    made->tree_.emplace(made->fetch_, stored->tree);
    return made;
  }
  const auto& live = std::get<demand::LiveVersion>(version);
  TRY_ASSIGN(made->files_, demand::connect_files(opened.places, live.demand));
  // What the other version has need not be fetched.
  std::vector<sys::Digest> have;
  if (known != nullptr) {
    TRY_ASSIGN(have, demand::objects_below(known->fetch_, known->tree().ref()));
  }
  TRY_ASSIGN(made->spool_, demand::Spool::take(*made->files_, live.of, have));
  made->tree_.emplace(made->spool_->tree(known != nullptr ? known->fetch_ : turn::Fetch{}));
  made->fetch_ = made->spool_->fetch(known != nullptr ? known->fetch_ : turn::Fetch{});
  return made;
}

boost::json::value json_path(const std::string& path) {
  if (sys::is_utf8(path)) return boost::json::value(path);
  return boost::json::object{{"b16", sys::to_hex(sys::as_bytes(path))}};
}

std::string octal(uint32_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", mode);
  return text;
}

bool flush_guest(const demand::Places& places, const std::string& demand) {
  const std::string socket = demand::runtime_dir_of(places, demand) + "/" + demand::kVsockSocket;
  return exec::flush(socket, kFlushDeadline).value_or(false);
}

sys::Result<demand::LiveVersion> live_version(Opened& opened, const std::string& text) {
  TRY_ASSIGN(const demand::Version version, demand::find_version(opened.places, opened.ledger.store(), text));
  if (const auto* live = std::get_if<demand::LiveVersion>(&version)) return *live;
  return sys::fail(sys::ErrorKind::usage,
                   "'" + text + "' is a version of the store; give a running sandbox's");
}

}  // namespace turnbox::cli
