#include "agent/work/program_driver.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "agent/base/guard_protocol.h"
#include "agent/base/json.h"
#include "agent/base/log.h"
#include "agent/flow/failure_json.h"
#include "agent/flow/rehearsal_port.h"
#include "agent/kernel/claims.h"
#include "agent/work/log_cut.h"
#include "agent/work/log_marks.h"
#include "agent/work/manifest.h"
#include "agent/work/program_running.h"

namespace bide::work {
namespace {

namespace fs = std::filesystem;

// The last bytes of a file from `offset` on: what a program said last.
std::string tail_of(const std::string& path, std::int64_t from) {
  constexpr std::int64_t kKept = 2'000;
  std::ifstream in(path, std::ios::binary);
  in.seekg(0, std::ios::end);
  const std::int64_t size = in.tellg();
  if (size <= from) return "";
  const std::int64_t start = std::max(from, size - kKept);
  in.seekg(start);
  std::string text(static_cast<std::size_t>(size - start), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

std::int64_t size_of(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

}  // namespace

// From before its folder of secrets is made until the drive is over: the sweep leaves that alone. By attempt: the next
// one of a run may begin before the drive of the last is over.
class ProgramDriver::Preparing {
 public:
  Preparing(ProgramDriver& driver, Secrets::Attempt attempt) : driver_(driver), attempt_(attempt) {
    Lock lock(driver_.mutex_);
    driver_.preparing_.insert(attempt_);
  }
  ~Preparing() {
    Lock lock(driver_.mutex_);
    driver_.preparing_.erase(attempt_);
  }
  Preparing(const Preparing&) = delete;
  Preparing& operator=(const Preparing&) = delete;

 private:
  ProgramDriver& driver_;
  const Secrets::Attempt attempt_;
};

// However the drive ends: a row that this process no longer watches is W7's.
struct ProgramDriver::Forget {
  ProgramDriver& driver;
  RunId run;
  std::int64_t epoch = 0;
  std::vector<ProcessId> rows = {};  // all that were given while it was written: one of them stayed, or none
  bool left = true;                  // processes may be: the sweep looks
  void add(ProcessId row) {
    Lock lock(driver.mutex_);
    rows.push_back(row);
    driver.mine_[row] = true;
    driver.driven_[run] = epoch;
  }
  // The others are anybody's now: their numbers are given again.
  void keep(ProcessId row) {
    Lock lock(driver.mutex_);
    for (const ProcessId other : rows) {
      if (other != row) driver.mine_.erase(other);
    }
    rows = {row};
  }
  ~Forget() {
    {
      Lock lock(driver.mutex_);
      for (const ProcessId row : rows) driver.mine_.erase(row);
      // The run's next attempt may stand here already: it began when this one's row was stopped.
      const auto driven = driver.driven_.find(run);
      const bool another = driven != driver.driven_.end() && driven->second != epoch;
      if (!another) {
        driver.driven_.erase(run);
        driver.held_by_.erase(run);
      }
    }
    if (left && driver.left_bell_) driver.left_bell_();
  }
};

ProgramDriver::ProgramDriver(db::Store& store, Random& random, Spawner& spawner, Holders& holders,
                             ProgramSettings settings, LayOut lay_out)
    : store_(store),
      random_(random),
      spawner_(spawner),
      holders_(holders),
      settings_(std::move(settings)),
      lay_out_(std::move(lay_out)),
      run_as_(settings_.directory, settings_.socket) {}

flow::AttemptOptions ProgramDriver::options(const kernel::VersionRow& version) const {
  flow::AttemptOptions options;
  options.style = flow::Style::program;
  options.secret = random_.uid();
  options.outcomes = holders_.directory();
  options.outputs = settings_.directory + "/outputs";
  options.rehearsal = rehearsal_;
  options.allow_default_approved = json::bool_member(version.manifest, "allow_default_approved").value_or(false);
  options.deadline = json::int_member(version.manifest, "attempt_deadline_ms").value_or(0);
  options.retries = json::int_member(version.manifest, "retries").value_or(0);
  options.backoff = json::int_member(version.manifest, "backoff_ms").value_or(0);
  if (const auto budget = json::member(version.manifest, "budget")) options.budget = kernel::parse_usage(*budget);
  return options;
}

int ProgramDriver::max_running(WorkflowId workflow) const {
  Lock lock(mutex_);
  const auto it = max_running_.find(workflow);
  return it == max_running_.end() ? 0 : it->second;
}

bool ProgramDriver::set_max_running(WorkflowId workflow, int limit) {
  Lock lock(mutex_);
  return std::exchange(max_running_[workflow], limit) != limit;
}

void ProgramDriver::set_stopped_bell(std::function<void()> bell) { stopped_bell_ = std::move(bell); }

void ProgramDriver::set_left_bell(std::function<void()> bell) { left_bell_ = std::move(bell); }

std::string ProgramDriver::held_by(RunId run) const {
  Lock lock(mutex_);
  const auto it = held_by_.find(run);
  return it == held_by_.end() ? "" : it->second;
}

std::vector<std::string> ProgramDriver::environment(const flow::Attempt& attempt, const kernel::VersionRow& version,
                                                    const ProgramHome& home, const Running& running) const {
  const std::string& workspace = running.workspace;
  const auto& run = attempt.run();
  const std::string bin = fs::path(settings_.verb_executable).parent_path().string();
  std::vector<std::string> environment = {
      "PATH=" + home.folder + ":" + home.folder + "/bin:" + bin + ":" + settings_.path,
      "HOME=" + (running.user ? running.user->home : settings_.home),
      "USER=" + (running.user ? running.user->name : settings_.user),
      "SHELL=/bin/sh",
      "LANG=C.UTF-8",
      "TZ=UTC",
      "TMPDIR=" + workspace + "/tmp",
      "BIDE_AGENT=" + settings_.socket,
      "BIDE_ATTEMPT=bat_" + std::to_string(run.id.value) + "_" + std::to_string(attempt.fence().epoch) + "_" +
          attempt.secret(),
      "BIDE_RUN=" + std::to_string(run.id.value),
      "BIDE_INPUT=" + workspace + ".input.json",
      "BIDE_WORKFLOW=" + version.workflow_name,
      "BIDE_HOME=" + home.folder,
  };
  if (run.mission) environment.push_back("BIDE_MISSION=" + *run.mission);
  for (const auto& [given_name, given] : manifest_of_json(version.manifest).env) {
    const std::string name = given_name + "=";
    std::erase_if(environment, [&name](const std::string& known) { return known.starts_with(name); });
    // bide and the workflow's own commands stay in front.
    const bool is_path = name == "PATH=";
    environment.push_back(name + (is_path ? home.folder + ":" + home.folder + "/bin:" + bin + ":" : "") + given);
  }
  return environment;
}

// Whoever rehearses runs everything as themselves: root would do as root what is meant for somebody with less.
std::optional<std::string> ProgramDriver::refuses(const std::string& run_as) const {
  if (run_as.empty()) return std::nullopt;
  if (rehearsal_ != nullptr) {
    if (::geteuid() != 0) return std::nullopt;
    return "run_as = \"" + run_as + "\": rehearse it as that user, not as root: sudo -u " + run_as +
           " bide rehearse WORKFLOW";
  }
  const auto user = find_run_as(run_as);
  if (const auto* why = std::get_if<std::string>(&user)) return *why;
  return std::nullopt;
}

// What an attempt that is over, or an agent that was killed, has left, but for what a step's command still reads.
void ProgramDriver::take_back_secrets() {
  if (secrets_ == nullptr) return;
  for (const Secrets::Attempt& attempt : secrets_->handed_out()) {
    {
      Lock lock(mutex_);
      if (preparing_.contains(attempt)) continue;
    }
    const bool read = store_.read([&](db::ReadTx& tx) { return !kernel::live_holders(tx, attempt.run).empty(); });
    if (!read) secrets_->take_back(attempt);
  }
}

void ProgramDriver::drive(const std::shared_ptr<flow::Attempt>& attempt, const kernel::VersionRow& version) {
  const RunId run = attempt->run().id;
  Running running;
  const Preparing preparing(*this, {run, attempt->fence().epoch});
  ProgramHome home;
  if (!prepare(*attempt, version, running, home)) return;
  running.marks_path = settings_.directory + "/logs/" + std::to_string(run.value) + ".marks";
  running.log_from = size_of(running.log_path);
  GuardRequest request;
  request.guard_executable = settings_.verb_executable;
  request.argv = {home.main};
  if (attempt->undoing()) request.argv = {settings_.verb_executable, guard_protocol::kUndoMode};  // E6
  request.environment = environment(*attempt, version, home, running);
  if (running.shared) request.environment.push_back("BIDE_ENVIRONMENT=" + running.shared->path());
  if (!running.secrets.empty()) request.environment.push_back("BIDE_SECRETS=" + running.secrets);
  request.cwd = running.workspace;
  request.log_path = running.log_path;
  if (running.user) request.run_as = running.user->ids();
  auto started = GuardedProcess::start(spawner_, request);
  if (const auto* failed = std::get_if<SpawnFailed>(&started)) {
    log::warn("program.spawn_failed", {{"run", run.value}, {"error", failed->text}});
    attempt->hand_back(store_.now() + limits::kUnclaimedSpawnBackoffMs, "spawn_failed", flow::Closing::finished);
    return;
  }
  running.guard = std::move(std::get<std::unique_ptr<GuardedProcess>>(started));
  kernel::ProcessRow row;
  row.nonce = random_.uid();
  row.pid = running.guard->key().pid;
  row.pid_start = static_cast<std::int64_t>(running.guard->key().start);
  row.boot_id = boot_id();
  Forget forget{*this, run, attempt->fence().epoch};
  running.row = store_.write([&](db::Tx& tx) {
    const ProcessId id = kernel::add_process(tx, attempt->fence(), row, tx.now());
    if (id.valid()) forget.add(id);  // before the sweep can see it
    return id;
  });
  forget.keep(running.row);
  if (!running.row.valid()) attempt->close(flow::Closing::lease_lost);
  running.suspend_after_busy = json::int_member(version.manifest, "suspend_after_busy_ms").value_or(0);
  watch(*attempt, running);
  conclude(*attempt, running);
  if (!running.row.valid()) return;
  store_.write([&](db::Tx& tx) {
    std::optional<int> code;
    if (running.exit) code = running.exit->code;
    kernel::mark_stopped(tx, running.row, code, tx.now());
  });
  if (stopped_bell_) stopped_bell_();
  forget.left = store_.read([&](db::ReadTx& tx) { return !kernel::live_holders(tx, run).empty(); });
  if (forget.left || secrets_ == nullptr) return;
  // Of earlier attempts too: their steps are over. The next one may have begun: its guard's row is marked.
  for (const Secrets::Attempt& folder : secrets_->handed_out()) {
    if (folder.run == run && folder.epoch <= attempt->fence().epoch) secrets_->take_back(folder);
  }
}

// Lets the program go, and watches its tree until nothing of it is left but holders.
void ProgramDriver::watch(flow::Attempt& attempt, Running& running) {
  const RunId run = attempt.run().id;
  const auto mark = [&](LogMarkKind kind, std::int64_t offset) {
    append_mark(running.marks_path, {kind, attempt.fence().epoch, offset, store_.now()});
  };
  struct Silent {  // however it ends, a late bell finds nothing that is gone
    flow::Attempt& attempt;
    ~Silent() {
      attempt.set_bell({});
      attempt.set_held_bell({});
      attempt.set_fresh_bell({});
    }
  } silent{attempt};
  mark(LogMarkKind::began, running.log_from);
  const auto is_fresh = [&](std::int64_t offset) {
    running.fresh = true;
    mark(LogMarkKind::fresh, offset);
  };
  if (running.outlived) {  // what the step says nobody has seen: rather shown twice than hidden with the replay
    is_fresh(running.log_from);
  } else {
    attempt.set_fresh_bell([&] { is_fresh(size_of(running.log_path)); });
  }
  attempt.set_bell([&bell = running.bell] { bell.ring(); });
  attempt.set_held_bell([&guard = *running.guard](const ProcessKey& holder) { guard.spare(holder); });
  // K7: only after its row is committed does the guard exec the program.
  if (running.row.valid()) running.guard->go();
  ProgramAttempt watched(attempt, *running.guard, holders_, store_.system_clock(), running.bell,
                         {settings_.cancel_grace, settings_.shutdown_grace, running.suspend_after_busy},
                         [this, run](const std::string& text) {
                           Lock lock(mutex_);
                           held_by_[run] = text;
                         });
  watched.set_regular([&] {
    const auto cut = cut_log(running.log_path);
    if (!cut) return;
    append_mark(running.marks_path, {LogMarkKind::cut, attempt.fence().epoch, cut->from, store_.now(), cut->until});
  });
  watched.run();
  running.exit = watched.exit();
  running.unfinished = watched.unfinished();
  running.crashed = watched.crashed();
  const flow::Closing why = attempt.closing();
  const bool later = why == flow::Closing::suspended || why == flow::Closing::shutdown || why == flow::Closing::paused;
  if (later) {
    mark(LogMarkKind::suspended, size_of(running.log_path));
  } else if (!running.fresh) {  // what a program says that ends or fails before it asks for anything new is not hidden
    mark(LogMarkKind::fresh, running.log_from);
  }
}

// The tree is gone: what becomes of the run.
void ProgramDriver::conclude(flow::Attempt& attempt, Running& running) {
  if (secrets_ != nullptr) secrets_->mask_log(attempt.run().id, running.log_path);
  attempt.refresh();
  switch (attempt.closing()) {
    case flow::Closing::suspended:
    case flow::Closing::lease_lost:
    case flow::Closing::finished: return;
    case flow::Closing::paused:
    case flow::Closing::shutdown: attempt.hand_back(store_.now(), "", flow::Closing::finished); return;
    case flow::Closing::fault:
      attempt.hand_back(store_.now() + limits::kUnclaimedSpawnBackoffMs, "spawn_failed", flow::Closing::finished);
      return;
    case flow::Closing::ending:
    case flow::Closing::cancelled: (void)attempt.finish({}); return;
    case flow::Closing::open: break;
  }
  if (attempt.cancel_requested()) {
    (void)attempt.finish({});
    return;
  }
  if (const auto error = running.guard->report().start_error) {
    const bool ours = *error == EAGAIN || *error == ENOMEM || *error == EMFILE || *error == ENFILE;
    if (ours) {
      attempt.hand_back(store_.now() + limits::kUnclaimedSpawnBackoffMs, "spawn_failed", flow::Closing::finished);
    } else {
      (void)attempt.finish(
          {std::nullopt,
           flow::error_json("NotExecutable", "The program could not be started" +
                                                 (running.user ? " as user " + running.user->name : std::string()) +
                                                 ": " + std::strerror(*error) +
                                                 (running.user ? " (each folder above the agent's own and above its "
                                                                 "socket must let that user pass)"
                                                               : ""))});
    }
    return;
  }
  // What undoes is a process of ours: however it ended too early, it was a crash.
  const bool undo_died = attempt.undoing() && running.exit && running.exit->code != 0;
  if (running.crashed || !running.exit || running.exit->signalled || undo_died) {
    // Killed by nobody of ours: like a crash [K6].
    attempt.crash();
    return;
  }
  if (running.exit->code != 0) {
    json::Writer w;
    w.begin_object()
        .member("code", "program_failed")
        .member("message", "The program exited with " + std::to_string(running.exit->code) + ".");
    w.member("exit_code", running.exit->code)
        .member("stderr", tail_of(running.log_path, running.log_from))
        .end_object();
    (void)attempt.finish({std::nullopt, w.take()});
    return;
  }
  if (running.unfinished) {
    (void)attempt.finish(
        {std::nullopt, flow::error_json("UnfinishedBranch",
                                        "The program ended while a verb in the background was open: add `wait`.")});
    return;
  }
  if (rehearsal_ != nullptr && !attempt.undoing() && rehearsal_->ends_again(attempt.run().id)) {
    attempt.hand_back(store_.now(), "", flow::Closing::finished);
    return;
  }
  (void)attempt.finish({attempt.result().value_or("null"), std::nullopt});
}

}  // namespace bide::work
