// What the verbs of `turnbox workspace` share: a version found by name, and its tree, wherever it is.
#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <optional>
#include <string>

#include "broker/cli/open_ledger.h"
#include "broker/demand/spool.h"
#include "broker/demand/versions.h"

namespace turnbox::cli {

// One version opened for reading as a tree of objects: of the store by a reader, of a sandbox by a spool.
// Stays where it is while trees of it are used; no commit meanwhile.
class OpenVersion {
 public:
  static sys::Result<std::unique_ptr<OpenVersion>> open(Opened& opened, const demand::Version& version,
                                                        const OpenVersion* known = nullptr);
  const turn::StoredTree& tree() const { return *tree_; }

 private:
  std::optional<store::Reader> reader_;
  std::optional<control::Client> files_;
  std::optional<demand::Spool> spool_;
  turn::Fetch fetch_;
  std::optional<turn::StoredTree> tree_;
};

// A path that may be no UTF-8: a string, or {"b16": "…"}.
boost::json::value json_path(const std::string& path);
std::string octal(uint32_t mode);  // 0644

// Asks the guest to write back what it holds; whether it did in time.
bool flush_guest(const demand::Places& places, const std::string& demand);

// A version of a running sandbox; kind usage for one of the store.
sys::Result<demand::LiveVersion> live_version(Opened& opened, const std::string& text);

}  // namespace turnbox::cli
