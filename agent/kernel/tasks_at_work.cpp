#include "agent/kernel/tasks_at_work.h"

#include "agent/kernel/events.h"
#include "agent/kernel/processes.h"
#include "agent/kernel/task_push.h"

namespace bide::kernel {

bool task_at_work(db::ReadTx& tx, RunId run) {
  db::Query q(tx, "SELECT 1 FROM steps WHERE run_id = ? AND kind = 'task' AND status = 'started' LIMIT 1");
  return q.bind(run).next();
}

bool end_is_written(db::ReadTx& tx, RunId run) {
  db::Query q(tx, "SELECT 1 FROM runs WHERE id = ? AND (error IS NOT NULL OR cancel_requested_at IS NOT NULL)");
  return q.bind(run).next();
}

void close_all_but_tasks_at_work(db::Tx& tx, RunId run, TimeMs now) {
  db::Query(tx,
            "UPDATE steps SET updated_at = ?2, status = CASE WHEN status = 'started' AND effect = 'non_idempotent' AND "
            "kind = 'step' THEN 'needs_reconcile' ELSE 'cancelled' END "
            "WHERE run_id = ?1 AND (status = 'pending' OR (status = 'started' AND kind <> 'task'))")
      .bind(run, now)
      .run();
  retire_holders(tx, run);
}

void wait_for_tasks(db::Tx& tx, RunId run, TimeMs now) {
  const int changed =
      db::Query(tx,
                "UPDATE runs SET status = 'waiting', owner = NULL, lease_until = NULL, recoveries = 0 WHERE id = ?1 "
                "AND status = 'running' AND error IS NOT NULL")
          .bind(run)
          .run();
  end_pushes(tx, run, now);
  if (changed != 1) throw Bug("wait_for_tasks: the run was not running, or has no end");
  append_event(tx, now, "run.suspended", run, StepId());
}

}  // namespace bide::kernel
