// An attempt that is given up because something of it does not end [K3, E5].
#include "agent/base/json.h"
#include "agent/flow/attempt.h"
#include "agent/flow/attempt_impl.h"
#include "agent/kernel/claims.h"
#include "agent/kernel/steps.h"
#include "agent/kernel/waits.h"

namespace bide::flow {
namespace {

std::string timeout_error(const Entry& entry) {
  return error_json("Timeout", "Step \"" + entry.row.name + "\" took longer than " +
                                   format_duration(entry.ask.timeout) + " and did not end.");
}

}  // namespace

// What is overdue when the attempt is given up. Code of ours cannot be ended, so its execution is only fenced off; but
// that it took too long is known, and is recorded like any other outcome [E5]. Without that it would be run again for
// ever.
struct Attempt::Overdue {
  std::vector<kernel::Failure> failed;  // pure, idempotent, or declared: a failed attempt, counted against the retries
  std::vector<StepId> unanswered;       // probes: they cannot tell
};

Attempt::Overdue Attempt::overdue() {
  Overdue found;
  const BootMs boot = store_.system_clock().boot_ms();
  for (const auto& [seq, entry] : journal_.at_work()) {
    if (!entry->executing || entry->deadline_boot_ms == 0 || entry->deadline_boot_ms > boot) continue;
    if (entry->probed) {
      found.unanswered.push_back(entry->row.id);
    } else if (entry->row.effect != kernel::Effect::non_idempotent || entry->ask.fail_on_timeout) {
      if (entry->superseded) entry->superseded->store(true);
      kernel::Failure failure{intent_of(*entry), entry->row.id, timeout_error(*entry), std::nullopt, true};
      const std::int64_t failures = entry->row.failures + 1;
      if (failures <= entry->ask.retries)
        failure.retry_at = store_.now() + backoff_of(entry->ask, failures, random_.next());
      found.failed.push_back(std::move(failure));
    }  // non_idempotent: as after a crash [E7], which the next attempt sees by itself
  }
  return found;
}

void Attempt::crash() {
  Guard guard(mutex_);
  persist(guard, [&](db::Tx& tx) {
    kernel::Ripples ripples;
    (void)kernel::recover_run(tx, fence_.run, fence_.epoch, tx.now(), &ripples);
    tell(tx, ripples);
  });
  close_locked(Closing::lease_lost);
}

void Attempt::abandon() {
  Guard guard(mutex_);
  const Overdue late = overdue();
  const auto job = [&](db::Tx& tx) {
    if (kernel::holds(tx, fence_) && !kernel::cancel_asked(tx, fence_)) {
      for (const kernel::Failure& failure : late.failed) kernel::fail_overdue(tx, fence_, failure, tx.now());
      for (const StepId step : late.unanswered) {
        const auto row = kernel::read_step(tx, step);
        if (!row || row->status != kernel::StepStatus::started) continue;  // it has answered meanwhile
        (void)kernel::put_in_doubt(tx, fence_, step, "timed out", tx.now());
      }
    }
    kernel::Ripples ripples;
    (void)kernel::abandon_attempt(tx, fence_, tx.now(), &ripples);
    tell(tx, ripples);
  };
  persist(guard, job, db::Purpose::decision);
  close_locked(Closing::lease_lost);
  if (options_.on_requeued) options_.on_requeued();
}

}  // namespace bide::flow
