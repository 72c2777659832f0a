// X3: an operator's retry of a failed run.
#include "agent/base/json.h"
#include "agent/kernel/endings.h"
#include "agent/kernel/events.h"
#include "agent/kernel/waits.h"

namespace bide::kernel {
namespace {

// A wait that was closed by the run's end is asked anew: same question, no deadline that has passed already.
void reopen_wait(db::Tx& tx, RunId run, StepId step, TimeMs now) {
  const auto last = latest_wait(tx, step);
  if (!last || last->status != WaitStatus::cancelled)
    return;  // an answer that nobody has read yet is not asked for again
  const WaitId id(tx.next_id(db::Counter::waits));
  std::optional<TimeMs> deadline;
  if (last->resolve_by)
    deadline = last->kind == WaitKind::timer ? *last->resolve_by : now + (*last->resolve_by - last->created_at);
  db::Query(tx,
            "INSERT INTO waits (id, run_id, step_id, kind, name, status, payload, digest, resolve_by, created_at) "
            "VALUES (?,?,?,?,?,'pending',?,?,?,?)")
      .bind(id, run, step, last->kind, last->name, last->payload, db::Blob{last->digest}, deadline, now)
      .run();
  append_event(tx, now, "wait.created", run, step,
               json::Writer().begin_object().member("wait", id.value).end_object().text());
}

}  // namespace

RetryOutcome retry_run(db::Tx& tx, RunId run, std::string_view by, TimeMs now) {
  const auto row = read_run(tx, run);
  if (!row) return problem("run_not_found", "There is no run " + std::to_string(run.value) + ".", "bide runs");
  if (row->status != RunStatus::failed) {
    return problem("not_failed", "Only a failed run is retried; this one is " + std::string(to_text(row->status)) + ".",
                   "bide explain " + std::to_string(run.value));
  }
  std::vector<StepId> waits;
  {
    db::Query q(
        tx,
        "SELECT id FROM steps WHERE run_id = ? AND status = 'cancelled' AND kind NOT IN ('step', 'task') ORDER BY seq");
    q.bind(run);
    while (q.next()) waits.push_back(StepId(q.integer(0)));
  }
  for (const StepId step : waits) {
    db::Query(
        tx, "UPDATE steps SET status = 'started', error = NULL, updated_at = ?2 WHERE id = ?1 AND status = 'cancelled'")
        .bind(step, now)
        .run();
    reopen_wait(tx, run, step, now);
  }
  db::Query(tx,
            "UPDATE steps SET status = 'pending', not_before = ?2, failures = 0, error = NULL, settled_no = NULL, "
            "updated_at = ?2 "
            "WHERE run_id = ?1 AND status IN ('failed', 'cancelled') AND kind IN ('step', 'task')")
      .bind(run, now)
      .run();
  // A step in doubt is asked about again: back to started, so that E1 decides.
  db::Query(tx, "UPDATE steps SET status = 'started', updated_at = ?2 WHERE run_id = ?1 AND status = 'needs_reconcile'")
      .bind(run, now)
      .run();
  db::Query(tx,
            "UPDATE runs SET status = 'queued', error = NULL, reason = NULL, run_at = ?2, finished_at = NULL, "
            "recoveries = 0, "
            "open_steps_again = 0 WHERE id = ?1 AND status = 'failed'")
      .bind(run, now)
      .run();
  append_event(tx, now, "control.retry", run, StepId(),
               json::Writer().begin_object().member("by", std::string(by)).end_object().text());
  return RunRetried{};
}

}  // namespace bide::kernel
