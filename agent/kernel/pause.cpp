#include "agent/kernel/pause.h"

#include "agent/base/json.h"
#include "agent/base/planted.h"
#include "agent/kernel/children.h"
#include "agent/kernel/endings.h"
#include "agent/kernel/events.h"
#include "agent/kernel/tasks_at_work.h"

namespace bide::kernel {
namespace {

std::string told_by(std::string_view by) {
  return json::Writer().begin_object().member("by", std::string(by)).end_object().take();
}

std::variant<RunRow, Problem> live_run(db::ReadTx& tx, RunId run) {
  auto row = read_run(tx, run);
  const std::string number = std::to_string(run.value);
  if (!row) return problem("run_not_found", "There is no run " + number + ".", "bide runs");
  if (terminal(row->status))
    return problem("run_ended", "Run " + number + " has ended: " + std::string(to_text(row->status)) + ".");
  return *row;
}

std::string timeout_error(TimeMs deadline) {
  return json::Writer()
      .begin_object()
      .member("code", "Timeout")
      .member("message", "The run was not done at its deadline, " + format_time(deadline) + ".")
      .end_object()
      .take();
}

void end_late(db::Tx& tx, const RunRow& row, TimeMs deadline, TimeMs now, Ripples* ripples) {
  const std::string error = timeout_error(deadline);
  const bool running = row.status == RunStatus::running;
  // Its next claim lets finish what somebody is at, and takes back what was done [E6, P1].
  const bool at_work = task_at_work(tx, row.id);
  const bool claimed_first = at_work || has_compensations(tx, row.id);
  if (running || claimed_first) {
    db::Query(tx, "UPDATE runs SET error = ?2 WHERE id = ?1 AND error IS NULL").bind(row.id, error).run();
    append_event(tx, now, "run.ending", row.id, StepId(),
                 json::Writer().begin_object().member_raw("error", error).end_object().text());
  }
  if (running) {
    if (ripples != nullptr) ripples->told.push_back(row.id);
    return;
  }
  db::Query(tx, "UPDATE runs SET paused_at = NULL WHERE id = ?").bind(row.id).run();
  (void)wake_run(tx, row.id, now);
  if (ripples != nullptr) ripples->queued = true;
  if (!claimed_first) return fail_queued(tx, row.id, error, now, ripples);
  cancel_waits(tx, row.id, now);
  at_work ? close_all_but_tasks_at_work(tx, row.id, now) : close_open_steps(tx, row.id, now);
  end_children(tx, row.id, now, ripples);
}

}  // namespace

PauseOutcome pause_run(db::Tx& tx, RunId run, std::string_view by, TimeMs now) {
  const auto found = live_run(tx, run);
  if (const auto* refused = std::get_if<Problem>(&found)) return *refused;
  const auto& row = std::get<RunRow>(found);
  if (row.paused_at) return PauseSame{};
  // Cancelled runs are claimed first and outside of all limits [K1]: a pause could only be met by handing back, again
  // and again.
  if (row.cancel_requested_at) {
    const std::string number = std::to_string(run.value);
    return problem("run_cancelling", "Run " + number + " is being cancelled; what it did is being taken back.",
                   "bide explain " + number);
  }
  if (!BIDE_PLANTED(pause_forgotten))
    db::Query(tx, "UPDATE runs SET paused_at = ?2 WHERE id = ?1").bind(run, now).run();
  append_event(tx, now, "control.pause", run, StepId(), told_by(by));
  return PauseChanged{row.status == RunStatus::running};
}

PauseOutcome resume_run(db::Tx& tx, RunId run, std::string_view by, TimeMs now) {
  const auto found = live_run(tx, run);
  if (const auto* refused = std::get_if<Problem>(&found)) return *refused;
  const auto& row = std::get<RunRow>(found);
  if (!row.paused_at) return PauseSame{};
  db::Query(tx,
            "UPDATE runs SET paused_at = NULL, reason = CASE reason WHEN 'restored' THEN NULL ELSE reason END "
            "WHERE id = ?")
      .bind(run)
      .run();
  append_event(tx, now, "control.resume", run, StepId(), told_by(by));
  return PauseChanged{row.status == RunStatus::running};
}

#define BIDE_LATE                                                                                                 \
  "FROM runs WHERE deadline_at IS NOT NULL AND finished_at IS NULL AND error IS NULL AND cancel_requested_at IS " \
  "NULL AND deadline_at <= ? "

bool deadline_due(db::ReadTx& tx, TimeMs now) {
  db::Query q(tx, "SELECT 1 " BIDE_LATE "LIMIT 1");
  return q.bind(now).next();
}

int enforce_deadlines(db::Tx& tx, int limit, TimeMs now, Ripples* ripples) {
  std::vector<std::pair<RunId, TimeMs>> late;
  {
    db::Query q(tx, "SELECT id, deadline_at " BIDE_LATE "ORDER BY deadline_at, id LIMIT ?");
    q.bind(now, limit);
    while (q.next()) late.emplace_back(RunId(q.integer(0)), q.integer(1));
  }
  for (const auto& [run, deadline] : late) {
    const auto row = read_run(tx, run);
    // One that ended with another of them in this pass is not late any more.
    if (row && !terminal(row->status)) end_late(tx, *row, deadline, now, ripples);
  }
  return static_cast<int>(late.size());
}

}  // namespace bide::kernel
