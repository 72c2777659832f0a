#include "agent/work/task_pool.h"

#include <algorithm>
#include <chrono>

#include "agent/base/json.h"
#include "agent/base/log.h"
#include "agent/flow/failure_json.h"
#include "agent/flow/retry_delay.h"

namespace bide::work {

struct TaskPool::Ran {
  kernel::TaskOutcome outcome;
  bool retryable = true;
};

TaskPool::TaskPool(db::Store& store, Random& random, const flow::Registry& registry, Executor& executor)
    : store_(store), random_(random), registry_(registry), executor_(executor) {}

TaskPool::~TaskPool() { (void)stop(0); }

void TaskPool::adopt() {
  store_.write([](db::Tx& tx) { kernel::keep_task_leases(tx, tx.now()); });
}

void TaskPool::start(int workers) {
  for (int i = 0; i < workers; ++i) workers_.emplace_back([this](std::stop_token stop) { work(stop); });
}

void TaskPool::close() {
  {
    Lock lock(mutex_);
    closing_ = true;
    // Under the mutex: a worker that has looked and does not sleep yet would miss the bell, and be joined for ever.
    for (auto& worker : workers_) worker.request_stop();
  }
  offered_bell_.notify_all();
}

bool TaskPool::stop(DurationMs grace) NO_THREAD_SAFETY_ANALYSIS {
  close();
  {
    std::unique_lock lock(mutex_);
    over_.wait_for(lock, std::chrono::milliseconds(grace), [this]() REQUIRES(mutex_) { return executing_.empty(); });
    stopping_ = true;
    if (!executing_.empty()) return false;
  }
  workers_.clear();
  return true;
}

void TaskPool::offer(StepId task) { offer_at(task, 0); }

void TaskPool::offer_at(StepId task, BootMs at) {
  {
    Lock lock(mutex_);
    if (closing_ || offered_.size() >= limits::kOfferedTasks) return;  // the sweep offers it again
    offered_.emplace(at, task);
  }
  offered_bell_.notify_one();
}

std::optional<StepId> TaskPool::next_due() {
  const BootMs now = store_.system_clock().boot_ms();
  if (store_.clock().held() || executor_.door().is_shut()) return std::nullopt;  // C6: no claims
  Lock lock(mutex_);
  if (closing_ || offered_.empty() || offered_.begin()->first > now) return std::nullopt;
  const StepId task = offered_.begin()->second;
  offered_.erase(offered_.begin());
  return task;
}

bool TaskPool::run_one() {
  while (const auto task = next_due()) {
    if (run(*task)) return true;
  }
  return false;
}

std::optional<BootMs> TaskPool::next_offer() const {
  const bool held = store_.clock().held() || executor_.door().is_shut();
  const BootMs now = store_.system_clock().boot_ms();
  Lock lock(mutex_);
  if (closing_ || offered_.empty()) return std::nullopt;
  const BootMs at = offered_.begin()->first;
  return held ? std::max(at, now + limits::kDueAgainMs) : at;
}

bool TaskPool::works_on(StepId task) const {
  Lock lock(mutex_);
  return executing_.contains(task);
}

bool TaskPool::run(StepId task) {
  if (store_.clock().held()) return false;  // C6; the sweep offers it again
  std::optional<kernel::TaskClaim> claim;
  {
    // Before the claim: the sweep must not take its lease for one that nobody works under.
    Lock lock(mutex_);
    executing_.insert(task);
  }
  struct Over {
    TaskPool& pool;
    StepId task;
    ~Over() {
      {
        Lock lock(pool.mutex_);
        pool.executing_.erase(pool.executing_.find(task));
      }
      pool.over_.notify_all();
    }
  } over{*this, task};
  const auto has = [this](const std::string& name) { return registry_.tasks().contains(name); };
  if (const ClaimDoor::Pass pass = executor_.door().enter())
    claim = store_.write([&](db::Tx& tx) { return kernel::claim_task(tx, task, executor_.owner(), has, tx.now()); });
  if (!claim) return false;
  Ran ran = execute(*claim);
  if (!ran.outcome.result && ran.retryable && claim->failures + 1 <= claim->retries)
    ran.outcome.retry_at = store_.now() + flow::retry_delay(0, claim->failures + 1, random_.next());
  const auto recorded = record(*claim, ran.outcome);
  if (recorded == kernel::TaskRecorded::again)
    offer_at(task, store_.system_clock().boot_ms() + (*ran.outcome.retry_at - store_.now()));
  return true;
}

// E9: it has happened, and an outcome is always recorded: while the file is full or busy, again each second. Its lease
// is renewed meanwhile, for this pool still works on it.
kernel::TaskRecorded TaskPool::record(const kernel::TaskClaim& claim, const kernel::TaskOutcome& outcome) {
  for (;;) {
    try {
      return store_.write([&](db::Tx& tx) {
        kernel::Ripples ripples;
        const auto done = kernel::finish_task(tx, claim, outcome, tx.now(), &ripples);
        executor_.ripple(tx, ripples);
        return done;
      });
    } catch (const StorageFull&) {
      if (!wait_for_room()) throw;
    } catch (const StorageBusy&) {
      if (!wait_for_room()) throw;
    }
  }
}

// False: the agent has no more time; the next one finds the task as after a crash.
bool TaskPool::wait_for_room() NO_THREAD_SAFETY_ANALYSIS {
  if (pace_ != nullptr) {
    pace_->wait(limits::kDiskProbeMs);
    return true;
  }
  std::unique_lock lock(mutex_);
  over_.wait_for(lock, std::chrono::milliseconds(limits::kDiskProbeMs),
                 [this]() REQUIRES(mutex_) { return stopping_; });
  return !stopping_;
}

TaskPool::Ran TaskPool::execute(const kernel::TaskClaim& claim) {
  Ran ran;
  kernel::Usage usage;
  std::string error;
  try {
    const auto& function = registry_.tasks().at(claim.name);
    ran.outcome.result = function(claim.request, flow::EffectInfo{claim.key, claim.execution, &usage});
    if (!usage.empty()) ran.outcome.usage = kernel::to_json(usage);
    if (auto refused = flow::unusable(*ran.outcome.result)) {
      ran.outcome.result.reset();
      ran.retryable = false;
      ran.outcome.error = std::move(*refused);
      return ran;
    }
  } catch (const flow::Final& e) {
    ran.retryable = false;
    error = e.what();
  } catch (const std::exception& e) {
    error = e.what();
  } catch (...) {
    if (executor_.passes_unknown()) throw;
    error = "It threw something that is no std::exception.";
  }
  if (!ran.outcome.result) ran.outcome.error = flow::error_json("StepError", error);
  return ran;
}

std::int64_t TaskPool::sweep_leases(TimeMs) {
  std::vector<StepId> again;
  if (store_.clock().held()) return 0;
  if (!store_.read([&](db::ReadTx& tx) { return kernel::lapse_due(tx, store_.now()); })) return 0;  // W1: no write
  store_.write([&](db::Tx& tx) {
    kernel::Ripples ripples;
    again = kernel::lapse_tasks(
        tx, [this](StepId task) { return works_on(task) || (alive_elsewhere_ && alive_elsewhere_(task)); },
        limits::kSweepPage, tx.now(), &ripples);
    executor_.ripple(tx, ripples);
  });
  for (const StepId task : again) offer(task);
  return static_cast<std::int64_t>(again.size());
}

std::int64_t TaskPool::sweep_undispatched(TimeMs) {
  if (store_.clock().held()) return 0;
  if (!store_.read([&](db::ReadTx& tx) { return kernel::relay_due(tx, store_.now()); })) return 0;
  const auto tasks = store_.write([](db::Tx& tx) { return kernel::relay_tasks(tx, limits::kSweepPage, tx.now()); });
  for (const StepId task : tasks) offer(task);
  return static_cast<std::int64_t>(tasks.size());
}

void TaskPool::work(std::stop_token stop) NO_THREAD_SAFETY_ANALYSIS {
  while (!stop.stop_requested()) {
    try {
      if (run_one()) continue;
    } catch (const std::exception& e) {
      log::error("task.failed", {{"error", e.what()}});
    }
    const auto next = next_offer();
    std::unique_lock lock(mutex_);
    if (closing_) return;
    DurationMs longest = limits::kCheckMs;
    if (next) longest = std::clamp<DurationMs>(*next - store_.system_clock().boot_ms(), 1, longest);
    offered_bell_.wait_for(lock, std::chrono::milliseconds(longest));
  }
}

}  // namespace bide::work
