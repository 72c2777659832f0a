#include "agent/kernel/tasks.h"

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/planted.h"
#include "agent/kernel/events.h"
#include "agent/kernel/evidence.h"
#include "agent/kernel/steps.h"
#include "agent/kernel/tasks_at_work.h"
#include "agent/kernel/waits.h"

namespace bide::kernel {
namespace {

std::string named(const std::string& name, const std::optional<std::string>& error = std::nullopt) {
  json::Writer w;
  w.begin_object().member("name", name).member("kind", "task");
  if (error) w.member_raw("error", *error);
  return w.end_object().take();
}

void ring(Ripples* ripples, RunId run, Woke woke) {
  if (ripples == nullptr) return;
  if (woke == Woke::queued) ripples->queued = true;
  if (woke == Woke::ring_attempt) ripples->changed.push_back(run);
}

void give_up(db::Tx& tx, StepId step, StepStatus to, TimeMs now) {
  db::Query(tx,
            "UPDATE steps SET status = ?2, owner = NULL, lease_until = NULL, updated_at = ?3 WHERE id = ?1 AND status "
            "= 'started'")
      .bind(step, to, now)
      .run();
}

void ask(db::Tx& tx, RunId run, StepId step, TimeMs now, Ripples* ripples) {
  const auto row = read_step(tx, step).value();
  const std::string known = evidence_of(tx, step, "none");
  give_up(tx, step, StepStatus::needs_reconcile, now);
  append_event(tx, now, "step.needs_reconcile", run, step);
  json::Writer w;
  w.begin_object().member("text", "Did \"" + row.name + "\" run? Its worker was not heard of again.");
  w.key("options").begin_array().string("ran").string("run").string("abort").end_array();
  w.member("step", row.name).member("position", row.position).member("executions", row.executions);
  w.member("started_at", format_time(row.updated_at)).member_raw("request", row.request);
  w.member_raw("known", known).end_object();
  (void)add_wait(tx, run, step, WaitKind::reconcile, row.name, w.text(), std::nullopt, now);
  ring(ripples, run, wake_run(tx, run, now));
}

}  // namespace

IntentOutcome open_task(db::Tx& tx, const Fence& fence, const StepIntent& intent, bool reset_recoveries, TimeMs now) {
  const auto written = write_intent(tx, fence, intent, reset_recoveries, now);
  if (std::holds_alternative<LeaseLost>(written)) return LeaseLost{};
  const StepId step = std::get<StepId>(written);
  db::Query(tx, "UPDATE steps SET status = 'pending', not_before = ?2, epoch = 0 WHERE id = ?1").bind(step, now).run();
  return step;
}

std::optional<TaskClaim> claim_task(db::Tx& tx, StepId step, std::string_view worker,
                                    const std::function<bool(const std::string& name)>& has, TimeMs now) {
  TaskClaim claim;
  claim.step = step;
  claim.worker = worker;
  {
    db::Query q(
        tx,
        "SELECT s.run_id, s.name, s.request, s.epoch, s.executions, s.failures, s.retries, coalesce((SELECT o.uid "
        "FROM steps c JOIN runs o ON o.id = c.run_id WHERE c.id = s.copied_from), r.uid), s.position, "
        "s.request_hash FROM steps s JOIN runs r ON r.id = s.run_id WHERE s.id = ?1 AND s.kind = 'task' AND "
        "s.status = 'pending' AND s.not_before <= ?2 AND r.finished_at IS NULL AND r.paused_at IS NULL AND "
        "r.cancel_requested_at IS NULL AND r.error IS NULL");
    q.bind(step, now);
    if (!q.next() || !has(q.text(1))) return std::nullopt;
    claim.run = RunId(q.integer(0));
    claim.name = q.text(1);
    claim.request = q.maybe_text(2).value_or("null");
    claim.epoch = q.integer(3) + 1;
    claim.execution = q.integer(3) == 0 ? 1 : q.integer(4) + 1;
    claim.failures = q.integer(5);
    claim.retries = q.integer(6);
    claim.key = idempotency_key(q.text(7), q.text(8), claim.name, q.blob(9));
  }
  const int changed =
      db::Query(tx,
                "UPDATE steps SET status = 'started', owner = ?2, lease_until = ?3, epoch = ?4, executions = ?5, "
                "not_before = NULL, updated_at = ?6 WHERE id = ?1 AND status = 'pending' AND epoch = ?4 - 1")
          .bind(step, worker, now + limits::kTaskLeaseMs, claim.epoch, claim.execution, now)
          .run();
  if (changed != 1) return std::nullopt;
  // Progress: the run's backoff begins anew [W6].
  db::Query(tx, "UPDATE runs SET redrive_at = NULL, redrive_delay = NULL WHERE id = ? AND redrive_at IS NOT NULL")
      .bind(claim.run)
      .run();
  return claim;
}

std::optional<StepId> due_task(db::ReadTx& tx, std::string_view names, TimeMs now) {
  db::Query q(tx,
              "SELECT s.id FROM steps s INDEXED BY steps_undispatched CROSS JOIN runs r WHERE r.id = s.run_id AND "
              "s.status = 'pending' AND s.kind = 'task' AND s.not_before <= ?2 AND s.name IN (SELECT value FROM "
              "json_each(?1)) AND r.finished_at IS NULL AND r.paused_at IS NULL AND r.cancel_requested_at IS NULL AND "
              "r.error IS NULL ORDER BY s.not_before, s.id LIMIT 1");
  q.bind(names, now);
  return q.next() ? std::optional(StepId(q.integer(0))) : std::nullopt;
}

std::optional<TaskClaim> read_task(db::ReadTx& tx, StepId step, std::string_view worker, std::int64_t epoch) {
  db::Query q(tx,
              "SELECT run_id, name, request, executions, failures, retries, owner FROM steps WHERE id = ? AND kind = "
              "'task'");
  q.bind(step);
  if (!q.next()) return std::nullopt;
  TaskClaim claim;
  claim.step = step;
  claim.run = RunId(q.integer(0));
  claim.name = q.text(1);
  claim.request = q.maybe_text(2).value_or("null");
  claim.worker = q.maybe_text(6).value_or("").starts_with("push:") ? q.text(6) : worker;
  claim.epoch = epoch;
  claim.execution = q.integer(3);
  claim.failures = q.integer(4);
  claim.retries = q.integer(5);
  return claim;
}

bool extend_task(db::Tx& tx, const TaskClaim& claim, TimeMs until) {
  return db::Query(
             tx,
             "UPDATE steps SET lease_until = ?4 WHERE id = ?1 AND kind = 'task' AND status = 'started' AND epoch = "
             "?2 AND owner = ?3")
             .bind(claim.step, claim.epoch, claim.worker, until)
             .run() == 1;
}

bool finished_so(db::ReadTx& tx, const TaskClaim& claim, std::string_view result) {
  db::Query q(
      tx, "SELECT 1 FROM steps WHERE id = ? AND kind = 'task' AND status = 'completed' AND epoch = ? AND result = ?");
  return q.bind(claim.step, claim.epoch, result).next();
}

TaskRecorded finish_task(db::Tx& tx, const TaskClaim& claim, const TaskOutcome& outcome, TimeMs now, Ripples* ripples) {
  const bool again = !outcome.result && outcome.retry_at;
  const bool spared = again && end_is_written(tx, claim.run);  // P1: its retries are not begun any more
  const StepStatus open = spared ? StepStatus::cancelled : StepStatus::pending;
  const StepStatus to = outcome.result ? StepStatus::completed : again ? open : StepStatus::failed;
  std::optional<std::string> error;
  if (!outcome.result) error = outcome.error;
  const int changed =
      db::Query(
          tx,
          "UPDATE steps SET status = ?5, result = ?6, error = ?7, usage = ?8, not_before = ?9, failures = failures "
          "+ ?10, owner = NULL, lease_until = NULL, updated_at = ?4 WHERE id = ?1 AND status = 'started' AND "
          "epoch = ?2 AND owner = ?3")
          .bind(claim.step, claim.epoch, claim.worker, now, to, outcome.result, error, outcome.usage,
                spared ? std::nullopt : outcome.retry_at, outcome.result ? 0 : 1)
          .run();
  if (changed != 1) {
    keep_late_outcome(tx, claim.run, claim.step, claim.epoch, claim.name,
                      {outcome.result ? *outcome.result : outcome.error, !outcome.result}, now);
    return TaskRecorded::late;
  }
  const std::string_view kind = outcome.result ? "step.completed" : again ? "step.attempt_failed" : "step.failed";
  const EventId event = append_event(tx, now, kind, claim.run, claim.step, named(claim.name, error));
  if (again && !spared) return TaskRecorded::again;
  reset_recoveries_of(tx, claim.run);  // K6
  if (!spared) db::Query(tx, "UPDATE steps SET settled_no = ?2 WHERE id = ?1").bind(claim.step, event).run();
  ring(ripples, claim.run, wake_run(tx, claim.run, now));
  return TaskRecorded::settled;
}

bool lapse_due(db::ReadTx& tx, TimeMs now) {
  db::Query q(tx,
              "SELECT 1 FROM steps WHERE status = 'started' AND lease_until IS NOT NULL AND lease_until <= ? LIMIT 1");
  return q.bind(now).next();
}

std::vector<StepId> lapse_tasks(db::Tx& tx, const std::function<bool(StepId)>& alive, int limit, TimeMs now,
                                Ripples* ripples) {
  struct Lapsed {
    StepId step;
    RunId run;
    bool sure = false;
  };
  std::vector<Lapsed> lapsed;
  if (BIDE_PLANTED(task_never_lapses)) return {};
  {
    db::Query q(tx,
                "SELECT id, run_id, effect <> 'non_idempotent' FROM steps WHERE status = 'started' AND lease_until IS "
                "NOT NULL AND lease_until <= ? ORDER BY lease_until, id LIMIT ?");
    q.bind(now, limit);
    while (q.next()) lapsed.push_back({StepId(q.integer(0)), RunId(q.integer(1)), q.integer(2) != 0});
  }
  std::vector<StepId> again;
  for (const Lapsed& one : lapsed) {
    if (alive(one.step)) {
      db::Query(tx, "UPDATE steps SET lease_until = ?2 WHERE id = ?1").bind(one.step, now + limits::kTaskLeaseMs).run();
    } else if (end_is_written(tx, one.run)) {  // nothing begins, nobody is asked: what cannot be known is listed
      give_up(tx, one.step, one.sure ? StepStatus::cancelled : StepStatus::needs_reconcile, now);
      append_event(tx, now, one.sure ? "step.lapsed" : "step.needs_reconcile", one.run, one.step);
      ring(ripples, one.run, wake_run(tx, one.run, now));
    } else if (one.sure || BIDE_PLANTED(lapsed_is_repeated)) {
      db::Query(tx,
                "UPDATE steps SET status = 'pending', not_before = ?2, owner = NULL, lease_until = NULL, updated_at = "
                "?2 WHERE id = ?1 AND status = 'started'")
          .bind(one.step, now)
          .run();
      append_event(tx, now, "step.lapsed", one.run, one.step);
      again.push_back(one.step);
    } else {
      ask(tx, one.run, one.step, now, ripples);
    }
  }
  return again;
}

void keep_task_leases(db::Tx& tx, TimeMs now) {
  db::Query(tx, "UPDATE steps SET lease_until = ?1 WHERE status = 'started' AND lease_until IS NOT NULL")
      .bind(now + limits::kTaskLeaseMs)
      .run();
}

#define BIDE_UNDISPATCHED                                                                                              \
  "FROM steps s INDEXED BY steps_undispatched JOIN runs r ON r.id = s.run_id WHERE s.status = 'pending' AND s.kind = " \
  "'task' AND s.not_before <= "                                                                                        \
  "?1 - ?2 AND r.status IN ('waiting', 'queued') AND r.paused_at IS NULL AND r.cancel_requested_at IS NULL AND "       \
  "r.error IS NULL AND (r.redrive_at IS NULL OR r.redrive_at <= ?1) "

bool relay_due(db::ReadTx& tx, TimeMs now) {
  db::Query q(tx, "SELECT 1 " BIDE_UNDISPATCHED "LIMIT 1");
  return q.bind(now, limits::kTaskRelayMs).next();
}

bool relay_due(db::ReadTx& tx, RunId run, TimeMs now) {
  db::Query q(tx, "SELECT 1 " BIDE_UNDISPATCHED "AND s.run_id = ?3 LIMIT 1");
  return q.bind(now, limits::kTaskRelayMs, run).next();
}

std::vector<StepId> relay_tasks(db::Tx& tx, int limit, TimeMs now) {
  std::vector<std::pair<RunId, StepId>> due;
  {
    db::Query q(tx, "SELECT s.run_id, min(s.id) " BIDE_UNDISPATCHED
                    "GROUP BY s.run_id ORDER BY min(s.not_before), s.run_id LIMIT ?3");
    q.bind(now, limits::kTaskRelayMs, limit);
    while (q.next()) due.emplace_back(RunId(q.integer(0)), StepId(q.integer(1)));
  }
  std::vector<StepId> steps;
  for (const auto& [run, step] : due) {
    db::Query(tx,
              "UPDATE runs SET redrive_delay = min(coalesce(redrive_delay * 2, ?3), ?4), redrive_at = ?2 + "
              "min(coalesce(redrive_delay * 2, ?3), ?4) WHERE id = ?1")
        .bind(run, now, limits::kRedriveFirstMs, limits::kRedriveMaxMs)
        .run();
    append_event(tx, now, "step.offered_again", run, step);
    steps.push_back(step);
  }
  return steps;
}

bool reopen_task(db::Tx& tx, const Fence& fence, StepId step, TimeMs now) {
  if (!holds(tx, fence)) return false;
  const int changed = db::Query(tx,
                                "UPDATE steps SET status = 'pending', not_before = ?2, updated_at = ?2 WHERE id = ?1 "
                                "AND kind = 'task' AND status = 'needs_reconcile'")
                          .bind(step, now)
                          .run();
  if (changed != 1) throw Bug("reopen_task: the task was not in doubt");
  return true;
}

}  // namespace bide::kernel
