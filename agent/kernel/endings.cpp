#include "agent/kernel/endings.h"

#include <algorithm>

#include "agent/base/json.h"
#include "agent/base/planted.h"
#include "agent/kernel/children.h"
#include "agent/kernel/continue.h"
#include "agent/kernel/events.h"
#include "agent/kernel/processes.h"
#include "agent/kernel/tasks_at_work.h"

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
  for (const StepId task : awaited.tasks) {
    db::Query q(tx, "SELECT 1 FROM steps WHERE id = ? AND status IN ('pending', 'started')");
    q.bind(task);
    if (!q.next()) outlook.settled = true;
  }
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

std::string outcome_payload(const char* member, std::string_view raw) {
  return json::Writer().begin_object().member_raw(member, raw).end_object().take();
}

}  // namespace

void close_open_steps(db::Tx& tx, RunId run, TimeMs now) {
  db::Query(tx,
            "UPDATE steps SET updated_at = ?2, status = CASE WHEN status = 'started' AND effect = 'non_idempotent' AND "
            "kind IN ('step', 'task') THEN 'needs_reconcile' ELSE 'cancelled' END "
            "WHERE run_id = ?1 AND status IN ('pending', 'started')")
      .bind(run, now)
      .run();
  retire_holders(tx, run);
}

