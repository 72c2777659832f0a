#include "agent/work/task_pool.h"

#include <algorithm>
#include <chrono>

#include "agent/base/json.h"
#include "agent/base/log.h"
#include "agent/flow/attempt_impl.h"
#include "agent/flow/retry_delay.h"

namespace bide::work {

struct TaskPool::Ran {
  kernel::TaskOutcome outcome;
  bool retryable = true;
};

TaskPool::TaskPool(db::Store& store, Random& random, const flow::Registry& registry, Executor& executor)
    : store_(store), random_(random), registry_(registry), executor_(executor) {}

TaskPool::~TaskPool() { stop(); }

void TaskPool::adopt() {
  store_.write([](db::Tx& tx) { kernel::keep_task_leases(tx, tx.now()); });
}

void TaskPool::start(int workers) {
  for (int i = 0; i < workers; ++i) workers_.emplace_back([this](std::stop_token stop) { work(stop); });
}

void TaskPool::stop() {
  {
    Lock lock(mutex_);
    stopping_ = true;
    // Under the mutex: a worker that has looked and does not sleep yet would miss the bell, and be joined for ever.
    for (auto& worker : workers_) worker.request_stop();
  }
  offered_bell_.notify_all();
  workers_.clear();
}

void TaskPool::offer(StepId task) { offer_at(task, 0); }

void TaskPool::offer_at(StepId task, BootMs at) {
  {
    Lock lock(mutex_);
    if (stopping_ || offered_.size() >= limits::kOfferedTasks) return;  // the sweep offers it again
    offered_.emplace(at, task);
  }
  offered_bell_.notify_one();
}

std::optional<StepId> TaskPool::next_due() {
  const BootMs now = store_.system_clock().boot_ms();
  Lock lock(mutex_);
  if (offered_.empty() || offered_.begin()->first > now) return std::nullopt;
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
  Lock lock(mutex_);
  return offered_.empty() ? std::nullopt : std::optional(offered_.begin()->first);
}

bool TaskPool::works_on(StepId task) const {
  Lock lock(mutex_);
  return executing_.contains(task);
}

bool TaskPool::run(StepId task) {
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
      Lock lock(pool.mutex_);
      pool.executing_.erase(pool.executing_.find(task));
    }
  } over{*this, task};
  const auto has = [this](const std::string& name) { return registry_.tasks().contains(name); };
  claim = store_.write([&](db::Tx& tx) { return kernel::claim_task(tx, task, executor_.owner(), has, tx.now()); });
  if (!claim) return false;
  Ran ran = execute(*claim);
  if (!ran.outcome.result && ran.retryable && claim->failures + 1 <= claim->retries)
    ran.outcome.retry_at = store_.now() + flow::retry_delay(0, claim->failures + 1, random_.next());
  const auto recorded = store_.write([&](db::Tx& tx) {
    kernel::Ripples ripples;
    const auto done = kernel::finish_task(tx, *claim, ran.outcome, tx.now(), &ripples);
    executor_.ripple(tx, ripples);
    return done;
  });
  if (recorded == kernel::TaskRecorded::again)
    offer_at(task, store_.system_clock().boot_ms() + (*ran.outcome.retry_at - store_.now()));
  return true;
}

TaskPool::Ran TaskPool::execute(const kernel::TaskClaim& claim) {
  Ran ran;
  kernel::Usage usage;
  std::string error;
  try {
    const auto& function = registry_.tasks().at(claim.name);
    ran.outcome.result = function(claim.request, flow::EffectInfo{claim.key, claim.execution, &usage});
    if (!usage.empty()) ran.outcome.usage = kernel::to_json(usage);
    if (ran.outcome.result->size() > limits::kDocumentBytes || json::check(*ran.outcome.result)) {
      // E9: it is known to have happened; what it gave cannot be kept.
      ran.outcome.result.reset();
      ran.retryable = false;
      ran.outcome.error = flow::error_json("BadResult", "The task's result is not JSON of at most 1 MiB.");
      return ran;
    }
  } catch (const flow::Final& e) {
    ran.retryable = false;
    error = e.what();
  } catch (const std::exception& e) {
    error = e.what();
  }
  if (!ran.outcome.result) ran.outcome.error = flow::error_json("StepError", error);
  return ran;
}

std::int64_t TaskPool::sweep_leases(TimeMs) {
  std::vector<StepId> again;
  if (!store_.read([&](db::ReadTx& tx) { return kernel::lapse_due(tx, store_.now()); })) return 0;  // W1: no write
  store_.write([&](db::Tx& tx) {
    kernel::Ripples ripples;
    again = kernel::lapse_tasks(
        tx, [this](StepId task) { return works_on(task); }, limits::kSweepPage, tx.now(), &ripples);
    executor_.ripple(tx, ripples);
  });
  for (const StepId task : again) offer(task);
  return static_cast<std::int64_t>(again.size());
}

std::int64_t TaskPool::sweep_undispatched(TimeMs) {
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
    std::unique_lock lock(mutex_);
    if (stopping_) return;
    DurationMs longest = limits::kCheckMs;
    if (!offered_.empty())
      longest = std::clamp<DurationMs>(offered_.begin()->first - store_.system_clock().boot_ms(), 1, longest);
    offered_bell_.wait_for(lock, std::chrono::milliseconds(longest));
  }
}

}  // namespace bide::work
