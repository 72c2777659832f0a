#include "agent/kernel/runs.h"

#include <algorithm>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/kernel/events.h"

namespace bide::kernel {
namespace {

RunRow read_row(db::Query& q) {
  RunRow row;
  row.id = RunId(q.integer(0));
  row.uid = q.text(1);
  row.workflow = WorkflowId(q.integer(2));
  row.workflow_name = q.text(3);
  row.version = VersionId(q.integer(4));
  row.mission = q.maybe_text(5);
  row.created_by = q.text(6);
  row.start_key = q.maybe_text(7);
  row.status = run_status_from(q.text(8)).value();
  row.reason = q.maybe_text(9);
  row.priority = q.integer(10);
  row.run_at = q.integer(11);
  row.paused_at = q.maybe_integer(12);
  row.epoch = q.integer(13);
  row.owner = q.maybe_text(14);
  row.recoveries = q.integer(15);
  row.cancel_requested_at = q.maybe_integer(16);
  row.cancel_reason = q.maybe_text(17);
  row.input = q.text(18);
  row.result = q.maybe_text(19);
  row.error = q.maybe_text(20);
  row.labels = q.text(21);
  row.created_at = q.integer(22);
  row.started_at = q.maybe_integer(23);
  row.finished_at = q.maybe_integer(24);
  row.redriven = q.integer(25) != 0;
  row.deadline = q.maybe_integer(26);
  return row;
}

#define BIDE_RUN_COLUMNS                                                                                        \
  "r.id, r.uid, r.workflow_id, f.name, r.workflow_version_id, r.mission, r.created_by, r.start_key, r.status, " \
  "r.reason, r.priority, r.run_at, r.paused_at, r.epoch, r.owner, r.recoveries, r.cancel_requested_at, "        \
  "r.cancel_reason, r.input, r.result, r.error, r.labels, r.created_at, r.started_at, r.finished_at, "          \
  "r.redrive_at IS NOT NULL, r.deadline_ms "                                                                    \
  "FROM runs r JOIN workflows f ON f.id = r.workflow_id "

std::vector<RunRow> read_all(db::Query& q) {
  std::vector<RunRow> rows;
  while (q.next()) rows.push_back(read_row(q));
  return rows;
}

std::int64_t before(const RunFilter& filter) {
  return filter.before.valid() ? filter.before.value : std::int64_t{9'000'000'000'000'000'000};
}

}  // namespace

bool holds(db::ReadTx& tx, const Fence& fence) {
  db::Query q(tx, "SELECT 1 FROM runs WHERE id = ? AND status = 'running' AND epoch = ? AND owner = ?");
  q.bind(fence.run, fence.epoch, fence.owner);
  return q.next();
}

bool cancel_asked(db::ReadTx& tx, const Fence& fence) {
  db::Query q(tx,
              "SELECT 1 FROM runs WHERE id = ? AND status = 'running' AND epoch = ? AND owner = ? AND "
              "cancel_requested_at IS NOT NULL");
  q.bind(fence.run, fence.epoch, fence.owner);
  return q.next();
}

bool is_ending(db::ReadTx& tx, const Fence& fence) {
  db::Query q(tx,
              "SELECT 1 FROM runs WHERE id = ? AND status = 'running' AND epoch = ? AND owner = ? AND "
              "(cancel_requested_at IS NOT NULL OR error IS NOT NULL)");
  q.bind(fence.run, fence.epoch, fence.owner);
  return q.next();
}

std::optional<RunRow> read_run(db::ReadTx& tx, RunId id) {
  db::Query q(tx, "SELECT " BIDE_RUN_COLUMNS "WHERE r.id = ? AND r.deleted_at IS NULL");
  q.bind(id);
  if (!q.next()) return std::nullopt;
  return read_row(q);
}

std::vector<RunRow> list_runs(db::ReadTx& tx, const RunFilter& filter) {
  // The filters are few and a box's runs are many: each shape has its own statement so that its index is used.
  if (filter.workflow) {
    db::Query q(tx, "SELECT " BIDE_RUN_COLUMNS
                    "WHERE r.workflow_id = (SELECT id FROM workflows WHERE name = ?1) AND r.id < ?2 AND (?3 IS NULL OR "
                    "r.status = ?3) "
                    "AND (?4 IS NULL OR r.mission = ?4) AND r.deleted_at IS NULL ORDER BY r.id DESC LIMIT ?5");
    q.bind(*filter.workflow, before(filter), filter.status, filter.mission, filter.limit);
    return read_all(q);
  }
  if (filter.mission) {
    db::Query q(tx, "SELECT " BIDE_RUN_COLUMNS
                    "WHERE r.mission = ?1 AND r.id < ?2 AND (?3 IS NULL OR r.status = ?3) AND r.deleted_at IS NULL "
                    "ORDER BY r.id DESC LIMIT ?4");
    q.bind(*filter.mission, before(filter), filter.status, filter.limit);
    return read_all(q);
  }
  if (filter.status && !terminal(*filter.status)) {
    db::Query q(tx, "SELECT " BIDE_RUN_COLUMNS
                    "WHERE r.finished_at IS NULL AND r.status = ?1 AND r.id < ?2 ORDER BY r.id DESC LIMIT ?3");
    q.bind(*filter.status, before(filter), filter.limit);
    return read_all(q);
  }
  db::Query q(tx,
              "SELECT " BIDE_RUN_COLUMNS
              "WHERE r.id < ?1 AND (?2 IS NULL OR r.status = ?2) AND r.deleted_at IS NULL ORDER BY r.id DESC LIMIT ?3");
  q.bind(before(filter), filter.status, filter.limit);
  return read_all(q);
}

StartOutcome start_run(db::Tx& tx, const StartRun& start, TimeMs now) {
  std::optional<std::string> start_key;
  if (start.key) start_key = "u:" + *start.key;
  if (start.parent) start_key = "c:" + start.parent->key;
  if (start_key) {
    db::Query q(tx, "SELECT id, input FROM runs WHERE workflow_id = ? AND start_key = ?");
    q.bind(start.workflow, *start_key);
    if (q.next()) {
      const RunId run(q.integer(0));
      if (json::canonical(q.text(1)) == json::canonical(start.input)) return RunExists{run};
      return StartKeyTaken{run};
    }
  }
  db::Query(
      tx,
      "INSERT INTO runs (uid, workflow_id, workflow_version_id, mission, created_by, start_key, status, priority, "
      "run_at, input, labels, created_at, parent_step_id, deadline_at, deadline_ms) VALUES "
      "(?,?,?,?,?,?,'queued',?,?,?,?,?,?,?,?)")
      .bind(start.uid, start.workflow, start.version, start.mission, start.created_by, start_key, start.priority,
            start.run_at.value_or(now), start.input, start.labels, now,
            start.parent ? std::optional(start.parent->step.value) : std::nullopt,
            start.deadline ? std::optional(std::max(now, start.run_at.value_or(now)) + *start.deadline) : std::nullopt,
            start.deadline)
      .run();
  const RunId run(tx.last_insert_id());
  append_event(tx, now, "run.created", run, StepId(),
               json::Writer().begin_object().member("by", start.created_by).end_object().text());
  return RunStarted{run};
}

Woke wake_run(db::Tx& tx, RunId run, TimeMs now) {
  const int changed =
      db::Query(
          tx,
          "UPDATE runs SET status = 'queued', run_at = CASE status WHEN 'waiting' THEN ?2 ELSE min(run_at, ?2) END "
          "WHERE id = ?1 AND status IN ('waiting', 'queued')")
          .bind(run, now)
          .run();
  if (changed == 1) return Woke::queued;
  db::Query q(tx, "SELECT status FROM runs WHERE id = ?");
  q.bind(run);
  return q.next() && q.text(0) == "running" ? Woke::ring_attempt : Woke::ended;
}

std::optional<TimeMs> next_due(db::ReadTx& tx) {
  std::optional<TimeMs> due;
  const auto take = [&due](db::Query&& q) {
    if (!q.next() || q.null(0)) return;
    due = due ? std::min(*due, q.integer(0)) : q.integer(0);
  };
  take(db::Query(tx, "SELECT min(run_at) FROM runs WHERE status = 'queued' AND paused_at IS NULL"));
  take(db::Query(
      tx, "SELECT min(resolve_by) FROM waits WHERE status = 'pending' AND resolve_by IS NOT NULL AND kind <> 'timer'"));
  take(db::Query(tx, "SELECT min(remind_at) FROM waits WHERE status = 'pending' AND remind_at IS NOT NULL"));
  take(db::Query(tx, "SELECT min(redrive_at) FROM runs WHERE redrive_at IS NOT NULL"));
  take(db::Query(tx, "SELECT min(lease_until) FROM steps WHERE status = 'started' AND lease_until IS NOT NULL"));
  {
    // The first that nobody has offered again yet: the backoff of the others is redrive_at [W6].
    db::Query q(
        tx,
        "SELECT s.not_before + ? FROM steps s INDEXED BY steps_undispatched CROSS JOIN runs r WHERE r.id = s.run_id "
        "AND s.not_before >= 0 AND s.status = 'pending' "
        "AND s.kind = 'task' AND r.redrive_at IS NULL AND r.status IN ('waiting', 'queued') AND r.paused_at IS "
        "NULL AND r.cancel_requested_at IS NULL AND r.error IS NULL ORDER BY s.not_before, s.id LIMIT 1");
    q.bind(limits::kTaskRelayMs);
    take(std::move(q));
  }
  take(db::Query(tx,
                 "SELECT min(deadline_at) FROM runs WHERE deadline_at IS NOT NULL AND finished_at IS NULL AND error IS "
                 "NULL AND cancel_requested_at IS NULL"));
  return due;
}

}  // namespace bide::kernel