SuspendOutcome suspend_run(db::Tx& tx, const Fence& fence, const Awaited& awaited, TimeMs now, bool undoing) {
  db::Query q(
      tx,
      "SELECT cancel_requested_at, error FROM runs WHERE id = ? AND status = 'running' AND epoch = ? AND owner = ?");
  q.bind(fence.run, fence.epoch, fence.owner);
  if (!q.next()) return LeaseLost{};
  if (!undoing && (!q.null(0) || !q.null(1))) return GoOn{};
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

Finished finish_run(db::Tx& tx, const Fence& fence, const Finish& finish, TimeMs now, Ripples* ripples) {
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
  const RunStatus to = cancelled ? RunStatus::cancelled : error ? RunStatus::failed : RunStatus::completed;
  const bool done = to == RunStatus::completed;
  const bool undoing = !done && has_compensations(tx, fence.run);
  const bool at_work = to == RunStatus::failed && task_at_work(tx, fence.run);
  if (!undoing || !undo_began(tx, fence.run)) {  // what ~undo waits for stays
    cancel_waits(tx, fence.run, now);
    at_work ? close_all_but_tasks_at_work(tx, fence.run, now) : close_open_steps(tx, fence.run, now);
    if (!done) end_children(tx, fence.run, now, ripples);
  }
  if (at_work) {
    (void)record_error(tx, fence, *error, now);
    wait_for_tasks(tx, fence.run, now);
    return Finished::queued_again;
  }
  if (undoing) {
    if (!cancelled) (void)record_error(tx, fence, *error, now);
    return Finished::compensate;
  }
  std::string result = finish.result.value_or("null");
  if (done && finish.continue_as_new) result = continue_run(tx, fence.run, *finish.continue_as_new, now, ripples);
  const int changed =
      db::Query(
          tx,
          "UPDATE runs SET status = ?2, owner = NULL, lease_until = NULL, reason = NULL, result = ?3, error = ?4, "
          "finished_at = ?5, redrive_at = NULL, redrive_delay = NULL WHERE id = ?1 AND status = 'running'")
          .bind(fence.run, to, done ? std::optional(result) : std::nullopt,
                to == RunStatus::failed ? error : std::nullopt, now)
          .run();
  if (changed != 1) throw Bug("finish_run: the row changed under the writer");
  if (done) {
    append_event(tx, now, "run.completed", fence.run, StepId());
  } else if (to == RunStatus::failed) {
    append_event(tx, now, "run.failed", fence.run, StepId(), outcome_payload("error", *error));
  } else {
    append_event(tx, now, "run.cancelled", fence.run, StepId());
  }
  tell_parent(tx, fence.run, now, ripples);
  return done ? Finished::completed : to == RunStatus::failed ? Finished::failed : Finished::cancelled;
}

void fail_queued(db::Tx& tx, RunId run, std::string_view error, TimeMs now, Ripples* ripples) {
  cancel_waits(tx, run, now);
  close_open_steps(tx, run, now);
  end_children(tx, run, now, ripples);
  const int changed =
      db::Query(tx,
                "UPDATE runs SET status = 'failed', error = ?2, finished_at = ?3, reason = NULL, redrive_at = NULL, "
                "redrive_delay = NULL WHERE id = ?1 AND status = 'queued'")
          .bind(run, error, now)
          .run();
  if (changed != 1) throw Bug("fail_queued: the run was not queued");
  append_event(tx, now, "run.failed", run, StepId(), outcome_payload("error", error));
  tell_parent(tx, run, now, ripples);
}

int cancel_waits(db::Tx& tx, RunId run, TimeMs now) {
  if (BIDE_PLANTED(waits_left_open)) return 0;
  return db::Query(tx,
                   "UPDATE waits SET status = 'cancelled', resolved_at = ?2 WHERE run_id = ?1 AND status = 'pending'")
      .bind(run, now)
      .run();
}

namespace {

void end_cancelled_alone(db::Tx& tx, RunId run, TimeMs now, Ripples* ripples) {
  const int changed =
      db::Query(tx,
                "UPDATE runs SET status = 'cancelled', owner = NULL, finished_at = ?2, reason = NULL, error = NULL, "
                "paused_at = NULL, redrive_at = NULL, redrive_delay = NULL "
                "WHERE id = ?1 AND status IN ('queued', 'waiting')")
          .bind(run, now)
          .run();
  if (changed != 1) throw Bug("end_cancelled: the run was neither queued nor waiting");
  append_event(tx, now, "run.cancelled", run, StepId());
  tell_parent(tx, run, now, ripples);
}

void ask_cancel(db::Tx& tx, RunId run, std::string_view by, std::string_view reason, TimeMs now) {
  json::Writer w;
  w.begin_object().member("by", std::string(by)).member("reason", std::string(reason)).end_object();
  append_event(tx, now, "control.cancel", run, StepId(), w.text());
  db::Query(tx,
            "UPDATE runs SET cancel_requested_at = coalesce(cancel_requested_at, ?2), cancel_reason = "
            "coalesce(cancel_reason, ?3), "
            "paused_at = NULL, run_at = CASE status WHEN 'running' THEN run_at ELSE ?2 END WHERE id = ?1")
      .bind(run, now, reason)
      .run();
  if (!undo_began(tx, run)) cancel_waits(tx, run, now);
}

}  // namespace

void end_cancelled(db::Tx& tx, RunId run, TimeMs now, Ripples* ripples) {
  cancel_waits(tx, run, now);
  close_open_steps(tx, run, now);
  end_children(tx, run, now, ripples);
  end_cancelled_alone(tx, run, now, ripples);
}

namespace {

// What would be taken back now, if the operator had not said otherwise.
std::vector<Compensation> skip_compensations(db::Tx& tx, RunId run) {
  auto left = open_compensations(tx, run);
  db::Query(tx, "UPDATE runs SET skip_compensation = 1 WHERE id = ?").bind(run).run();
  return left;
}

}  // namespace

bool end_flagged(db::Tx& tx, RunId run, TimeMs now, Ripples* ripples) {
  if (!has_compensations(tx, run)) {
    end_cancelled(tx, run, now, ripples);
    return true;
  }
  // E6: its code is not entered again. Whatever ~undo waits for is left as it is.
  if (!undo_began(tx, run)) {
    cancel_waits(tx, run, now);
    close_open_steps(tx, run, now);
    end_children(tx, run, now, ripples);
  }
  (void)wake_run(tx, run, now);
  if (ripples != nullptr) ripples->queued = true;
  return false;
}

CancelOutcome cancel_run(db::Tx& tx, RunId run, std::string_view by, std::string_view reason, TimeMs now,
                         Ripples* ripples) {
  return cancel_run(tx, run, CancelAsk{std::string(by), std::string(reason), false}, now, ripples);
}

CancelOutcome cancel_run(db::Tx& tx, RunId run, const CancelAsk& ask, TimeMs now, Ripples* ripples) {
  const auto row = read_run(tx, run);
  if (!row) return NoSuchRun{};
  if (terminal(row->status)) return AlreadyEnded{row->status};
  ask_cancel(tx, run, ask.by, ask.reason, now);
  CancelEnded ended;
  if (ask.without_compensation) ended.left = skip_compensations(tx, run);
  if (row->status == RunStatus::running) return CancelTold{};
  if (!end_flagged(tx, run, now, ripples)) return CancelCompensates{};
  return ended;
}

void cancel_alone(db::Tx& tx, RunId run, std::string_view by, std::string_view reason, TimeMs now, Ripples* ripples) {
  const auto row = read_run(tx, run);
  if (!row || terminal(row->status)) return;
  if (row->cancel_requested_at) return;  // told before: when its parent's end was written, and now that it has ended
  ask_cancel(tx, run, by, reason, now);
  if (row->status == RunStatus::running) {
    if (ripples != nullptr) ripples->told.push_back(run);
    return;
  }
  if (has_compensations(tx, run)) {
    (void)end_flagged(tx, run, now, ripples);
    return;
  }
  close_open_steps(tx, run, now);
  end_cancelled_alone(tx, run, now, ripples);
}

}  // namespace bide::kernel
