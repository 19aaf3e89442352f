#include "broker/demand/run.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <ctime>
#include <thread>

#include "broker/demand/capture.h"
#include "broker/demand/demand_name.h"
#include "broker/demand/feed.h"
#include "broker/demand/host_tree.h"
#include "broker/demand/outcome.h"
#include "broker/demand/reconcile.h"
#include "broker/demand/sandbox.h"
#include "broker/demand/versions.h"
#include "broker/exec/guest.h"
#include "broker/exec/session.h"
#include "broker/turn/ledger.h"
#include "broker/turn/record.h"
#include "broker/turn/ulid.h"
#include "vmm/image/image.h"

namespace turnbox::demand {
namespace {

using sys::ErrorKind;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kFlushDeadline{5'000};
constexpr milliseconds kReasonWait{2'000};
constexpr int kFailed = 125;
constexpr const char* kThread = "main";
constexpr const char* kStage = "run";
constexpr const char* kPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

milliseconds since(Clock::time_point from) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - from);
}

// A run's state while its steps go by; one object a run.
class Run {
 public:
  Run(const Places& places, const RunSpec& spec, const RunHooks& hooks)
      : places_(places), spec_(spec), hooks_(hooks) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() { (void)remove_sandbox(); }

  sys::Result<RunReport> go() {
    TRY(check_host());
    TRY(open_ledger());
    TRY(make_sandbox());
    TRY(import_host_files());
    // From here on there is a turn, and whatever happens ends in its record.
    Outcome outcome = begin_turn() && wait_for_guest() ? run_command() : failed_early();
    end_turn(outcome);
    auto committed = commit(outcome);
    auto removed = remove_sandbox();
    TRY(committed);
    if (!removed)
      return sys::context("the turn is recorded, but its sandbox did not go", std::move(removed).error());
    apply(outcome);
    return report(outcome);
  }

 private:
  // Step by step, in order.
  sys::Status check_host();
  sys::Status open_ledger();
  sys::Status make_sandbox();
  sys::Status import_host_files();
  bool begin_turn();
  bool wait_for_guest();
  Outcome run_command();
  void end_turn(Outcome& outcome);
  sys::Status commit(Outcome& outcome);
  void apply(const Outcome& outcome);
  RunReport report(const Outcome& outcome);

  sys::Result<Applied> apply_recorded();
  sys::Status import(const std::string& target, const std::string& path, RootKind kind,
                     HostStamps* stamps = nullptr);
  sys::Status import_version();
  exec::ExecSpec exec_spec() const;
  Outcome failed_early() const;
  Outcome cancelled(int signal) const;
  void capture(const Outcome& outcome);
  void fill_draft(const Outcome& outcome);
  void read_changes(const Outcome& outcome);
  sys::Status remove_sandbox();
  bool is_cancelled();
  // Into the turn's event log. A log that takes nothing (fsd died) shows in the outcome anyway.
  void note(const boost::json::object& event) { (void)sandbox_->files().event_append(draft_.turn, event); }
  void tell(const std::string& phase) {
    if (hooks_.phase) hooks_.phase(phase);
  }

  const Places& places_;
  const RunSpec& spec_;
  const RunHooks& hooks_;
  const Clock::time_point began_ = Clock::now();

