// X3: an operator's retry of a failed run.
#include <algorithm>

#include "agent/base/json.h"
#include "agent/kernel/children.h"
#include "agent/kernel/endings.h"
#include "agent/kernel/events.h"
#include "agent/kernel/waits.h"

namespace bide::kernel {
namespace {

bool reopen(db::Tx& tx, RunId run, std::string_view by, TimeMs now, Ripples* ripples);

struct Closed {
  StepId id;
  StepKind kind = StepKind::step;
  StepStatus status = StepStatus::cancelled;
};

// The failed step whose error ended the run, those that failed after it, and those that were cancelled by it. A failure
// that the code had taken and gone on from stays: it is replayed [J3].
std::vector<Closed> to_open(db::ReadTx& tx, const RunRow& run) {
  const std::string error = run.error.value_or("{}");
  const auto same = [&](const std::string& other) {
    return json::string_member(other, "code") == json::string_member(error, "code") &&
           json::string_member(other, "message") == json::string_member(error, "message");
  };
  std::vector<Closed> open;
  std::vector<Closed> failed;  // the latest first
  bool found = false;
  {
    db::Query q(tx,
                "SELECT id, kind, error FROM steps WHERE run_id = ? AND status = 'failed' ORDER BY settled_no DESC, id "
                "DESC");
    q.bind(run.id);
    while (q.next() && !found) {
      failed.push_back({StepId(q.integer(0)), step_kind_from(q.text(1)).value(), StepStatus::failed});
      found = same(q.text(2));
    }
  }
  if (found) open = std::move(failed);
  db::Query q(tx, "SELECT id, kind FROM steps WHERE run_id = ? AND status = 'cancelled' ORDER BY seq");
  q.bind(run.id);
  while (q.next()) open.push_back({StepId(q.integer(0)), step_kind_from(q.text(1)).value(), StepStatus::cancelled});
  return open;
}

// Waits that were closed by the run's end are asked anew: the same question, no deadline that has passed already.
void reopen_waits(db::Tx& tx, RunId run, StepId step, TimeMs now) {
  std::vector<WaitRow> closed;  // of a group: several, one a name
  {
    std::vector<WaitId> ids;
    db::Query q(tx, "SELECT max(id) FROM waits WHERE step_id = ? GROUP BY name ORDER BY min(id)");
    q.bind(step);
    while (q.next()) ids.push_back(WaitId(q.integer(0)));
    for (const WaitId id : ids) closed.push_back(read_wait(tx, id).value());
  }
  // An answer that nobody has read yet is not asked for again.
  if (!std::all_of(closed.begin(), closed.end(), [](const auto& w) { return w.status == WaitStatus::cancelled; }))
    return;
  std::vector<WaitId> opened;
  for (const WaitRow& wait : closed) {
    std::optional<TimeMs> deadline = wait.resolve_by;
    if (deadline && wait.kind != WaitKind::timer) deadline = now + (*deadline - wait.created_at);
    opened.push_back(add_wait(tx, run, step, wait.kind, wait.name, wait.payload, deadline, now));
  }
  // A signal that came while nobody waited is the next one to be read [A9].
  for (std::size_t i = 0; i < opened.size(); ++i) {
    if (answered_early(tx, run, step, opened[i], closed[i].kind, closed[i].name, now)) return;
  }
}

// A failed child is retried with its parent; what one has completed stays; one that cannot go on is begun anew. One
// that could not be started is left to the attempt, which looks for its workflow again.
void reopen_child(db::Tx& tx, RunId run, StepId step, std::string_view by, TimeMs now, Ripples* ripples) {
  RunId child;
  {
    db::Query q(tx, "SELECT id FROM runs WHERE parent_step_id = ? ORDER BY id DESC LIMIT 1");
    q.bind(step);
    if (q.next()) child = RunId(q.integer(0));
  }
  if (!child.valid()) return;
  const auto row = read_run(tx, child);
  if (row && row->status == RunStatus::completed) {
    wait_for_child(tx, run, step, child, now);
    (void)tell_parent(tx, child, now, ripples);
  } else if (reopen(tx, child, by, now, ripples)) {
    wait_for_child(tx, run, step, child, now);
  } else {
    (void)restart_child(tx, run, step, now);
  }
}

void open_step(db::Tx& tx, RunId run, const Closed& step, std::string_view by, TimeMs now, Ripples* ripples) {
  if (step.kind == StepKind::step || step.kind == StepKind::task) {
    db::Query(tx,
              "UPDATE steps SET status = 'pending', not_before = ?2, failures = 0, error = NULL, settled_no = NULL, "
              "updated_at = ?2 WHERE id = ?1 AND status IN ('failed', 'cancelled')")
        .bind(step.id, now)
        .run();
    return;
  }
  db::Query(tx,
            "UPDATE steps SET status = 'started', error = NULL, settled_no = NULL, updated_at = ?2 WHERE id = ?1 AND "
            "status IN ('failed', 'cancelled')")
      .bind(step.id, now)
      .run();
  if (step.kind == StepKind::child) {
    reopen_child(tx, run, step.id, by, now, ripples);
  } else {
    reopen_waits(tx, run, step.id, now);
  }
}

// Of the whole family.
std::optional<RunId> ending_child(db::ReadTx& tx, RunId run) {
  db::Query q(
      tx,
      "WITH RECURSIVE family (id) AS (VALUES (?1) UNION SELECT c.id FROM family f CROSS JOIN steps s CROSS JOIN "
      "runs c WHERE s.run_id = f.id AND s.kind = 'child' AND c.parent_step_id = s.id) SELECT r.id FROM family "
      "JOIN runs r USING (id) WHERE r.id <> ?1 AND r.finished_at IS NULL ORDER BY r.id LIMIT 1");
  q.bind(run);
  if (!q.next()) return std::nullopt;
  return RunId(q.integer(0));
}

std::optional<Problem> refused(db::ReadTx& tx, const RunRow& run) {
  const std::string number = std::to_string(run.id.value);
  if (run.status != RunStatus::failed) {
    return problem("not_failed", "Only a failed run is retried; this one is " + std::string(to_text(run.status)) + ".",
                   "bide explain " + number);
  }
  if (undo_began(tx, run.id)) {
    return problem("compensated", "What the run did was taken back, or that was begun: it cannot go on from there.",
                   "bide fork " + number + " --from 0");
  }
  if (const auto child = ending_child(tx, run.id)) {
    return problem("child_ending",
                   "Run " + std::to_string(child->value) +
                       ", which it started, was told to end and takes back what it "
                       "did; what is retried would go on beside it.",
                   "bide explain " + std::to_string(child->value));
  }
  const std::string code = json::string_member(run.error.value_or("{}"), "code").value_or("");
  if (code == "Denied" || code == "ChangesRequested" || code == "Expired") {
    return problem("decided", "A decision ended the run (" + code + "), and that stands; a fork asks anew.",
                   "bide journal " + number);
  }
  return std::nullopt;
}

// False: it cannot be retried.
bool reopen(db::Tx& tx, RunId run, std::string_view by, TimeMs now, Ripples* ripples) {
  const auto row = read_run(tx, run);
  if (!row || refused(tx, *row)) return false;
  for (const Closed& step : to_open(tx, *row)) open_step(tx, run, step, by, now, ripples);
  // A step in doubt is asked about again: back to started, so that E1 decides. No attempt meets a task: its lease has
  // ended, and the sweep asks [K8].
  db::Query(tx,
            "UPDATE steps SET status = 'started', lease_until = CASE kind WHEN 'task' THEN ?2 END, updated_at = ?2 "
            "WHERE run_id = ?1 AND status = 'needs_reconcile'")
      .bind(run, now)
      .run();
  db::Query(
      tx,
      "UPDATE runs SET status = 'queued', error = NULL, reason = NULL, run_at = ?2, finished_at = NULL, recoveries "
      "= 0, open_steps_again = 0, paused_at = NULL, deadline_at = ?2 + deadline_ms WHERE id = ?1 AND status = "
      "'failed'")
      .bind(run, now)
      .run();
  append_event(tx, now, "control.retry", run, StepId(),
               json::Writer().begin_object().member("by", std::string(by)).end_object().text());
  if (ripples != nullptr) ripples->queued = true;
  return true;
}

bool parent_told(db::ReadTx& tx, RunId run) {
  db::Query q(tx,
              "SELECT 1 FROM runs r JOIN steps s ON s.id = r.parent_step_id WHERE r.id = ? AND s.status IN "
              "('completed', 'failed', 'cancelled')");
  return q.bind(run).next();
}

}  // namespace

RetryOutcome retry_run(db::Tx& tx, RunId run, std::string_view by, TimeMs now, Ripples* ripples) {
  const auto row = read_run(tx, run);
  if (!row) return problem("run_not_found", "There is no run " + std::to_string(run.value) + ".", "bide runs");
  if (auto problem = refused(tx, *row)) return *problem;
  if (parent_told(tx, run)) {
    return problem("parent_told", "The run that started it knows how it ended; retry that one, and this goes with it.",
                   "bide explain " + std::to_string(run.value));
  }
  (void)reopen(tx, run, by, now, ripples);
  return RunRetried{};
}

}  // namespace bide::kernel
