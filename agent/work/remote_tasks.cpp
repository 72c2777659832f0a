#include "agent/work/remote_tasks.h"

#include <algorithm>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"
#include "agent/flow/failure_json.h"
#include "agent/flow/retry_delay.h"

namespace bide::work {
namespace {

std::string list_of(const std::vector<std::string>& names) {
  json::Writer w;
  w.begin_array();
  for (const std::string& name : names) w.string(name);
  return w.end_array().take();
}

Problem lost() { return problem("lease_lost", "the task was given to another worker, or is settled"); }

}  // namespace

std::optional<kernel::TaskClaim> RemoteTasks::claim(const std::vector<std::string>& functions,
                                                    const std::string& worker, BootMs until,
                                                    const std::function<bool()>& gone) {
  const std::string names = list_of(functions);
  const auto has = [&](const std::string& name) {
    return std::find(functions.begin(), functions.end(), name) != functions.end();
  };
  for (;;) {
    const std::uint64_t seen = feed_.seen();
    const bool held = store_.clock().held() || executor_.door().is_shut();
    const bool there =
        !held && store_.read([&](db::ReadTx& tx) { return kernel::due_task(tx, names, store_.now()).has_value(); });
    if (there && !gone()) {
      std::optional<kernel::TaskClaim> claimed;
      if (const ClaimDoor::Pass pass = executor_.door().enter()) {
        claimed = store_.write([&](db::Tx& tx) -> std::optional<kernel::TaskClaim> {
          const auto task = kernel::due_task(tx, names, tx.now());
          return task ? kernel::claim_task(tx, *task, worker, has, tx.now()) : std::nullopt;
        });
      }
      if (claimed) {
        const BootMs now = store_.system_clock().boot_ms();
        Lock lock(mutex_);
        // Of tasks whose worker was never heard of again, or whose run ended under it.
        std::erase_if(leases_, [now](const auto& one) { return one.second.until <= now; });
        leases_[claimed->step] = {claimed->epoch, now + limits::kTaskLeaseMs};
        return claimed;
      }
    }
    const DurationMs left = until - store_.system_clock().boot_ms();
    if (left <= 0 || gone() || feed_.closed()) return std::nullopt;
    feed_.wait(seen, std::min(left, limits::kClaimLookMs));
  }
}

RemoteTasks::Outcome RemoteTasks::finish(const Worker& worker, const kernel::TaskOutcome& asked, bool retryable) {
  const std::uint64_t chance = random_.next();
  auto outcome = store_.write([&](db::Tx& tx) -> Outcome {
    const auto claim = kernel::read_task(tx, worker.task, worker.name, worker.epoch);
    if (!claim) return problem("task_not_found", "there is no such task");
    if (asked.result && kernel::finished_so(tx, *claim, *asked.result)) return Recorded{};
    kernel::TaskOutcome said = asked;
    if (!said.result && retryable && claim->failures + 1 <= claim->retries)
      said.retry_at = tx.now() + flow::retry_delay(0, claim->failures + 1, chance);
    kernel::Ripples ripples;
    const auto recorded = kernel::finish_task(tx, *claim, said, tx.now(), &ripples);
    executor_.ripple(tx, ripples);
    if (recorded == kernel::TaskRecorded::late) return lost();
    return Recorded{recorded == kernel::TaskRecorded::again ? said.retry_at : std::nullopt};
  });
  forget(worker.task, worker.epoch);
  return outcome;
}

RemoteTasks::Outcome RemoteTasks::complete(const Worker& worker, const std::string& result,
                                           const std::optional<std::string>& usage) {
  return finish(worker, {result, usage, "", std::nullopt}, false);
}

RemoteTasks::Outcome RemoteTasks::fail(const Worker& worker, const std::string& error, bool retryable) {
  return finish(worker, {std::nullopt, std::nullopt, error, std::nullopt}, retryable);
}

std::optional<Problem> RemoteTasks::heartbeat(const Worker& worker) {
  const bool held = store_.write([&](db::Tx& tx) {
    const auto claim = kernel::read_task(tx, worker.task, worker.name, worker.epoch);
    return claim && kernel::extend_task(tx, *claim, tx.now() + limits::kTaskLeaseMs);
  });
  if (!held) {
    forget(worker.task, worker.epoch);
    return lost();
  }
  Lock lock(mutex_);
  leases_[worker.task] = {worker.epoch, store_.system_clock().boot_ms() + limits::kTaskLeaseMs};
  return std::nullopt;
}

void RemoteTasks::set_function(const kernel::TaskFunction& function, const std::string& by) {
  store_.write([&](db::Tx& tx) { (void)kernel::set_task_function(tx, function, by, tx.now()); });
  learn();
}

void RemoteTasks::learn() {
  pushes_.store(!store_.read([](db::ReadTx& tx) { return kernel::task_functions(tx); }).empty());
}

std::int64_t RemoteTasks::push(TimeMs) {
  std::int64_t done = 0;
  const ClaimDoor::Pass pass = executor_.door().enter();  // to call an endpoint is to claim for it
  while (pass && pushes_.load() && !store_.clock().held() &&
         store_.read([&](db::ReadTx& tx) { return kernel::push_due(tx, store_.now()); })) {
    const int pushed = store_.write([](db::Tx& tx) { return kernel::push_tasks(tx, limits::kSweepPage, tx.now()); });
    if (pushed == 0) break;
    done += pushed;
  }
  return done;
}

std::optional<DurationMs> RemoteTasks::look(TimeMs now) {
  if (!pushes_.load()) return std::nullopt;
  const auto next = store_.read([](db::ReadTx& tx) { return kernel::next_push(tx); });
  return next ? std::optional(std::max<DurationMs>(1, *next - now)) : std::nullopt;
}

void RemoteTasks::answered(db::Tx& tx, DeliveryId id, int status, const std::string& body) {
  const auto row = kernel::read_delivery(tx, id);
  if (!row || row->kind != kernel::OutboxKind::task) return;
  kernel::Ripples ripples;
  std::optional<std::string> refused;
  if (status != 202 && !trim(body).empty()) {
    refused = flow::unusable(body);
    if (!refused && secret_in_) refused = secret_in_(body);
  }
  kernel::answer_pushed(tx, *row, status, body, refused.value_or(""), tx.now(), &ripples);
  executor_.ripple(tx, ripples);
}

void RemoteTasks::forget(StepId task, std::int64_t epoch) {
  Lock lock(mutex_);
  const auto it = leases_.find(task);
  if (it != leases_.end() && it->second.epoch == epoch) leases_.erase(it);
}

bool RemoteTasks::alive(StepId task) const {
  const BootMs now = store_.system_clock().boot_ms();
  Lock lock(mutex_);
  const auto it = leases_.find(task);
  return it != leases_.end() && it->second.until > now;
}

}  // namespace bide::work
