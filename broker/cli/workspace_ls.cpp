#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <iostream>

#include "broker/cli/text.h"
#include "broker/cli/verb.h"
#include "broker/cli/workspace.h"

namespace turnbox::cli {
namespace {

struct Row {
  char type;
  uint32_t mode;
  uint64_t size;
  std::string name;
};

sys::Result<std::vector<Row>> stored_rows(Opened& opened, const demand::StoredVersion& version,
                                          const std::string& path) {
  TRY_ASSIGN(const auto open, OpenVersion::open(opened, version));
  const turn::StoredTree& tree = open->tree();
  const auto size_of = [&](const turn::DirEntry& entry) -> sys::Result<uint64_t> {
    if (entry.type == 'f') return tree.size(entry.digest);
    if (entry.type != 'l') return uint64_t{0};
    return tree.target(entry.digest).map([](const std::string& target) { return uint64_t{target.size()}; });
  };
  TRY_ASSIGN(const auto at, tree.find(path));
  if (!at) return sys::fail(sys::ErrorKind::not_found, version.shown + " has no '" + path + "'");
  std::vector<turn::DirEntry> entries{*at};
  if (at->type == 'd') {
    TRY_ASSIGN(entries, tree.list(at->digest));
  } else {
    entries[0].name = path;
  }
  std::vector<Row> rows;
  for (const turn::DirEntry& entry : entries) {
    TRY_ASSIGN(const uint64_t size, size_of(entry));
    rows.push_back({entry.type, entry.mode, size, entry.name});
  }
  return rows;
}

sys::Result<std::vector<Row>> live_rows(Opened& opened, const demand::LiveVersion& version,
                                        const std::string& path) {
  TRY_ASSIGN(control::Client files, demand::connect_files(opened.places, version.demand));
  auto listed = files.list(version.of, path);
  if (!listed) return sys::context("'" + path + "'", listed.error());
  std::vector<Row> rows;
  for (const auto& entry : *listed) {
    rows.push_back(
        {entry.type, entry.mode, entry.type == 'd' ? 0 : entry.size, entry.name.empty() ? path : entry.name});
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.name < b.name; });
  return rows;
}

void print(const std::vector<Row>& rows, bool as_json) {
  boost::json::array list;
  for (const Row& row : rows) {
    if (as_json) {
      list.push_back({{"type", std::string(1, row.type)},
                      {"mode", octal(row.mode)},
                      {"size", std::to_string(row.size)},
                      {"name", json_path(row.name)}});
    } else {
      std::printf("%c %s %12llu  %s\n", row.type, octal(row.mode).c_str(),
                  static_cast<unsigned long long>(row.size), printable(row.name).c_str());
    }
  }
  if (as_json) std::cout << boost::json::serialize(boost::json::object{{"entries", std::move(list)}}) << "\n";
}

sys::Result<int> enter(const Arguments& arguments) {
  Options options(kWorkspaceLs);
  bool as_json = false;
  std::string text, path;
  options.flag("--json", as_json);
  options.argument("VERSION", text);
  options.argument("PATH", path, Options::Presence::optional);
  TRY(options.parse(arguments));
  TRY_ASSIGN(Opened opened, open_ledger(options));
  TRY_ASSIGN(const demand::Version version, demand::find_version(opened.places, opened.ledger.store(), text));
  const auto* stored = std::get_if<demand::StoredVersion>(&version);
  TRY_ASSIGN(const auto rows, stored != nullptr
                                  ? stored_rows(opened, *stored, path)
                                  : live_rows(opened, std::get<demand::LiveVersion>(version), path));
  print(rows, as_json);
  return 0;
}

}  // namespace

const Verb kWorkspaceLs{"workspace ls", "list a directory of any version, without a machine",
                        R"(usage: turnbox workspace ls VERSION [PATH] [--json] [--state DIR]

Lists one directory of a version (its top without PATH). Columns: type, mode, size in bytes, name. Symlinks are not followed.
VERSION is DEMAND, DEMAND@NAME, TURN, TURN:before, TURN:outputs/STAGE, TURN:inputs/NAME, or a fork's name.

  --json        one object: {"entries": [{"type": …, "mode": …, "size": …, "name": …}, …]}
  --state DIR   where records are kept (TURNBOX_STATE)

example
  turnbox workspace ls 01JD:before src
)",
                        enter};

}  // namespace turnbox::cli