  turn::Draft draft_;
  image::Image image_;
  std::optional<turn::Ledger> ledger_;
  std::unique_ptr<Sandbox> sandbox_;
  std::optional<Capture> capture_;
  std::string stage_dir_;
  std::optional<StoredVersion> from_;
  HostStamps imported_;  // of --workspace, for --apply
  control::SnapshotId before_ = 0, after_ = 0;
  std::optional<control::TurnEnd> turn_end_;
  int cancel_signal_ = 0;
  std::string trouble_;  // why there was no command to run
  RunReport report_;
};

sys::Status Run::check_host() {
  TRY_ASSIGN(draft_.turn, turn::new_ulid());
  draft_.demand = demand_of_turn(draft_.turn);
  draft_.started_ns = now_ns();
  if (spec_.memory_mib < domain::kLeastMemoryMib) {
    return sys::fail(ErrorKind::invalid, "--memory " + std::to_string(spec_.memory_mib) +
                                             " is too small to boot; give " +
                                             std::to_string(domain::kLeastMemoryMib) + " or more");
  }
  TRY_ASSIGN(const domain::Tier tier, domain::choose_tier(spec_.tier, domain::probe_hardware()));
  if (spec_.tier) draft_.tier_asked = std::string(domain::name_of(*spec_.tier));
  draft_.tier_given = std::string(domain::name_of(tier));
  TRY(make_places(places_));
  TRY_ASSIGN(image_, image::Images(places_.state).find(spec_.image));
  draft_.image = image_.digest;
  draft_.kernel = image_.kernel_digest;
  report_.tier = draft_.tier_given;
  return {};
}

sys::Status Run::open_ledger() {
  TRY_ASSIGN(turn::Ledger ledger, turn::Ledger::open(places_.state));
  ledger_.emplace(std::move(ledger));
  if (!spec_.from.empty()) {
    TRY_ASSIGN(from_, find_stored(ledger_->store(), spec_.from));
  }
  return sys::Result<Reconciled>(reconcile(places_, ledger_->store())).map([](const Reconciled&) {});
}

sys::Status Run::make_sandbox() {
  TRY_ASSIGN(const domain::Tier tier, domain::tier_named(draft_.tier_given));
  const SandboxSpec spec{.id = draft_.demand,
                         .tier = tier,
                         .image = image_,
                         .memory_mib = spec_.memory_mib,
                         .vcpus = spec_.vcpus,
                         .connect = spec_.connect};
  auto add_row = [&](const std::string& runtime_dir) -> sys::Status {
    TRY_ASSIGN(draft_.sandbox_ordinal, ledger_->store().add_sandbox({.id = draft_.demand,
                                                                     .demand = draft_.demand,
                                                                     .account = draft_.account,
                                                                     .project = draft_.project,
                                                                     .runtime_dir = runtime_dir,
                                                                     .created_ns = draft_.started_ns}));
    return {};
  };
  tell("booting");
  TRY_ASSIGN(sandbox_, Sandbox::create(places_, spec, add_row));
  sandbox_->launch();
  return {};
}

sys::Status Run::import_host_files() {
  if (!spec_.workspace.empty()) {
    TRY(import("workspace", spec_.workspace, RootKind::directory, spec_.apply ? &imported_ : nullptr));
  }
  if (from_) TRY(import_version());
  for (const auto& [name, path] : spec_.inputs) {
    TRY(import("input:" + name, path, RootKind::any));
    draft_.inputs.push_back({.name = name, .tree = {}});
  }
  return {};
}

sys::Status Run::import_version() {
  tell("importing " + from_->shown);
  TRY_ASSIGN(const store::Reader reader, ledger_->store().read());
  const turn::StoredTree tree(turn::fetch_from(reader, from_->account), from_->tree);
  auto fed = feed_version(tree, sandbox_->files(), "workspace");
  if (!fed) return sys::context("cannot start from " + from_->shown, std::move(fed).error());
  tell("booting");
  return {};
}

sys::Status Run::import(const std::string& target, const std::string& path, RootKind kind,
                        HostStamps* stamps) {
  auto take = [&](sys::Fd memfd, bool more) -> sys::Status {
    return sandbox_->files().import(target, memfd.get(), more).map([](const control::Imported&) {});
  };
  auto show = [&](const HostTreeTotals& totals) {
    tell("importing " + path + ": " + std::to_string(totals.entries) + " entries, " +
         std::to_string(totals.bytes >> 20) + " MiB");
  };
  auto read = read_host_tree(path, kind, take, show, stamps);
  if (!read) return tl::make_unexpected(std::move(read).error());
  tell("booting");
  return {};
}

bool Run::begin_turn() {
  std::vector<std::string> names;
  for (const auto& [name, path] : spec_.inputs) names.push_back(name);
  auto& files = sandbox_->files();
  auto before = files.turn_begin({.turn = draft_.turn,
                                  .demand = draft_.demand,
                                  .thread = kThread,
                                  .thread_seq = draft_.thread_seq,
                                  .tier = draft_.tier_given,
                                  .inputs = names});
  auto stage = before ? files.stage_begin(draft_.turn, kStage) : tl::unexpected(before.error());
  if (!stage) {
    trouble_ = "turnbox-fsd did not begin the turn: " + stage.error().text;
    return false;
  }
  before_ = *before;
  stage_dir_ = *stage;
  return true;
}

bool Run::wait_for_guest() {
  auto ready = sandbox_->await_guest(spec_.boot_deadline, [this] { return is_cancelled(); });
  if (!ready) {
    trouble_ = ready.error().text;
    return false;
  }
  draft_.booted_ns = now_ns();
  report_.boot = since(began_);
  tell("");
  return true;
}

bool Run::is_cancelled() {
  if (cancel_signal_ == 0 && hooks_.cancel_signal) cancel_signal_ = hooks_.cancel_signal();
  return cancel_signal_ != 0;
}

exec::ExecSpec Run::exec_spec() const {
  const std::string stage = std::string("/turn/") + kThread + "/stages/" + stage_dir_;
  exec::ExecSpec exec{.exec = draft_.turn, .argv = spec_.command, .cwd = "/workspace"};
  exec.env = {{"PATH", kPath},
              {"HOME", "/root"},
              {"LANG", "C.UTF-8"},
              {"TURNBOX_TURN", std::string("/turn/") + kThread},
              {"TURNBOX_STAGE", stage},
              {"TURNBOX_INPUTS", stage + "/inputs"},
              {"TURNBOX_OUTPUTS", stage + "/outputs"}};
  for (const auto& given : spec_.env) {
    std::erase_if(exec.env, [&](const auto& mine) { return mine.first == given.first; });
    exec.env.push_back(given);
  }
  exec.timeout = spec_.timeout;
  return exec;
}

Outcome Run::run_command() {
  const auto from = Clock::now();
  turn::Stage stage{.name = kStage, .argv = spec_.command, .cwd = "/workspace", .env = spec_.env};
  for (const auto& input : draft_.inputs) stage.inputs.push_back(input.name);
  stage.begun_ns = now_ns();
  draft_.stages.push_back(std::move(stage));
  note({{"event", "command_started"}, {"stage", kStage}});
  sys::Fd stop(::epoll_create1(EPOLL_CLOEXEC));
  for (const int fd : {sandbox_->trouble_fd(), hooks_.cancel_fd}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (fd >= 0) ::epoll_ctl(stop.get(), EPOLL_CTL_ADD, fd, &event);
  }
  auto ended = exec::run(sandbox_->vsock_path(), exec_spec(), {.stdin_fd = 0, .stdout_fd = 1, .stderr_fd = 2},
                         stop.get());
  draft_.stages.back().ended_ns = now_ns();
  report_.run = since(from);
  note({{"event", "command_ended"}, {"stage", kStage}});
  if (is_cancelled()) {
    (void)exec::end(sandbox_->vsock_path(), draft_.turn, Clock::now() + kFlushDeadline);
    return cancelled(cancel_signal_);
  }
  // A broken connection is told before the death that broke it: wait for the reason.
  pollfd death{sandbox_->trouble_fd(), POLLIN, 0};
  if (!ended) ::poll(&death, 1, static_cast<int>(kReasonWait.count()));
  if (auto what = sandbox_->trouble()) return infrastructure(*what);
  return outcome_of(ended);
}

Outcome Run::failed_early() const {
  return cancel_signal_ != 0 ? cancelled(cancel_signal_) : infrastructure(trouble_);
}

Outcome Run::cancelled(int signal) const {
  return {.status = turn::TurnStatus::cancelled,
          .reason = turn::Reason::signal,
          .detail = std::string("cancelled by ") + (signal == 2   ? "SIGINT"
                                                    : signal == 1 ? "SIGHUP"
                                                                  : "SIGTERM"),
          .exit_status = 128 + signal,
          .ended = "cancelled"};
}

void Run::end_turn(Outcome& outcome) {
  auto& files = sandbox_->files();
  tell("recording");
  if (draft_.booted_ns && !outcome.infrastructure()) {
    auto flushed = exec::flush(sandbox_->vsock_path(), kFlushDeadline);
    draft_.capture.flushed = flushed.value_or(false);
    if (auto what = sandbox_->trouble()) outcome = infrastructure(*what);
  }
  if (before_ == 0) return;
  (void)files.stage_seal(draft_.turn, kStage);
  auto ended = files.turn_end(draft_.turn, turn::name_of(outcome.status));
  if (!ended) {
    if (!outcome.infrastructure())
      outcome = infrastructure("turnbox-fsd did not end the turn: " + ended.error().text);
    return;
  }
  turn_end_ = *ended;
  after_ = ended->snapshot;
}

void Run::capture(const Outcome& outcome) {
  const turn::NotCaptured lost{outcome.infrastructure() ? outcome.detail : "the turn never began"};
  auto tree = [&](control::SnapshotId snapshot, std::string of) -> turn::TreeCapture {
    if (snapshot == 0 || !sandbox_->files_alive()) return lost;
    return capture_->tree({snapshot, std::move(of)});
  };
  draft_.workspace_before = tree(before_, "workspace");
  for (auto& input : draft_.inputs) input.tree = tree(before_, "inputs/" + input.name);
  const bool whole = !outcome.infrastructure();
  draft_.workspace_after = whole ? tree(after_, "workspace") : lost;
  for (auto& stage : draft_.stages) stage.outputs = whole ? tree(after_, "outputs/" + stage.name) : lost;
  draft_.events = lost;
  if (turn_end_ && sandbox_->files_alive()) draft_.events = capture_->events(draft_.turn, *turn_end_);
  draft_.capture.captured = {"workspace", "inputs", "outputs", "events"};
  if (!whole) draft_.capture.captured = {"inputs", "events"};
  draft_.capture.denied = {"network"};
  draft_.capture.unknown = {"clock", "randomness"};
  if (!whole) draft_.capture.unknown.insert(draft_.capture.unknown.end(), {"workspace", "outputs"});
}

void Run::fill_draft(const Outcome& outcome) {
  capture_.emplace(sandbox_->files());
  capture(outcome);
  draft_.status = outcome.status;
  draft_.reason = outcome.reason;
  draft_.detail = outcome.detail;
  draft_.ended_ns = now_ns();
  if (!draft_.stages.empty()) draft_.stages.back().exit = outcome.exit;
}

void Run::read_changes(const Outcome& outcome) {
  if (outcome.infrastructure() || before_ == 0 || after_ == 0) return;
  auto changes = sandbox_->files().diff(before_, after_);
  if (!changes) return;
  report_.added = changes->added;
  report_.changed = changes->changed;
  report_.removed = changes->removed;
  for (auto& row : changes->rows) report_.changes.push_back({row.change, std::move(row.path)});
}

sys::Status Run::commit(Outcome& outcome) {
  // The machine has nothing more to say: it goes while digests are computed.
  std::thread ender([this] { (void)sandbox_->end_machine(); });
  read_changes(outcome);
  fill_draft(outcome);
  auto kept = ledger_->commit(draft_, capture_->objects());
  if (!kept && kept.error().kind == ErrorKind::unavailable && !sandbox_->files_alive(kReasonWait)) {
    // fsd died while it was asked for objects: what it held is lost, and the record says so.
    if (auto what = sandbox_->trouble()) outcome = infrastructure(*what);
    fill_draft(outcome);
    kept = ledger_->commit(draft_, capture_->objects());
  }
  ender.join();
  if (!kept) return sys::context("the turn was not recorded", std::move(kept).error());
  if (!kept->checkpoint_late.empty()) spdlog::warn("{}", kept->checkpoint_late);
  report_.record_digest = to_hex(kept->record);
  if (!spec_.record_file.empty()) {
    auto written = sys::replace_file(spec_.record_file, kept->bytes, 0644);
    if (!written) return sys::context("the turn is recorded as " + draft_.turn, std::move(written).error());
  }
  return {};
}

sys::Status Run::remove_sandbox() {
  if (!sandbox_) return {};
  capture_.reset();
  auto ended = sandbox_->end();
  sandbox_.reset();
  // A row that stays (a full disk) names a directory that is gone: the next command erases it.
  (void)ledger_->store().erase_sandbox(draft_.demand);
  return ended;
}

sys::Result<Applied> Run::apply_recorded() {
  const auto* before = std::get_if<turn::TreeRef>(&draft_.workspace_before);
  const auto* after = std::get_if<turn::TreeRef>(&draft_.workspace_after);
  if (before == nullptr || after == nullptr)
    return sys::fail(ErrorKind::unavailable, "nothing was applied: the turn's workspace was not captured");
  TRY_ASSIGN(const store::Reader reader, ledger_->store().read());
  const turn::Fetch fetch = turn::fetch_from(reader, draft_.account);
  return apply_changes(spec_.workspace, imported_, turn::StoredTree(fetch, *before),
                       turn::StoredTree(fetch, *after));
}

// From the store, not from the sandbox, which is gone: what is applied is what was recorded.
void Run::apply(const Outcome& outcome) {
  if (!spec_.apply) return;
  if (outcome.status != turn::TurnStatus::completed) {
    report_.not_applied = "nothing was applied, since the turn did not complete";
    return;
  }
  auto applied = apply_recorded();
  if (applied) {
    report_.applied = std::move(*applied);
  } else {
    report_.not_applied = applied.error().text;
  }
}

RunReport Run::report(const Outcome& outcome) {
  report_.exit_status = outcome.exit_status;
  if (outcome.exit_status == 0 && !report_.not_applied.empty()) report_.exit_status = kFailed;
  report_.turn = draft_.turn;
  report_.status = turn::name_of(outcome.status);
  if (outcome.reason != turn::Reason::none) report_.reason = turn::name_of(outcome.reason);
  report_.ended = outcome.ended;
  report_.failure = outcome.infrastructure() ? outcome.detail : outcome.hint;
  return std::move(report_);
}

}  // namespace

sys::Result<RunReport> run(const Places& places, const RunSpec& spec, const RunHooks& hooks) {
  return Run(places, spec, hooks).go();
}

}  // namespace turnbox::demand
