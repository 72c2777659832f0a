#include "agent/work/executor.h"

#include <algorithm>
#include <chrono>

#include "agent/base/json.h"
#include "agent/base/log.h"
#include "agent/base/thread_name.h"
#include "agent/flow/failure_json.h"
#include "agent/work/wall.h"

namespace bide::work {

Executor::Executor(db::Store& store, Random& random, const flow::Registry& registry, ExecutorOptions options)
    : store_(store), random_(random), registry_(registry), options_([&] {
        if (options.owner.empty()) options.owner = "local:" + random.uuid();
        return std::move(options);
      }()) {}

Executor::~Executor() {
  if (started()) stop();  // never started: a test that lets the process "die" leaves its runs as they are
}

void Executor::set_program_driver(Driver* driver) { program_driver_ = driver; }
void Executor::set_due_bell(std::function<void()> bell) { due_bell_ = std::move(bell); }
void Executor::set_overdue_bell(std::function<void(BootMs)> bell) { overdue_bell_ = std::move(bell); }

void Executor::register_workflows() {
  struct Registered {
    WorkflowId workflow;
    VersionId version;
    std::vector<VersionId> accepts;
  };
  for (const flow::NativeWorkflow& workflow : registry_.all()) {
    const auto registered = store_.write([&](db::Tx& tx) {
      Registered r;
      r.workflow = kernel::ensure_workflow(tx, workflow.name);
      for (const std::string& older : workflow.accepts) {
        r.accepts.push_back(
            kernel::ensure_version(tx, r.workflow, older, kernel::WorkflowKind::native, "{}", tx.now()));
      }
      r.version =
          kernel::ensure_version(tx, r.workflow, workflow.version, kernel::WorkflowKind::native, "{}", tx.now());
      return r;
    });
    native_[registered.version] = Native{&workflow, registered.workflow};
    for (const VersionId older : registered.accepts) accepted_by_[older] = registered.version;
  }
}

VersionId Executor::known(VersionId pinned) const {
  if (native_.contains(pinned)) return pinned;
  if (const auto it = accepted_by_.find(pinned); it != accepted_by_.end()) return it->second;
  if (program_driver_ == nullptr) return {};
  Lock lock(mutex_);
  const auto it = versions_.find(pinned);
  if (it == versions_.end() || !it->second) return {};
  return it->second->kind == kernel::WorkflowKind::program ? pinned : VersionId();
}

bool Executor::knows_workflow(WorkflowId workflow) const {
  return std::any_of(native_.begin(), native_.end(), [&](const auto& n) { return n.second.workflow_id == workflow; });
}

kernel::ClaimRules Executor::rules() const {
  kernel::ClaimRules rules;
  rules.owner = options_.owner;
  rules.known = [this](VersionId pinned) { return known(pinned); };
  rules.elsewhere = [this](VersionId pinned) {
    Lock lock(mutex_);
    const auto it = versions_.find(pinned);
    return it != versions_.end() && it->second && it->second->kind == kernel::WorkflowKind::remote;
  };
  rules.max_running = [this](WorkflowId workflow) {
    for (const auto& [version, native] : native_) {
      if (native.workflow_id == workflow && native.workflow->max_running > 0) return native.workflow->max_running;
    }
    return program_driver_ == nullptr ? 0 : program_driver_->max_running(workflow);
  };
  return rules;
}

// Versions are looked up before the claim's transaction, which must not read files or wait.
void Executor::learn_versions(db::ReadTx& tx) {
  for (const VersionId id : kernel::queued_versions(tx)) {
    Lock lock(mutex_);
    if (!versions_.contains(id)) versions_[id] = kernel::read_version(tx, id);
  }
}

int Executor::claim(int most) {
  const ClaimDoor::Pass pass = door_.enter();
  if (!pass) return 0;
  const kernel::ClaimRules rules = this->rules();
  std::vector<kernel::Claimed> taken;
  const auto job = [&](db::Tx& tx) {
    for (const auto& one : taken) forget(one.run, one.epoch);  // of a batch that was rolled back
    taken.clear();
    learn_versions(tx);
    while (static_cast<int>(taken.size()) < most) {
      const auto outcome = kernel::claim_next(tx, rules, tx.now());
      const auto* one = std::get_if<kernel::Claimed>(&outcome);
      if (one == nullptr) break;
      taken.push_back(*one);
      // In the table before the commit: the sweep must not take it for an orphan in between.
      Lock lock(mutex_);
      driven_[one->run] = Driven{one->epoch, nullptr, std::nullopt, false};
    }
    if (taken.empty())
      kernel::mark_unknown(
          tx, rules, [this](WorkflowId w) { return knows_workflow(w); }, tx.now());
  };
  try {
    store_.write(job);
  } catch (...) {
    for (const auto& one : taken) forget(one.run, one.epoch);
    throw;
  }
  if (taken.empty()) return 0;
  {
    Lock lock(mutex_);
    for (const auto& one : taken) {
      claimed_.push_back(one);
      ++busy_;
    }
  }
  work_there_.notify_all();
  return static_cast<int>(taken.size());
}

// Only the entry of this epoch: the run may have been claimed again meanwhile.
void Executor::forget(RunId run, std::int64_t epoch) {
  {
    Lock lock(mutex_);
    const auto it = driven_.find(run);
    if (it != driven_.end() && it->second.epoch == epoch) driven_.erase(it);
  }
  drained_.notify_all();
}

void Executor::start() {
  for (int i = 0; i < options_.workers; ++i) workers_.emplace_back([this](std::stop_token stop) { work(stop); });
  dispatcher_ = std::jthread([this](std::stop_token stop) { dispatch(stop); });
}

void Executor::dispatch(std::stop_token stop) {
  name_thread("bide-dispatch");
  while (!stop.stop_requested()) {
    std::optional<DurationMs> longest;
    const auto look = follow_wall(store_);
    try {
      int free = 0;
      {
        Lock lock(mutex_);
        free = stopping_ ? 0 : options_.workers - busy_;
      }
      // Something is due only if the file says so: an idle pass writes nothing.
      const auto due = store_.read([&](db::ReadTx& tx) { return kernel::next_due(tx); });
      const TimeMs now = store_.now();
      if (due && *due <= now) {
        if (due_bell_) due_bell_();
        if (elsewhere_.due && !store_.clock().held() && !door_.is_shut()) elsewhere_.due();
        if (free > 0 && !store_.clock().held() && claim(std::min(free, limits::kClaimsAtOnce)) > 0) continue;
        // What is due and stays (nobody to do it) must not hide what becomes due meanwhile.
        const auto later = store_.read([&](db::ReadTx& tx) { return kernel::next_run_due_after(tx, now); });
        longest = later ? std::min<DurationMs>(limits::kDueAgainMs, *later - now) : limits::kDueAgainMs;
      } else if (due) {
        longest = *due - now;
      }
    } catch (const StorageFull&) {
      longest = limits::kDiskProbeMs;  // C4: no claims while the disk is full
    } catch (const StorageBusy&) {
      longest = limits::kDiskProbeMs;
    } catch (const std::exception& e) {
      log::error("dispatcher.failed", {{"error", e.what()}});
      longest = limits::kDiskProbeMs;
    }
    if (look) longest = std::min(longest.value_or(*look), *look);
    alarm_.wait(longest);
  }
}

void Executor::work(std::stop_token stop) NO_THREAD_SAFETY_ANALYSIS {
  name_thread("bide-worker");
  for (;;) {
    kernel::Claimed next;
    {
      std::unique_lock lock(mutex_);
      work_there_.wait(lock, [&]() REQUIRES(mutex_) { return !claimed_.empty() || stop.stop_requested(); });
      if (claimed_.empty()) return;
      next = claimed_.front();
      claimed_.pop_front();
    }
    drive(next);
    {
      Lock lock(mutex_);
      --busy_;
    }
    drained_.notify_all();
    ring();
  }
}

bool Executor::run_one() {
  if (claim(1) == 0) return false;
  kernel::Claimed next;
  {
    Lock lock(mutex_);
    next = claimed_.front();
    claimed_.pop_front();
  }
  drive(next);
  Lock lock(mutex_);
  --busy_;
  return true;
}

void Executor::drive(const kernel::Claimed& claimed) {
  const kernel::Fence fence{claimed.run, claimed.epoch, options_.owner};
  std::shared_ptr<flow::Attempt> attempt;
  try {
    const auto native = native_.find(claimed.version);
    std::optional<kernel::VersionRow> version;
    {
      Lock lock(mutex_);
      if (const auto it = versions_.find(claimed.version); it != versions_.end()) version = it->second;
    }
    if (!version) version = store_.read([&](db::ReadTx& tx) { return kernel::read_version(tx, claimed.version); });
    flow::AttemptOptions options;
    if (native == native_.end()) {
      options = program_driver_->options(*version);
    } else {
      options.allow_default_approved = native->second.workflow->allow_default_approved;
      options.deadline = native->second.workflow->attempt_deadline.value_or(0);
      options.budget = native->second.workflow->budget;
    }
    options.version = version->version;
    attempt = std::make_shared<flow::Attempt>(store_, random_, fence, attempt_options(std::move(options)));
    bool rung = false;  // a cancel may have come after it was read and before it stood in the table
    {
      Lock lock(mutex_);
      const auto it = driven_.find(claimed.run);
      if (it != driven_.end() && it->second.epoch == claimed.epoch) {
        it->second.attempt = attempt;
        rung = it->second.rung;
      }
      if (stopping_) attempt->close(flow::Closing::shutdown);
    }
    if (rung) attempt->ring();
    log::info("run.claimed",
              {{"run", claimed.run.value}, {"epoch", claimed.epoch}, {"workflow", version->workflow_name}});
    if (attempt->deadline_boot_ms() > 0 && due_bell_) due_bell_();  // the sweep learns when
    if (attempt->closing() == flow::Closing::ending || attempt->cancel_requested()) {
      // E6: the end is written, the code is not entered again.
      if (native == native_.end()) program_driver_->let_finish(*attempt);
      if (attempt->closing() == flow::Closing::shutdown) {
        attempt->hand_back(store_.now(), "", flow::Closing::finished);
      } else {
        end_run(*attempt, {}, native == native_.end() ? nullptr : native->second.workflow);
      }
    } else if (attempt->closing() == flow::Closing::shutdown || attempt->closing() == flow::Closing::paused) {
      attempt->hand_back(store_.now(), "", flow::Closing::finished);  // K5, X5: it came too late to begin
    } else if (native == native_.end()) {
      program_driver_->drive(attempt, *version);
    } else {
      drive_native(*attempt, *native->second.workflow);
    }
    if (native == native_.end() && attempt->compensates()) compensate(fence, *version);
  } catch (const std::exception& e) {
    log::error("run.driver_failed", {{"run", claimed.run.value}, {"epoch", claimed.epoch}, {"error", e.what()}});
    if (attempt) hand_back_after_fault(*attempt, e.what());
  }
  forget(claimed.run, claimed.epoch);
}

void Executor::hand_back_after_fault(flow::Attempt& attempt, const std::string&) {
  try {
    attempt.hand_back(store_.now() + limits::kUnclaimedSpawnBackoffMs, "agent_fault", flow::Closing::lease_lost);
  } catch (const std::exception& e) {
    log::error("run.hand_back_failed", {{"run", attempt.fence().run.value}, {"error", e.what()}});
  }
}

void Executor::drive_native(flow::Attempt& attempt, const flow::NativeWorkflow& workflow) {
  kernel::Finish finish;
  try {
    flow::Context context(attempt, random_);
    finish.result = workflow.run(context);
    if (auto refused = flow::unusable(*finish.result)) finish.error = std::move(*refused);
  } catch (const flow::AttemptClosed&) {
    // Suspended, lost, cancelled or ending: told below by the attempt itself.
  } catch (const flow::StepFailed& e) {
    finish.error = e.error;
  } catch (const StorageFault&) {
    throw;
  } catch (const StorageFull&) {  // these four too are faults of ours, not the workflow's [E8]
    throw;
  } catch (const StorageBusy&) {
    throw;
  } catch (const CorruptData&) {
    throw;
  } catch (const Bug&) {
    throw;
  } catch (const std::exception& e) {
    finish.error = flow::error_json("WorkflowError", e.what());
  } catch (...) {
    if (options_.pass_unknown) throw;
    finish.error = flow::error_json("WorkflowError", "It threw something that is no std::exception.");
  }
  attempt.refresh();
  switch (attempt.closing()) {
    case flow::Closing::suspended:
    case flow::Closing::lease_lost:
    case flow::Closing::finished: return;
    case flow::Closing::fault:
    case flow::Closing::paused:
    case flow::Closing::shutdown: attempt.hand_back(store_.now(), "", flow::Closing::finished); return;
    case flow::Closing::open:
    case flow::Closing::ending:
    case flow::Closing::cancelled: break;
  }
  end_run(attempt, finish, &workflow);
}

void Executor::ring() { alarm_.ring(); }

void Executor::ring(RunId run) {
  std::shared_ptr<flow::Attempt> driven;
  {
    Lock lock(mutex_);
    const auto it = driven_.find(run);
    if (it != driven_.end()) {
      it->second.rung = true;
      driven = it->second.attempt;
    }
  }
  if (driven) driven->ring();
  if (!driven && elsewhere_.ring) elsewhere_.ring(run);
}

bool Executor::drives(RunId run) const {
  Lock lock(mutex_);
  return driven_.contains(run);
}

std::shared_ptr<flow::Attempt> Executor::attempt(RunId run) const {
  Lock lock(mutex_);
  const auto it = driven_.find(run);
  return it == driven_.end() ? nullptr : it->second.attempt;
}

std::shared_ptr<flow::Attempt> Executor::attempt(RunId run, std::int64_t epoch) const {
  auto found = attempt(run);
  return found && found->fence().epoch == epoch ? found : nullptr;
}

bool Executor::idle() const {
  Lock lock(mutex_);
  return busy_ < options_.workers;
}

std::string Executor::held_by(RunId run) const {
  return program_driver_ == nullptr ? "" : program_driver_->held_by(run);
}

void Executor::told(RunId run) {
  const BootMs now = store_.system_clock().boot_ms();
  if (elsewhere_.told) elsewhere_.told(run);
  Lock lock(mutex_);
  const auto it = driven_.find(run);
  if (it == driven_.end() || it->second.told_at) return;
  if (it->second.attempt && it->second.attempt->undoing()) return;  // X1's time is for the code
  it->second.told_at = now;
}

void Executor::ripple(db::Tx& tx, const kernel::Ripples& ripples) {
  if (ripples.changed.empty() && ripples.told.empty() && !ripples.queued) return;
  tx.after_commit([this, ripples] {
    for (const RunId run : ripples.told) {
      told(run);
      ring(run);
    }
    for (const RunId run : ripples.changed) ring(run);
    if (!ripples.told.empty() && due_bell_) due_bell_();  // X1: they have 30 s
    ring();
  });
}

bool Executor::stop() NO_THREAD_SAFETY_ANALYSIS {
  std::vector<std::shared_ptr<flow::Attempt>> open;
  bool held = false;
  {
    Lock lock(mutex_);
    if (stopping_) return driven_.empty();
    stopping_ = true;
    for (const auto& [run, driven] : driven_) {
      if (driven.attempt) open.push_back(driven.attempt);
    }
  }
  if (dispatcher_.joinable()) {
    dispatcher_.request_stop();
    alarm_.ring();
    dispatcher_.join();
  }
  for (const auto& attempt : open) attempt->close(flow::Closing::shutdown);
  {
    // Under the mutex: a worker that has looked and does not sleep yet would miss the bell, and be joined for ever.
    Lock lock(mutex_);
    for (auto& worker : workers_) worker.request_stop();
  }
  work_there_.notify_all();
  // K5: effects have the grace to end by themselves; whoever does not is fenced off and left behind.
  {
    std::unique_lock lock(mutex_);
    // Not the table alone: of a run that was claimed again it has the later attempt, and the one that was abandoned
    // may hang in a worker still.
    drained_.wait_for(lock, std::chrono::milliseconds(options_.shutdown_grace),
                      [this]() REQUIRES(mutex_) { return driven_.empty() && busy_ == 0; });
    held = busy_ > 0;
    open.clear();
    for (const auto& [run, driven] : driven_) {
      if (driven.attempt) open.push_back(driven.attempt);
    }
  }
  for (const auto& attempt : open) attempt->abandon();
  if (held || !open.empty()) return false;
  workers_.clear();
  return true;
}

}  // namespace bide::work
