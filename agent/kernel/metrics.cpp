#include "agent/kernel/metrics.h"

#include "agent/kernel/remotes.h"

namespace bide::kernel {

Metrics read_metrics(db::ReadTx& tx) {
  Metrics m;
  {
    db::Query q(tx,
                "SELECT status, count(*), count(paused_at) FROM runs INDEXED BY runs_live WHERE finished_at IS NULL "
                "GROUP BY status ORDER BY status");
    while (q.next()) {
      if (const auto status = run_status_from(q.text(0))) m.runs[*status] = q.integer(1);
      m.runs_paused += q.integer(2);
    }
  }
  {
    db::Query q(tx, "SELECT count(*) FROM runs INDEXED BY runs_failed WHERE status = 'failed'");
    m.runs[RunStatus::failed] = q.one().integer(0);
  }
  {
    db::Query q(tx, "SELECT count(*) FROM runs INDEXED BY runs_finished WHERE finished_at IS NOT NULL");
    m.runs_ended = q.one().integer(0);
  }
  {
    db::Query q(tx,
                "SELECT kind, count(*), min(created_at) FROM waits INDEXED BY waits_inbox WHERE status = 'pending' AND "
                "kind IN ('approval','question','reconcile') GROUP BY kind ORDER BY kind");
    while (q.next()) {
      m.waits[q.text(0)] = q.integer(1);
      const TimeMs at = q.integer(2);
      m.oldest_wait_at = m.oldest_wait_at && *m.oldest_wait_at < at ? *m.oldest_wait_at : at;
      if (q.text(0) == "reconcile") m.in_doubt = q.integer(1);
    }
  }
  {
    db::Query q(tx, "SELECT count(*), min(created_at) FROM outbox WHERE parked_at IS NULL");
    q.one();
    m.outbox = q.integer(0);
    m.outbox_oldest_at = q.maybe_integer(1);
  }
  {
    db::Query q(tx, "SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL");
    m.outbox_parked = q.one().integer(0);
  }
  {
    db::Query q(tx, "SELECT count(*) FROM approvals_audit");
    m.decisions = q.one().integer(0);
  }
  return m;
}

Driven read_driven(db::ReadTx& tx) {
  Driven driven;
  {
    db::Query q(tx,
                "SELECT count(*), count(*) FILTER (WHERE substr(owner, 1, length(?1)) = ?1) FROM runs INDEXED BY "
                "runs_running WHERE status = 'running'");
    q.bind(kRemoteOwner);
    q.one();
    driven.apps = q.integer(1);
    driven.runs = q.integer(0) - driven.apps;
  }
  db::Query q(
      tx, "SELECT count(*) FROM steps INDEXED BY steps_leased WHERE status = 'started' AND lease_until IS NOT NULL");
  driven.tasks = q.one().integer(0);
  return driven;
}

}  // namespace bide::kernel
