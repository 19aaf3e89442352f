#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <iostream>
#include <map>

#include "broker/cli/text.h"
#include "broker/cli/verb.h"
#include "broker/cli/workspace.h"

namespace turnbox::cli {
namespace {

namespace json = boost::json;
using Changes = std::vector<turn::TreeChange>;

sys::Result<Changes> by_digests(Opened& opened, const demand::Version& from, const demand::Version& to) {
  TRY_ASSIGN(const auto before, OpenVersion::open(opened, from));
  TRY_ASSIGN(const auto after, OpenVersion::open(opened, to, before.get()));
  Changes changes;
  TRY(turn::diff_trees(before->tree(), after->tree(), [&](const turn::TreeChange& change) -> sys::Status {
    changes.push_back(change);
    return {};
  }));
  return changes;
}

// fsd's list says that an entry changed; its modes are looked up in both snapshots.
class Modes {
 public:
  Modes(control::Client& files, std::string of) : files_(files), of_(std::move(of)) {}
  std::optional<uint32_t> of(const std::string& path) {
    const size_t slash = path.rfind('/');
    const std::string dir = slash == path.npos ? "" : path.substr(0, slash);
    const auto [at, missing] = seen_.try_emplace(dir);
    if (missing) {
      if (const auto entries = files_.list(of_, dir)) {
        for (const auto& entry : *entries) at->second[entry.name] = entry.mode;
      }
    }
    const auto found = at->second.find(slash == path.npos ? path : path.substr(slash + 1));
    return found == at->second.end() ? std::nullopt : std::optional<uint32_t>(found->second);
  }

 private:
  control::Client& files_;
  const std::string of_;
  std::map<std::string, std::map<std::string, uint32_t>> seen_;
};

sys::Result<Changes> by_fsd(const demand::Places& places, const demand::LiveVersion& from,
                            const demand::LiveVersion& to) {
  TRY_ASSIGN(control::Client files, demand::connect_files(places, from.demand));
  TRY_ASSIGN(const control::SnapshotId before, files.snapshot_take(from.of));
  TRY_ASSIGN(const control::SnapshotId after, files.snapshot_take(to.of));
  TRY_ASSIGN(const control::Changes found, files.diff(before, after));
  Modes old_modes(files, "snapshot:" + std::to_string(before)),
      new_modes(files, "snapshot:" + std::to_string(after));
  Changes changes;
  for (const control::ChangeRow& row : found.rows) {
    turn::TreeChange change{.change = row.change,
                            .type = row.type,
                            .path = row.path,
                            .old_mode = {},
                            .new_mode = {},
                            .content = true};
    if (row.change == '~') {
      const auto old_mode = old_modes.of(row.path), new_mode = new_modes.of(row.path);
      if (old_mode && new_mode && old_mode != new_mode) {
        change.old_mode = old_mode;
        change.new_mode = new_mode;
      }
    }
    changes.push_back(std::move(change));
  }
  return changes;
}

sys::Result<Changes> compare(Opened& opened, const demand::Version& from, const demand::Version& to) {
  const auto* old_live = std::get_if<demand::LiveVersion>(&from);
  const auto* new_live = std::get_if<demand::LiveVersion>(&to);
  if (old_live != nullptr && new_live != nullptr && old_live->demand == new_live->demand) {
    auto changes = by_fsd(opened.places, *old_live, *new_live);
    // A fork is another tree: those are compared by digests.
    if (changes || changes.error().kind != sys::ErrorKind::conflict) return changes;
  }
  return by_digests(opened, from, to);
}

void print(const Changes& changes) {
  for (const turn::TreeChange& change : changes) {
    std::printf("%c %s", change.change, printable(change.path).c_str());
    if (change.type == 'd') std::printf("/");
    if (change.old_mode)
      std::printf("  (mode %s → %s)", octal(*change.old_mode).c_str(), octal(*change.new_mode).c_str());
    std::printf("\n");
  }
}

void print_stat(const Changes& changes) {
  size_t added = 0, changed = 0, removed = 0, modes = 0;
  for (const turn::TreeChange& change : changes) {
    ++(change.change == '+' ? added : change.change == '-' ? removed : changed);
    if (change.old_mode) ++modes;
  }
  std::printf("%zu added, %zu changed (%zu modes), %zu removed\n", added, changed, modes, removed);
}

void print_json(const Changes& changes) {
  json::array rows;
  for (const turn::TreeChange& change : changes) {
    json::object row{{"change", std::string(1, change.change)},
                     {"type", std::string(1, change.type)},
                     {"path", json_path(change.path)}};
    if (change.old_mode) {
      row["old_mode"] = octal(*change.old_mode);
      row["new_mode"] = octal(*change.new_mode);
    }
    rows.push_back(std::move(row));
  }
  std::cout << json::serialize(json::object{{"changes", std::move(rows)}}) << "\n";
}

sys::Result<int> enter(const Arguments& arguments) {
  Options options(kWorkspaceDiff);
  bool as_json = false, stat = false;
  std::string from_text, to_text;
  options.flag("--json", as_json);
  options.flag("--stat", stat);
  options.argument("A", from_text);
  options.argument("B", to_text);
  TRY(options.parse(arguments));
  TRY_ASSIGN(Opened opened, open_ledger(options));
  auto& store = opened.ledger.store();
  TRY_ASSIGN(const demand::Version from, demand::find_version(opened.places, store, from_text));
  TRY_ASSIGN(const demand::Version to, demand::find_version(opened.places, store, to_text));
  TRY_ASSIGN(const Changes changes, compare(opened, from, to));
  if (as_json) {
    print_json(changes);
  } else if (stat) {
    print_stat(changes);
  } else {
    print(changes);
  }
  return 0;
}

}  // namespace

const Verb kWorkspaceDiff{"workspace diff", "what differs between two versions",
                          R"(usage: turnbox workspace diff A B [--stat] [--json] [--state DIR]

Lists what leads from version A to version B: + added, ~ changed, - removed, and changed modes. Times and owners are no difference. A
and B are named as for `turnbox workspace ls`. What both share is not looked into, however large it is.

  --stat        the numbers only
  --json        one object: {"changes": [{"change": "~", "type": "f", "path": …, "old_mode": …, "new_mode": …}, …]}
  --state DIR   where records are kept (TURNBOX_STATE)

example
  turnbox workspace diff 01JD:before 01JD:after
)",
                          enter};

}  // namespace turnbox::cli
