#include "agent/kernel/children.h"

#include <algorithm>

#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/planted.h"
#include "agent/kernel/endings.h"
#include "agent/kernel/events.h"
#include "agent/kernel/judge.h"
#include "agent/kernel/steps.h"
#include "agent/kernel/usage.h"
#include "agent/kernel/waits.h"

namespace bide::kernel {
namespace {

std::string uid_of(std::string_view key) { return to_hex(sha256("child:" + std::string(key))).substr(0, 32); }

std::string wait_payload(RunId child, std::string_view workflow) {
  return json::Writer()
      .begin_object()
      .member("run", child.value)
      .member("workflow", std::string(workflow))
      .end_object()
      .take();
}

RunId start_child(db::Tx& tx, const RunRow& parent, StepId step, const ChildAsk& ask, TimeMs now) {
  StartRun start;
  start.workflow = ask.workflow;
  start.version = ask.version;
  start.uid = uid_of(ask.key);
  start.input = ask.input;
  start.created_by = parent.created_by;
  start.mission = parent.mission;
  start.priority = parent.priority;
  start.parent = ParentLink{step, ask.key};
  start.deadline = ask.deadline;
  const auto outcome = start_run(tx, start, now);
  if (const auto* started = std::get_if<RunStarted>(&outcome)) return started->run;
  if (const auto* there = std::get_if<RunExists>(&outcome)) return there->run;
  throw Bug("start_child: the step's key is that of a run with another input");
}

// What the parent's code sees of a child that did not complete: its code and words, and which run it was.
std::string failure_of(const RunRow& child) {
  json::Writer w;
  w.begin_object();
  if (child.status == RunStatus::cancelled) {
    const std::string why = child.cancel_reason.value_or("");
    w.member("code", "Cancelled")
        .member("message", "Child run " + std::to_string(child.id.value) + " was cancelled" +
                               (why.empty() ? "." : ": " + why + "."));
  } else {
    const std::string error = child.error.value_or("{}");
    w.member("code", json::string_member(error, "code").value_or("ChildFailed"));
    w.member("message", json::string_member(error, "message").value_or("The child failed."));
  }
  return w.member("child", child.id.value).end_object().take();
}

struct Parent {
  StepId step;
  RunId run;
  StepStatus status = StepStatus::started;
  std::string name;
};
std::optional<Parent> parent_of(db::ReadTx& tx, RunId child) {
  db::Query q(tx,
              "SELECT s.id, s.run_id, s.status, s.name FROM runs r JOIN steps s ON s.id = r.parent_step_id WHERE r.id "
              "= ?");
  q.bind(child);
  if (!q.next()) return std::nullopt;
  return Parent{StepId(q.integer(0)), RunId(q.integer(1)), step_status_from(q.text(2)).value(), q.text(3)};
}

std::vector<RunId> open_children(db::ReadTx& tx, RunId run) {
  std::vector<RunId> children;
  if (BIDE_PLANTED(children_go_on)) return children;
  db::Query q(tx,
              "SELECT c.id FROM steps s JOIN runs c ON c.parent_step_id = s.id WHERE s.run_id = ? AND s.kind = 'child' "
              "AND c.finished_at IS NULL ORDER BY c.id");
  q.bind(run);
  while (q.next()) children.push_back(RunId(q.integer(0)));
  return children;
}

}  // namespace

ChildOutcome open_child(db::Tx& tx, const Fence& fence, const ChildAsk& ask, bool reset_recoveries, TimeMs now) {
  ChildOpened opened;
  opened.step = ask.known;
  if (ask.known.valid()) {
    if (!holds(tx, fence)) return LeaseLost{};
  } else {
    const auto intent = write_intent(tx, fence, ask.intent, reset_recoveries, now);
    if (std::holds_alternative<LeaseLost>(intent)) return LeaseLost{};
    opened.step = std::get<StepId>(intent);
  }
  opened.child = start_child(tx, read_run(tx, fence.run).value(), opened.step, ask, now);
  opened.wait = add_wait(tx, fence.run, opened.step, WaitKind::child, ask.intent.name,
                         wait_payload(opened.child, ask.workflow_name), std::nullopt, now);
  return opened;
}

void wait_for_child(db::Tx& tx, RunId parent, StepId step, RunId child, TimeMs now) {
  const auto row = read_run(tx, child).value();
  const auto entry = read_step(tx, step).value();
  (void)add_wait(tx, parent, step, WaitKind::child, entry.name, wait_payload(child, row.workflow_name), std::nullopt,
                 now);
}

RunId restart_child(db::Tx& tx, RunId parent, StepId step, TimeMs now) {
  std::int64_t times = 0;
  RunId last;
  {
    db::Query q(tx, "SELECT count(*), max(id) FROM runs WHERE parent_step_id = ?");
    q.bind(step).one();
    times = q.integer(0);
    last = RunId(q.maybe_integer(1).value_or(0));
  }
  const auto old = read_run(tx, last);
  const auto row = read_step(tx, step);
  const auto of = read_run(tx, parent);
  if (!old || !row || !of) throw Bug("restart_child: the step has no child");
  ChildAsk ask;
  ask.workflow = old->workflow;
  ask.version = old->version;
  ask.workflow_name = old->workflow_name;
  ask.input = old->input;
  ask.key = idempotency_key(of->uid, row->position, row->name, row->request_hash) + ":" + std::to_string(times + 1);
  ask.deadline = old->deadline;
  const RunId child = start_child(tx, *of, step, ask, now);
  wait_for_child(tx, parent, step, child, now);
  return child;
}

bool tell_parent(db::Tx& tx, RunId child, TimeMs now, Ripples* ripples) {
  const auto parent = parent_of(tx, child);
  if (!parent || parent->status != StepStatus::started || BIDE_PLANTED(child_tells_nobody)) return false;
  // Bound to exactly that child: after a retry the step may wait for another one. The wait may be cancelled: the
  // parent's end is written, and what executes is let finish and recorded all the same [P1].
  const auto wait = latest_wait(tx, parent->step);
  const bool open = wait && (wait->status == WaitStatus::pending || wait->status == WaitStatus::cancelled);
  if (!open || json::int_member(wait->payload, "run") != child.value) return false;
  const auto row = read_run(tx, child);
  const bool completed = row->status == RunStatus::completed;
  json::Writer w;
  w.begin_object().member("name", parent->name).member("kind", "child").member("child", child.value).end_object();
  const EventId event =
      append_event(tx, now, completed ? "step.completed" : "step.failed", parent->run, parent->step, w.text());
  std::optional<std::string> usage;
  if (const Usage sum = run_usage(tx, child); !sum.empty()) usage = to_json(sum);
  std::optional<std::string> result;
  std::optional<std::string> error;
  (completed ? result : error) = completed ? row->result.value_or("null") : failure_of(*row);
  const int changed =
      db::Query(tx,
                "UPDATE steps SET status = ?2, result = ?3, error = ?4, settled_no = ?5, updated_at = ?6, usage = ?7 "
                "WHERE id = ?1 AND status = 'started'")
          .bind(parent->step, completed ? StepStatus::completed : StepStatus::failed, result, error, event, now, usage)
          .run();
  if (changed != 1) throw Bug("tell_parent: the row changed under the writer");
  reset_recoveries_of(tx, parent->run);  // K6
  if (wait->status == WaitStatus::pending) {
    store_resolution(tx, wait->id,
                     json::Writer()
                         .begin_object()
                         .member("child", child.value)
                         .member("status", std::string(to_text(row->status)))
                         .end_object()
                         .text(),
                     std::nullopt, now);
  }
  const Woke woke = wake_run(tx, parent->run, now);
  if (ripples != nullptr && woke == Woke::queued) ripples->queued = true;
  if (ripples != nullptr && woke == Woke::ring_attempt) ripples->changed.push_back(parent->run);
  return true;
}

void hand_over_child(db::Tx& tx, RunId child, RunId successor) {
  const auto parent = parent_of(tx, child);
  if (!parent) return;
  db::Query(tx, "UPDATE runs SET parent_step_id = ?2 WHERE id = ?1").bind(successor, parent->step).run();
  db::Query(tx, "UPDATE runs SET parent_step_id = NULL WHERE id = ?").bind(child).run();
  const auto wait = latest_wait(tx, parent->step);
  if (!wait || wait->status != WaitStatus::pending) return;
  db::Query(tx, "UPDATE waits SET payload = ?2 WHERE id = ?1")
      .bind(wait->id, wait_payload(successor, json::string_member(wait->payload, "workflow").value_or("")))
      .run();
}

void end_children(db::Tx& tx, RunId run, TimeMs now, Ripples* ripples) {
  std::vector<RunId> all = open_children(tx, run);  // breadth first: the deepest stand last
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto below = open_children(tx, all[i]);
    all.insert(all.end(), below.begin(), below.end());
  }
  // Their steps are closed from the top down before they end from the bottom up: a child that ends with its parent
  // tells it nothing.
  for (const RunId child : all) {
    // One that was cancelled before may be taking back what it did: those steps are not closed.
    const auto row = read_run(tx, child);
    if (row->status == RunStatus::running || row->cancel_requested_at) continue;
    cancel_waits(tx, child, now);
    close_open_steps(tx, child, now);
  }
  std::reverse(all.begin(), all.end());
  const std::string by = "run:" + std::to_string(run.value);
  for (const RunId child : all) cancel_alone(tx, child, by, "the run that started it has ended", now, ripples);
}

LinkedPage ended_children(db::ReadTx& tx, StepId after, int limit) {
  LinkedPage page;
  db::Query q(tx, "SELECT id FROM steps WHERE status = 'started' AND kind = 'child' AND id > ? ORDER BY id LIMIT ?");
  q.bind(after, limit);
  int seen = 0;
  StepId last;
  while (q.next()) {
    ++seen;
    last = StepId(q.integer(0));
    db::Query c(tx, "SELECT id FROM runs WHERE parent_step_id = ? ORDER BY id DESC LIMIT 1");
    c.bind(last);
    if (!c.next()) continue;
    const RunId child(c.integer(0));
    const auto row = read_run(tx, child);
    if (row && terminal(row->status)) page.ended.push_back(child);
  }
  if (seen == limit) page.last = last;
  return page;
}

}  // namespace bide::kernel
