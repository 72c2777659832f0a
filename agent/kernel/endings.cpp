#include "agent/kernel/endings.h"

#include <algorithm>

#include "agent/base/json.h"
#include "agent/base/planted.h"
#include "agent/kernel/events.h"

namespace bide::kernel {
namespace {

// What a run that wants to be suspended waits for: whether an answer, a due timer or a due retry is there, and when
// time brings the first of them.
struct Outlook {
  bool settled = false;
  std::optional<TimeMs> wakes_at;

  void at(TimeMs due, TimeMs now) {
    if (due <= now) settled = true;
    wakes_at = wakes_at ? std::min(*wakes_at, due) : due;
  }
};

Outlook look_at(db::ReadTx& tx, const Awaited& awaited, TimeMs now) {
  Outlook outlook;
  for (const WaitId wait : awaited.waits) {
    db::Query q(tx, "SELECT status, kind, resolve_by FROM waits WHERE id = ?");
    q.bind(wait);
    if (!q.next() || q.text(0) != "pending") {
      outlook.settled = true;
    } else if (const auto deadline = q.maybe_integer(2); deadline && q.text(1) == "timer") {
      outlook.at(*deadline, now);
    }
  }
  for (const StepId step : awaited.retries) {
    db::Query q(tx, "SELECT status, not_before FROM steps WHERE id = ?");
    q.bind(step);
    if (!q.next() || q.text(0) != "pending") {
      outlook.settled = true;
    } else {
      outlook.at(q.integer(1), now);
    }
  }
  return outlook;
}

void close_open_steps(db::Tx& tx, RunId run, TimeMs now) {
  db::Query(tx,
            "UPDATE steps SET updated_at = ?2, status = CASE WHEN status = 'started' AND effect = 'non_idempotent' AND "
            "kind IN ('step', 'task') THEN 'needs_reconcile' ELSE 'cancelled' END "
            "WHERE run_id = ?1 AND status IN ('pending', 'started')")
      .bind(run, now)
      .run();
}

std::string outcome_payload(const char* member, std::string_view raw) {
  return json::Writer().begin_object().member_raw(member, raw).end_object().take();
}

}  // namespace

SuspendOutcome suspend_run(db::Tx& tx, const Fence& fence, const Awaited& awaited, TimeMs now) {
  db::Query q(
      tx,
      "SELECT cancel_requested_at, error FROM runs WHERE id = ? AND status = 'running' AND epoch = ? AND owner = ?");
  q.bind(fence.run, fence.epoch, fence.owner);
  if (!q.next()) return LeaseLost{};
  if (!q.null(0) || !q.null(1)) return GoOn{};
  const Outlook outlook = look_at(tx, awaited, now);
  if (outlook.settled && !BIDE_PLANTED(answer_dropped_before_wait)) return GoOn{};
  const auto at = BIDE_PLANTED(timer_not_armed) ? std::nullopt : outlook.wakes_at;
  const int changed =
      db::Query(tx,
                "UPDATE runs SET status = ?2, run_at = coalesce(?3, run_at), owner = NULL, lease_until = NULL, "
                "recoveries = 0 WHERE id = ?1 AND status = 'running'")
          .bind(fence.run, at ? RunStatus::queued : RunStatus::waiting, at)
          .run();
  if (changed != 1) throw Bug("suspend_run: the row changed under the writer");
  append_event(tx, now, "run.suspended", fence.run, StepId());
  return Suspended{at};
}

OnceMore queue_once_more(db::Tx& tx, const Fence& fence, TimeMs now) {
  if (!holds(tx, fence)) return OnceMore::lease_lost;
  const int changed =
      db::Query(
          tx,
          "UPDATE runs SET status = 'queued', owner = NULL, lease_until = NULL, open_steps_again = 1, run_at = ?2 "
          "WHERE id = ?1 AND open_steps_again = 0")
          .bind(fence.run, now)
          .run();
  if (changed != 1) return OnceMore::spent;
  append_event(tx, now, "run.open_steps", fence.run, StepId());
  return OnceMore::queued;
}

bool record_error(db::Tx& tx, const Fence& fence, std::string_view error, TimeMs now) {
  if (!holds(tx, fence)) return false;
  const int changed =
      db::Query(tx, "UPDATE runs SET error = ?2 WHERE id = ?1 AND error IS NULL").bind(fence.run, error).run();
  if (changed != 1) return true;
  append_event(tx, now, "run.ending", fence.run, StepId(), outcome_payload("error", error));
  cancel_waits(tx, fence.run, now);
  db::Query(tx,
            "UPDATE steps SET status = 'cancelled', not_before = NULL, updated_at = ?2 WHERE run_id = ?1 AND status = "
            "'pending'")
      .bind(fence.run, now)
      .run();
  return true;
}

Finished finish_run(db::Tx& tx, const Fence& fence, const Finish& finish, TimeMs now) {
  std::optional<std::string> error = finish.error;
  bool cancelled = false;
  {
    db::Query q(
        tx,
        "SELECT cancel_requested_at, error FROM runs WHERE id = ? AND status = 'running' AND epoch = ? AND owner = ?");
    q.bind(fence.run, fence.epoch, fence.owner);
    if (!q.next()) return Finished::lease_lost;
    cancelled = !q.null(0) && !BIDE_PLANTED(cancel_forgotten);
    if (!q.null(1)) error = q.text(1);  // the first end that was written stays
  }
  cancel_waits(tx, fence.run, now);
  close_open_steps(tx, fence.run, now);
  const RunStatus to = cancelled ? RunStatus::cancelled : error ? RunStatus::failed : RunStatus::completed;
  const bool done = to == RunStatus::completed;
  const int changed =
      db::Query(
          tx,
          "UPDATE runs SET status = ?2, owner = NULL, lease_until = NULL, reason = NULL, result = ?3, error = ?4, "
          "finished_at = ?5, redrive_at = NULL, redrive_delay = NULL WHERE id = ?1 AND status = 'running'")
          .bind(fence.run, to, done ? std::optional(finish.result.value_or("null")) : std::nullopt,
                to == RunStatus::failed ? error : std::nullopt, now)
          .run();
  if (changed != 1) throw Bug("finish_run: the row changed under the writer");
  if (done) {
    append_event(tx, now, "run.completed", fence.run, StepId());
    return Finished::completed;
  }
  if (to == RunStatus::failed) {
    append_event(tx, now, "run.failed", fence.run, StepId(), outcome_payload("error", *error));
    return Finished::failed;
  }
  append_event(tx, now, "run.cancelled", fence.run, StepId());
  return Finished::cancelled;
}

void fail_queued(db::Tx& tx, RunId run, std::string_view error, TimeMs now) {
  cancel_waits(tx, run, now);
  close_open_steps(tx, run, now);
  const int changed =
      db::Query(tx,
                "UPDATE runs SET status = 'failed', error = ?2, finished_at = ?3, reason = NULL, redrive_at = NULL, "
                "redrive_delay = NULL WHERE id = ?1 AND status = 'queued'")
          .bind(run, error, now)
          .run();
  if (changed != 1) throw Bug("fail_queued: the run was not queued");
  append_event(tx, now, "run.failed", run, StepId(), outcome_payload("error", error));
}

int cancel_waits(db::Tx& tx, RunId run, TimeMs now) {
  if (BIDE_PLANTED(waits_left_open)) return 0;
  return db::Query(tx,
                   "UPDATE waits SET status = 'cancelled', resolved_at = ?2 WHERE run_id = ?1 AND status = 'pending'")
      .bind(run, now)
      .run();
}

void end_cancelled(db::Tx& tx, RunId run, TimeMs now) {
  cancel_waits(tx, run, now);
  close_open_steps(tx, run, now);
  const int changed =
      db::Query(tx,
                "UPDATE runs SET status = 'cancelled', owner = NULL, finished_at = ?2, reason = NULL, error = NULL, "
                "paused_at = NULL, redrive_at = NULL, redrive_delay = NULL "
                "WHERE id = ?1 AND status IN ('queued', 'waiting')")
          .bind(run, now)
          .run();
  if (changed != 1) throw Bug("end_cancelled: the run was neither queued nor waiting");
  append_event(tx, now, "run.cancelled", run, StepId());
}

CancelOutcome cancel_run(db::Tx& tx, RunId run, std::string_view by, std::string_view reason, TimeMs now) {
  const auto row = read_run(tx, run);
  if (!row) return NoSuchRun{};
  if (terminal(row->status)) return AlreadyEnded{row->status};
  json::Writer w;
  w.begin_object().member("by", std::string(by)).member("reason", std::string(reason)).end_object();
  append_event(tx, now, "control.cancel", run, StepId(), w.text());
  db::Query(tx,
            "UPDATE runs SET cancel_requested_at = coalesce(cancel_requested_at, ?2), cancel_reason = "
            "coalesce(cancel_reason, ?3), "
            "paused_at = NULL, run_at = CASE status WHEN 'running' THEN run_at ELSE ?2 END WHERE id = ?1")
      .bind(run, now, reason)
      .run();
  cancel_waits(tx, run, now);
  if (row->status == RunStatus::running) return CancelTold{};
  end_cancelled(tx, run, now);
  return CancelEnded{};
}

}  // namespace bide::kernel
