#include "agent/kernel/claims.h"

#include <optional>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/planted.h"
#include "agent/kernel/endings.h"
#include "agent/kernel/events.h"
#include "agent/kernel/processes.h"
#include "agent/kernel/tasks_at_work.h"
#include "agent/kernel/workflows.h"

namespace bide::kernel {
namespace {

struct Candidate {
  RunId run;
  VersionId pinned;
  VersionId version;  // as which it would run
  bool cancelled = false;
  std::int64_t priority = 0;
  TimeMs run_at = 0;
  std::int64_t epoch = 0;

  [[nodiscard]] bool before(const Candidate& other) const {
    if (cancelled != other.cancelled) return cancelled;
    if (priority != other.priority) return priority > other.priority;
    if (run_at != other.run_at) return run_at < other.run_at;
    return run < other.run;
  }
};

// K6: runs that may be what kills the process are claimed alone among themselves.
bool suspect_runs(db::ReadTx& tx) {
  static_assert(limits::kCrashLoopAlone == 3, "the index runs_suspect holds this number");
  db::Query q(tx, "SELECT 1 FROM runs WHERE status = 'running' AND recoveries >= 3 LIMIT 1");
  return q.next();
}

// Two statements, each a seek: one with "?2 IS NULL OR priority < ?2" would step over every sleeping run.
std::optional<std::int64_t> next_priority(db::ReadTx& tx, VersionId pinned, std::optional<std::int64_t> below) {
  if (!below) {
    db::Query q(
        tx, "SELECT max(priority) FROM runs WHERE status = 'queued' AND paused_at IS NULL AND workflow_version_id = ?");
    return q.bind(pinned).one().maybe_integer(0);
  }
  db::Query q(tx,
              "SELECT max(priority) FROM runs WHERE status = 'queued' AND paused_at IS NULL AND workflow_version_id = "
              "? AND priority < ?");
  return q.bind(pinned, *below).one().maybe_integer(0);
}

// The first due run of a version: one seek a distinct priority. K7: no process of an earlier attempt is left, but for
// the holders of started steps (one that is to end is `stopping`).
std::optional<Candidate> first_due(db::ReadTx& tx, VersionId pinned, VersionId as, bool suspects, TimeMs now) {
  std::optional<std::int64_t> priority;
  for (;;) {
    priority = next_priority(tx, pinned, priority);
    if (!priority) return std::nullopt;
    db::Query q(
        tx,
        "SELECT id, run_at, epoch FROM runs r WHERE status = 'queued' AND paused_at IS NULL AND workflow_version_id = "
        "?1 "
        "AND priority = ?2 AND run_at <= ?3 AND (recoveries < ?4 OR ?5 = 0) AND NOT EXISTS (SELECT 1 FROM processes p "
        "INDEXED BY processes_live "
        "WHERE p.run_id = r.id AND p.status <> 'stopped' AND (p.step_id IS NULL OR p.status = 'stopping')) "
        "ORDER BY run_at, id LIMIT 1");
    q.bind(pinned, *priority, now, limits::kCrashLoopAlone, suspects);
    if (q.next()) return Candidate{RunId(q.integer(0)), pinned, as, false, *priority, q.integer(1), q.integer(2)};
  }
}

std::optional<Candidate> first_cancelled(db::ReadTx& tx, const ClaimRules& rules, TimeMs now) {
  db::Query q(
      tx,
      "SELECT id, run_at, epoch, workflow_version_id FROM runs r WHERE status = 'queued' AND cancel_requested_at IS "
      "NOT NULL "
      "AND run_at <= ?1 AND NOT EXISTS (SELECT 1 FROM processes p INDEXED BY processes_live WHERE p.run_id = r.id AND "
      "p.status <> 'stopped' "
      "AND (p.step_id IS NULL OR p.status = 'stopping')) ORDER BY run_at, id");
  q.bind(now);
  while (q.next()) {
    const VersionId pinned(q.integer(3));
    const VersionId as = rules.known(pinned);
    if (as.valid()) return Candidate{RunId(q.integer(0)), pinned, as, true, 0, q.integer(1), q.integer(2)};
  }
  return std::nullopt;
}

Claimed take(db::Tx& tx, const ClaimRules& rules, const Candidate& best, TimeMs now) {
  const Claimed claimed{best.run, best.epoch + (BIDE_PLANTED(epoch_stands_still) ? 0 : 1), best.version};
  const int changed =
      db::Query(tx,
                "UPDATE runs SET status = 'running', epoch = ?5, owner = ?2, reason = NULL, workflow_version_id = ?3, "
                "started_at = coalesce(started_at, ?4), lease_until = ?7, woken_at = NULL WHERE id = ?1 AND status = "
                "'queued' AND epoch = ?6")
          .bind(best.run, rules.owner, best.version, now, claimed.epoch, best.epoch,
                rules.lease ? std::optional(now + *rules.lease) : std::nullopt)
          .run();
  if (changed != 1) throw Bug("claim_next: the row changed under the writer");
  if (best.pinned != best.version) append_event(tx, now, "run.moved", best.run, StepId());
  append_event(tx, now, "run.claimed", best.run, StepId(),
               json::Writer().begin_object().member("epoch", claimed.epoch).end_object().text());
  return claimed;
}

bool at_limit(db::ReadTx& tx, const ClaimRules& rules, VersionId pinned) {
  db::Query q(tx, "SELECT workflow_id FROM workflow_versions WHERE id = ?");
  const WorkflowId workflow(q.bind(pinned).one().integer(0));
  const int limit = rules.max_running(workflow);
  return limit > 0 && running_of(tx, workflow) >= limit;
}

}  // namespace

int running_of(db::ReadTx& tx, WorkflowId workflow) {
  db::Query q(tx, "SELECT count(*) FROM runs WHERE status = 'running' AND workflow_id = ?");
  q.bind(workflow);
  return static_cast<int>(q.one().integer(0));
}

std::vector<VersionId> queued_versions(db::ReadTx& tx) {
  std::vector<VersionId> versions;
  std::int64_t last = 0;
  for (;;) {
    db::Query q(tx,
                "SELECT min(workflow_version_id) FROM runs WHERE status = 'queued' AND paused_at IS NULL AND "
                "workflow_version_id > ?");
    q.bind(last);
    if (!q.next() || q.null(0)) return versions;
    last = q.integer(0);
    versions.push_back(VersionId(last));
  }
}

ClaimOutcome claim_next(db::Tx& tx, const ClaimRules& rules, TimeMs now) {
  if (const auto cancelled = first_cancelled(tx, rules, now)) return take(tx, rules, *cancelled, now);
  std::optional<Candidate> best;
  bool full = false;
  const bool suspects = suspect_runs(tx);
  for (const VersionId pinned : queued_versions(tx)) {
    const VersionId as = rules.known(pinned);
    if (!as.valid()) continue;
    const auto candidate = first_due(tx, pinned, as, suspects, now);
    if (!candidate || (best && best->before(*candidate))) continue;
    if (rules.max_running && at_limit(tx, rules, pinned) && !BIDE_PLANTED(too_many_at_once)) {
      full = true;
      continue;
    }
    best = candidate;
  }
  if (best) return take(tx, rules, *best, now);
  if (full) return AtCapacity{};
  return NothingDue{};
}

ClaimOutcome claim_run(db::Tx& tx, const ClaimRules& rules, RunId run, TimeMs now) {
  Candidate it;
  {
    db::Query q(
        tx,
        "SELECT workflow_version_id, run_at, epoch, cancel_requested_at IS NOT NULL FROM runs WHERE id = ?1 AND "
        "status = 'queued' AND paused_at IS NULL AND run_at <= ?2");
    if (!q.bind(run, now).next()) return NothingDue{};
    const VersionId pinned(q.integer(0));
    it = {run, pinned, rules.known(pinned), q.integer(3) != 0, 0, q.integer(1), q.integer(2)};
  }
  if (!it.version.valid()) return NothingDue{};
  if (!it.cancelled && claim_forbidden(tx, rules, run)) return AtCapacity{};
  return take(tx, rules, it, now);
}

bool claim_due(db::ReadTx& tx, const ClaimRules& rules, TimeMs now) {
  if (first_cancelled(tx, rules, now)) return true;
  const bool suspects = suspect_runs(tx);
  for (const VersionId pinned : queued_versions(tx)) {
    const VersionId as = rules.known(pinned);
    if (!as.valid() || !first_due(tx, pinned, as, suspects, now)) continue;
    if (!rules.max_running || !at_limit(tx, rules, pinned)) return true;
  }
  return false;
}

std::optional<TimeMs> next_run_due_after(db::ReadTx& tx, TimeMs now) {
  db::Query q(tx, "SELECT min(run_at) FROM runs WHERE status = 'queued' AND paused_at IS NULL AND run_at > ?");
  return q.bind(now).one().maybe_integer(0);
}

bool claim_forbidden(db::ReadTx& tx, const ClaimRules& rules, RunId run) {
  db::Query q(
      tx,
      "SELECT workflow_version_id, workflow_id, recoveries, paused_at IS NOT NULL OR EXISTS (SELECT 1 FROM processes p "
      "INDEXED BY processes_live "
      "WHERE p.run_id = r.id AND p.status <> 'stopped' AND (p.step_id IS NULL OR p.status = 'stopping')) FROM runs r "
      "WHERE id = ?");
  q.bind(run);
  if (!q.next() || q.integer(3) != 0) return true;
  if (!rules.known(VersionId(q.integer(0))).valid()) return true;
  const WorkflowId workflow(q.integer(1));
  const int limit = rules.max_running ? rules.max_running(workflow) : 0;
  if (limit > 0 && running_of(tx, workflow) >= limit) return true;
  return q.integer(2) >= limits::kCrashLoopAlone && suspect_runs(tx);
}

bool hand_back(db::Tx& tx, const Fence& fence, TimeMs run_at, std::string_view reason, TimeMs now) {
  std::optional<std::string_view> why;
  if (!reason.empty()) why = reason;
  // A cancel that came while the attempt was ending must not wait for run_at.
  const int changed =
      db::Query(tx,
                "UPDATE runs SET status = 'queued', owner = NULL, lease_until = NULL, recoveries = 0, reason = ?4, "
                "run_at = CASE WHEN cancel_requested_at IS NULL THEN ?5 ELSE ?6 END "
                "WHERE id = ?1 AND status = 'running' AND epoch = ?2 AND owner = ?3")
          .bind(fence.run, fence.epoch, fence.owner, why, run_at, now)
          .run();
  if (changed != 1) return false;
  append_event(tx, now, "run.handed_back", fence.run, StepId(),
               json::Writer().begin_object().member("reason", std::string(reason)).end_object().text());
  return true;
}

bool abandon_attempt(db::Tx& tx, const Fence& fence, TimeMs now, Ripples* ripples) {
  const int changed =
      db::Query(tx,
                "UPDATE runs SET status = 'queued', owner = NULL, lease_until = NULL, epoch = epoch + 1, run_at = ?4 "
                "WHERE id = ?1 AND status = 'running' AND epoch = ?2 AND owner = ?3")
          .bind(fence.run, fence.epoch, fence.owner, now)
          .run();
  if (changed != 1) return false;
  append_event(tx, now, "run.abandoned", fence.run, StepId(),
               json::Writer().begin_object().member("epoch", fence.epoch).end_object().text());
  retire_holders(tx, fence.run);
  const auto row = read_run(tx, fence.run);
  if (row && row->cancel_requested_at) (void)end_flagged(tx, fence.run, now, ripples);
  return true;
}

Recovered recover_run(db::Tx& tx, RunId run, std::int64_t epoch, TimeMs now, Ripples* ripples) {
  const int changed =
      db::Query(tx,
                "UPDATE runs SET status = 'queued', owner = NULL, lease_until = NULL, recoveries = recoveries + 1, "
                "run_at = min(run_at, ?3) WHERE id = ?1 AND status = 'running' AND epoch = ?2")
          .bind(run, epoch, now)
          .run();
  if (changed != 1) return Recovered::not_orphan;
  append_event(tx, now, "run.recovered", run, StepId());
  const auto row = read_run(tx, run);
  if (row->recoveries < limits::kCrashLoop) {
    if (row->cancel_requested_at) (void)end_flagged(tx, run, now, ripples);
    return Recovered::queued;
  }
  const std::string error = json::Writer()
                                .begin_object()
                                .member("code", "CrashLoop")
                                .member("message", std::to_string(limits::kCrashLoop) +
                                                       " attempts in a row ended with the process, without progress")
                                .end_object()
                                .take();
  // E6: its code is given up, what it did is taken back; ten deaths over that too, and it ends as it is.
  const bool claimed_first = task_at_work(tx, run) || has_compensations(tx, run);  // P1
  if (!row->error && !row->cancel_requested_at && claimed_first) {
    db::Query(tx, "UPDATE runs SET error = ?2, recoveries = 0 WHERE id = ?1").bind(run, error).run();
    append_event(tx, now, "run.ending", run, StepId());
    return Recovered::crash_loop;
  }
  if (row->cancel_requested_at) {
    end_cancelled(tx, run, now, ripples);
  } else {
    fail_queued(tx, run, row->error.value_or(error), now, ripples);
  }
  return Recovered::crash_loop;
}

std::vector<RunningRow> running_page(db::ReadTx& tx, RunId after, int limit) {
  std::vector<RunningRow> rows;
  // By the index of running rows, so that sleeping ones cost nothing: its order is (workflow_id, id).
  db::Query q(tx,
              "SELECT id, epoch, owner, lease_until FROM runs WHERE status = 'running' AND "
              "(workflow_id, id) > (coalesce((SELECT workflow_id FROM runs WHERE id = ?1), 0), ?1) ORDER BY "
              "workflow_id, id LIMIT ?2");
  q.bind(after, limit);
  while (q.next()) rows.push_back({RunId(q.integer(0)), q.integer(1), q.text(2), q.maybe_integer(3)});
  return rows;
}

void set_reason(db::Tx& tx, RunId run, std::string_view reason) {
  std::optional<std::string_view> why;
  if (!reason.empty()) why = reason;
  db::Query(tx, "UPDATE runs SET reason = ?2 WHERE id = ?1 AND reason IS NOT ?2").bind(run, why).run();
}

int mark_unknown(db::Tx& tx, const ClaimRules& rules, const std::function<bool(WorkflowId)>& known_workflow,
                 TimeMs now) {
  int marked = 0;
  for (const VersionId pinned : queued_versions(tx)) {
    if (rules.known(pinned).valid() || (rules.elsewhere && rules.elsewhere(pinned))) continue;
    db::Query w(tx, "SELECT workflow_id FROM workflow_versions WHERE id = ?");
    const bool workflow_there = known_workflow(WorkflowId(w.bind(pinned).one().integer(0)));
    const std::string_view reason = workflow_there ? "version_missing" : "workflow_missing";
    const int held_up = db::Query(tx,
                                  "UPDATE runs INDEXED BY runs_claimable SET reason = ?2 WHERE status = 'queued' AND "
                                  "paused_at IS NULL AND workflow_version_id = ?1 "
                                  "AND run_at <= ?3 AND reason IS NOT ?2")
                            .bind(pinned, reason, now)
                            .run();
    marked += held_up;
    if (held_up > 0) {
      const auto version = read_version(tx, pinned).value();
      append_event(tx, now, "workflow.missing", RunId(), StepId(),
                   json::Writer()
                       .begin_object()
                       .member("workflow", version.workflow_name)
                       .member("version", version.version)
                       .member("reason", reason)
                       .member("runs", held_up)
                       .end_object()
                       .text());
    }
  }
  return marked;
}

}  // namespace bide::kernel
