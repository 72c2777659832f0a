// Wakes of remote workflows [O7]: the request that tells a run's app to come for it.
#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/kernel/outbox.h"
#include "agent/kernel/runs.h"

namespace bide::kernel {
namespace {

struct Remote {
  std::string url;
  std::string workflow;
  std::string uid;
  std::int64_t epoch = 0;
};

std::optional<Remote> queued_remote(db::ReadTx& tx, RunId run) {
  db::Query q(tx,
              "SELECT json_extract(v.manifest, '$.url'), f.name, r.uid, r.epoch FROM runs r JOIN workflow_versions v "
              "ON v.id = r.workflow_version_id JOIN workflows f ON f.id = r.workflow_id WHERE r.id = ? AND r.status = "
              "'queued' AND r.paused_at IS NULL AND v.kind = 'remote'");
  q.bind(run);
  if (!q.next() || q.null(0)) return std::nullopt;
  return Remote{q.text(0), q.text(1), q.text(2), q.integer(3)};
}

}  // namespace

bool write_wake(db::Tx& tx, RunId run, TimeMs now) {
  const auto remote = queued_remote(tx, run);
  if (!remote) return false;
  NewDelivery wake;
  wake.kind = OutboxKind::wake;
  wake.run = run;
  wake.destination = remote->url;
  wake.request = json::Writer()
                     .begin_object()
                     .member("type", "run.wake")
                     .member("run", run.value)
                     .member("workflow", remote->workflow)
                     .end_object()
                     .take();
  // One row that is not parked at a time, so run, epoch and time name it.
  wake.idem_key =
      "wake_" +
      to_hex(sha256(remote->uid + ":" + std::to_string(remote->epoch) + ":" + std::to_string(now))).substr(0, 32);
  write_delivery(tx, wake, now);
  db::Query(tx, "UPDATE runs SET woken_at = ?2 WHERE id = ?1").bind(run, now).run();
  return true;
}

std::vector<RunId> due_wakes(db::ReadTx& tx, int limit, TimeMs now) {
  std::vector<RunId> runs;
  db::Query q(
      tx,
      "SELECT r.id FROM workflow_versions v CROSS JOIN runs r INDEXED BY runs_claimable WHERE v.kind = 'remote' "
      "AND r.workflow_version_id = v.id AND r.status = 'queued' AND r.paused_at IS NULL AND "
      "json_extract(v.manifest, '$.url') IS NOT NULL AND r.run_at <= ?1 AND r.woken_at IS NULL ORDER BY v.id, "
      "r.priority DESC, r.run_at, r.id LIMIT ?2");
  q.bind(now, limit);
  while (q.next()) runs.push_back(RunId(q.integer(0)));
  return runs;
}

std::vector<RunId> lost_wakes(db::ReadTx& tx, int limit, TimeMs now) {
  std::vector<RunId> runs;
  // By version: where no workflow is remote, nothing of the queue is read.
  db::Query q(
      tx,
      "SELECT r.id FROM workflow_versions v CROSS JOIN runs r INDEXED BY runs_claimable WHERE v.kind = 'remote' AND "
      "r.workflow_version_id = v.id AND r.status = 'queued' AND r.paused_at IS NULL AND "
      "json_extract(v.manifest, '$.url') IS NOT NULL AND r.run_at <= ?1 AND (r.redrive_at IS NULL OR "
      "r.redrive_at <= ?2) AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.run_id = r.id AND o.kind = 'wake' AND "
      "o.parked_at IS NULL) ORDER BY v.id, r.priority DESC, r.run_at, r.id LIMIT ?3");
  q.bind(now - limits::kLostWakeMs, now, limit);
  while (q.next()) runs.push_back(RunId(q.integer(0)));
  return runs;
}

bool wake_again(db::Tx& tx, RunId run, TimeMs now) {
  {
    db::Query q(tx, "SELECT 1 FROM outbox WHERE run_id = ? AND kind = 'wake' AND parked_at IS NULL");
    q.bind(run);
    if (q.next()) return false;
  }
  if (!queued_remote(tx, run)) return false;
  // Of those that were given up the newest stays, to be looked at: an app that is away for a year leaves one, not one
  // every ten minutes.
  std::vector<DeliveryId> parked;
  {
    db::Query q(tx,
                "SELECT id FROM outbox WHERE run_id = ? AND kind = 'wake' AND parked_at IS NOT NULL ORDER BY id DESC "
                "LIMIT -1 OFFSET 1");
    q.bind(run);
    while (q.next()) parked.push_back(DeliveryId(q.integer(0)));
  }
  for (const DeliveryId id : parked) (void)drop_delivery(tx, id, "bide", now);
  db::Query(tx,
            "UPDATE runs SET redrive_delay = min(coalesce(redrive_delay * 2, ?3), ?4), "
            "redrive_at = ?2 + min(coalesce(redrive_delay * 2, ?3), ?4) WHERE id = ?1")
      .bind(run, now, limits::kRedriveFirstMs, limits::kRedriveMaxMs)
      .run();
  return write_wake(tx, run, now);
}

}  // namespace bide::kernel
