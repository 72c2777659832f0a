// What must hold, whatever happened: looked for in the file and in the ledger.
#include <algorithm>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "tests/sim/world.h"

namespace bide::sim {
namespace {

std::string number(std::int64_t n) { return std::to_string(n); }

// The first row of a query that must have none.
template <class... Args>
void none(db::ReadTx& tx, const std::string& invariant, const std::string& what, db::Sql sql, const Args&... args) {
  db::Query q(tx, sql);
  q.bind(args...);
  if (q.next()) violated(invariant, what + ": " + number(q.integer(0)));
}

}  // namespace

// At rest: nothing that is due is left lying, and everybody who lives has somebody who wakes it.
void World::check() {
  const kernel::ClaimRules rules = process_->executor->rules();
  const TimeMs now = process_->store->now();
  const bool held = process_->store->clock().held() || process_->held_when_looked() ||
                    cramped();  // then nothing is claimed and nothing expires
  process_->store->read([&](db::ReadTx& tx) {
    none(tx, "I9", "a run waits for nothing",
         "SELECT id FROM runs r WHERE status = 'waiting' AND NOT EXISTS (SELECT 1 FROM waits w WHERE w.run_id = r.id "
         "AND w.status = 'pending' AND w.kind <> 'timer') AND NOT EXISTS (SELECT 1 FROM steps t WHERE t.run_id = r.id "
         "AND "
         "t.kind = 'task' AND t.status IN ('pending', 'started'))");
    // A retried run may have open entries that its code, which now takes another way, has not come to.
    none(tx, "I9", "a timer was left to a run that is not queued",
         "SELECT r.id FROM waits w JOIN runs r ON r.id = w.run_id WHERE w.status = 'pending' AND w.kind = 'timer' AND "
         "(r.status = 'waiting' OR (r.status = 'queued' AND r.run_at > max(w.resolve_by, ?))) AND NOT EXISTS (SELECT 1 "
         "FROM events e WHERE e.run_id = r.id AND e.kind = 'control.retry')",
         now);
    none(tx, "I8", "a fault of the agent's own on a sound disk: event",
         "SELECT id FROM events WHERE id > ? AND kind = 'run.handed_back' AND json_extract(payload, '$.reason') = "
         "'agent_fault'",
         events_checked_);
    db::Query last(tx, "SELECT coalesce(max(id), 0) FROM events");
    events_checked_ = last.one().integer(0);
    none(tx, "I8", "more runs of a workflow at once than it allows",
         "SELECT count(*) FROM runs WHERE status = 'running' AND workflow_id = (SELECT id FROM workflows WHERE name = "
         "?) HAVING count(*) > ?",
         kNarrow, kNarrowRunning);
    none(tx, "I9", "a wait of a run that has ended is open",
         "SELECT w.id FROM waits w JOIN runs r ON r.id = w.run_id WHERE w.status = 'pending' AND r.finished_at IS NOT "
         "NULL");
    if (!held) {
      none(tx, "I7", "a wait is past its deadline",
           "SELECT id FROM waits WHERE status = 'pending' AND kind <> 'timer' AND resolve_by <= ?", now);
    }
    // While something is due that may not be claimed, the dispatcher looks every 5 s.
    db::Query due(tx, "SELECT id FROM runs WHERE status = 'queued' AND paused_at IS NULL AND run_at <= ?");
    due.bind(now - limits::kDueAgainMs);
    while (!held && due.next()) {
      const RunId run(due.integer(0));
      if (!kernel::claim_forbidden(tx, rules, run) && process_->executor->idle())
        violated("I8", "run " + number(run.value) + " is due and nobody drives it");
    }
    db::Query running(tx, "SELECT id FROM runs WHERE status = 'running'");
    while (running.next()) {
      if (!process_->executor->drives(RunId(running.integer(0))))
        violated("I8", "run " + number(running.integer(0)) + " is running and nobody drives it");
    }
  });
  process_->store->read([](db::ReadTx& tx) {
    none(tx, "I8", "a child goes on though its parent has ended otherwise",
         "SELECT c.id FROM runs c JOIN steps s ON s.id = c.parent_step_id JOIN runs p ON p.id = s.run_id WHERE "
         "p.status IN ('failed', 'cancelled') AND c.finished_at IS NULL AND c.cancel_requested_at IS NULL");
    none(tx, "I8", "a child has ended and its parent was not told",
         "SELECT c.id FROM runs c JOIN steps s ON s.id = c.parent_step_id WHERE s.status = 'started' AND c.finished_at "
         "IS NOT NULL AND c.id = (SELECT max(id) FROM runs WHERE parent_step_id = s.id) AND EXISTS (SELECT 1 FROM runs "
         "p "
         "WHERE p.id = s.run_id AND p.error IS NULL AND p.cancel_requested_at IS NULL)");
  });
  check_steps_at_work();
  if (acts_ % 32 == 0) check_whole();
}

// A3: while a step executes, its run's lease is not given back, unless it was taken away.
void World::check_steps_at_work() {
  for (const auto& [id, one] : ledger_.effects) {
    if (!one.running() || one.held || one.op->kind == OpKind::task) continue;
    process_->store->read([&, run = id.first, &effect = one](db::ReadTx& tx) {
      db::Query q(tx,
                  "SELECT status, EXISTS (SELECT 1 FROM events e WHERE e.run_id = r.id AND e.kind = 'run.abandoned') "
                  "FROM runs r WHERE id = ?");
      if (q.bind(run).next() && q.text(0) != "running" && q.integer(1) == 0)
        violated("I2", "run " + number(run) + " is " + q.text(0) + " while its " + effect.op->name + " executes");
    });
  }
}

// What the rows say of each other, at any time.
void World::check_rules() {
  process_->store->read([&](db::ReadTx& tx) {
    none(tx, "I4", "a wait was resolved after its deadline",
         "SELECT id FROM waits WHERE status = 'resolved' AND kind <> 'timer' AND resolved_at >= resolve_by");
    none(tx, "I7", "a wait expired before its deadline",
         "SELECT id FROM waits WHERE status = 'expired' AND resolved_at < resolve_by");
    none(tx, "I4", "an approval was given by fewer people than asked for",
         "SELECT id FROM waits w WHERE kind = 'approval' AND status = 'resolved' AND json_extract(resolution, "
         "'$.decision') = 'approved' AND (SELECT count(*) FROM decisions d WHERE d.wait_id = w.id AND d.decision = "
         "'approved') < json_extract(payload, '$.quorum')");
    none(tx, "I4", "a signal was read by two waits",
         "SELECT max(id) FROM waits WHERE kind = 'signal' AND status = 'resolved' GROUP BY run_id, "
         "json_extract(resolution, '$.signal') HAVING count(*) > 1");
    none(tx, "I4", "an approval was decided by who may not",
         "SELECT w.id FROM waits w JOIN runs r ON r.id = w.run_id WHERE w.kind = 'approval' AND w.resolved_by = "
         "r.created_by AND json_extract(w.payload, '$.policy') = 'not_initiator'");
    none(tx, "I4", "a wait of a group was decided after the group's time",
         "SELECT w.id FROM waits w JOIN waits t ON t.step_id = w.step_id AND t.kind = 'timer' WHERE w.kind <> 'timer' "
         "AND w.status = 'resolved' AND w.resolved_at >= t.resolve_by");
    none(tx, "I6", "a run was claimed again under an epoch that was used",
         "SELECT a.run_id FROM events a JOIN events b ON b.run_id = a.run_id AND b.id > a.id AND b.kind = a.kind WHERE "
         "a.kind = 'run.claimed' AND json_extract(b.payload, '$.epoch') <= json_extract(a.payload, '$.epoch')");
    none(tx, "I7", "time went back by more than the mark allows",
         "SELECT id FROM (SELECT id, at, lag(at) OVER (ORDER BY id) AS before FROM events) WHERE at < before - ?",
         limits::kClockMarkMs + 1'000);
    // Whoever was at it said so in time, and too late for its run: it was not let finish [P1].
    none(tx, "I2", "a run failed while somebody was at a task of it: event",
         "SELECT e.id FROM events e JOIN steps s ON s.id = e.step_id JOIN runs r ON r.id = e.run_id WHERE e.kind = "
         "'step.late_outcome' AND s.kind = 'task' AND r.cancel_requested_at IS NULL AND r.recoveries < ? AND NOT "
         "EXISTS (SELECT 1 FROM events l WHERE l.run_id = e.run_id AND l.id < e.id AND (l.kind = 'control.retry' OR "
         "(l.step_id = e.step_id AND l.kind IN ('step.lapsed', 'step.needs_reconcile'))))",
         limits::kCrashLoop);
    none(tx, "I2", "a step has failed more often than its retries allow",
         "SELECT id FROM steps WHERE failures > retries + 1");
  });
}

// What was acknowledged is there; what is settled stays as it was; epochs only grow.
void World::check_whole() {
  compare_rows();
  if (acts_ % 64 == 0) check_rules();
  process_->store->read([&](db::ReadTx& tx) {
    for (const auto& [run, outside] : ledger_.runs) {
      db::Query q(tx,
                  "SELECT status, cancel_requested_at IS NOT NULL, finished_at IS NULL AND cancel_requested_at IS NULL "
                  "AND paused_at IS NULL FROM runs WHERE id = ?");
      if (!q.bind(run).next()) {
        if (outside.acknowledged) violated("I1", "run " + number(run) + " was acknowledged and is gone");
        continue;
      }
      if (outside.cancel_acknowledged && q.integer(1) == 0)
        violated("I1", "the cancel of run " + number(run) + " was acknowledged and is gone");
      if (outside.cancel_acknowledged && (q.text(0) == "completed" || q.text(0) == "failed"))
        violated("I1", "the cancel of run " + number(run) + " was acknowledged and it is " + q.text(0));
      if (outside.paused && q.integer(2) != 0)
        violated("I1", "the pause of run " + number(run) + " was acknowledged and is gone");
      for (const auto& [name, sent] : outside.signals) {
        for (const auto& [id, payload] : sent) {
          db::Query s(tx, "SELECT payload FROM signals WHERE id = ?");
          if (!s.bind(id).next() || s.text(0) != payload)
            violated("I1", "signal " + number(id) + " of run " + number(run) + " was acknowledged and is gone");
        }
      }
      db::Query doubts(
          tx,
          "SELECT step_id, count(*) FROM waits WHERE run_id = ? AND kind = 'reconcile' AND step_id IN (SELECT "
          "id FROM steps WHERE kind = 'step') GROUP BY step_id");  // a task's worker may die before it begins
      doubts.bind(run);
      while (doubts.next()) {
        db::Query abandoned(tx, "SELECT count(*) FROM events WHERE run_id = ? AND kind = 'run.abandoned'");
        // A retry asks anew what the run's end had left unanswered.
        const std::int64_t interruptions =
            outside.interruptions + outside.retries + abandoned.bind(run).one().integer(0);
        if (doubts.integer(1) > interruptions) {
          violated("I3", "step " + number(doubts.integer(0)) + " of run " + number(run) + " was asked about " +
                             number(doubts.integer(1)) + " times, and interrupted " + number(interruptions));
        }
      }
    }
    for (const auto& [wait, told] : ledger_.told) {
      db::Query q(tx, "SELECT status, resolution FROM waits WHERE id = ?");
      if (!q.bind(wait).next() || q.text(0) != "resolved" || q.text(1) != told.resolution)
        violated("I4",
                 "wait " + number(wait) + " was acknowledged as " + told.resolution + " and is another in the file");
    }
    none(tx, "I4", "a signal was overtaken by a later one of its name",
         "SELECT a.id FROM signals a JOIN signals b ON b.run_id = a.run_id AND b.name = a.name AND b.id > a.id WHERE "
         "a.consumed_by IS NULL AND b.consumed_by IS NOT NULL");
    none(tx, "I4", "a step has consumed two signals",
         "SELECT consumed_by FROM signals WHERE consumed_by IS NOT NULL GROUP BY consumed_by HAVING count(*) > 1");
    none(tx, "I9", "a step that waits has no wait",
         "SELECT id FROM steps s WHERE kind IN ('approval','question','timer','signal','first_of') AND copied_from IS "
         "NULL AND NOT EXISTS "
         "(SELECT 1 FROM "
         "waits w WHERE w.step_id = s.id)");
    none(tx, "I9", "a step in doubt of a live run has no question",
         "SELECT s.id FROM steps s JOIN runs r ON r.id = s.run_id WHERE s.status = 'needs_reconcile' AND r.finished_at "
         "IS NULL AND r.error IS NULL AND r.cancel_requested_at IS NULL AND NOT EXISTS (SELECT 1 FROM waits w WHERE "
         "w.step_id = s.id AND w.kind = 'reconcile')");
  });
}

void World::compare_rows() {
  process_->store->read([&](db::ReadTx& tx) {
    std::map<std::int64_t, RunSeen> runs;
    db::Query r(tx, "SELECT id, status, epoch, coalesce(result, error, ''), finished_at FROM runs");
    while (r.next()) {
      RunSeen now{r.text(1), r.integer(2), r.text(3) + "@" + (r.null(4) ? "" : number(r.integer(4)))};
      const auto before = runs_seen_.find(r.integer(0));
      if (before != runs_seen_.end()) {
        if (now.epoch < before->second.epoch) violated("I6", "the epoch of run " + number(r.integer(0)) + " went back");
        const bool ended = !before->second.end.ends_with("@");
        if (ended && (now.status != before->second.status || now.end != before->second.end))
          violated("I1",
                   "run " + number(r.integer(0)) + " had ended " + before->second.status + " and is " + now.status);
      }
      runs[r.integer(0)] = std::move(now);
    }
    for (const auto& [id, seen] : runs_seen_) {
      if (!runs.contains(id)) violated("I1", "run " + number(id) + " was there and is gone");
    }
    runs_seen_ = std::move(runs);

    std::map<std::int64_t, std::string> steps;
    db::Query s(tx,
                "SELECT id, status, run_id, position, result FROM steps WHERE status IN ('completed', 'failed', "
                "'cancelled')");
    while (s.next()) {
      steps[s.integer(0)] =
          s.text(1) + " " + number(s.integer(2)) + " " + s.text(3) + " " + (s.null(4) ? "" : s.text(4));
    }
    for (const auto& [id, seen] : steps_seen_) {
      const auto now = steps.find(id);
      if (now == steps.end() || now->second != seen)
        violated("I1", "step " + number(id) + " was settled as " + seen + " and is " +
                           (now == steps.end() ? "gone or open" : now->second));
    }
    steps_seen_ = std::move(steps);

    std::map<std::int64_t, std::string> waits;
    db::Query w(tx, "SELECT id, status, resolution FROM waits WHERE status <> 'pending'");
    while (w.next()) waits[w.integer(0)] = w.text(1) + " " + (w.null(2) ? "" : w.text(2));
    for (const auto& [id, seen] : waits_seen_) {
      const auto now = waits.find(id);
      if (now == waits.end() || now->second != seen) violated("I4", "wait " + number(id) + " was " + seen);
    }
    waits_seen_ = std::move(waits);

    db::Query e(tx, "SELECT count(*), coalesce(max(id), 0) FROM events");
    e.one();
    if (e.integer(1) < events_seen_) violated("I1", "events are gone");
    events_seen_ = e.integer(1);
  });
}

void World::check_end() {
  check_whole();
  check_rules();
  process_->store->read([&](db::ReadTx& tx) {
    db::Query integrity(tx, "PRAGMA integrity_check");
    if (!integrity.next() || integrity.text(0) != "ok") violated("I9", "integrity_check: " + integrity.text(0));
    db::Query keys(tx, "PRAGMA foreign_key_check");
    if (keys.next()) violated("I9", "foreign_key_check: a row of " + keys.text(0));
    db::Query open(tx, "SELECT id FROM steps WHERE status IN ('pending', 'started') LIMIT 1");
    if (open.next()) violated("I9", "step " + number(open.integer(0)) + " is open though its run has ended");
    check_undone(tx);
    check_delivered(tx);
    check_continued(tx);
    db::Query ends(tx, "SELECT status, count(*) FROM runs GROUP BY status");
    while (ends.next()) ledger_.counts.add("runs " + ends.text(0), ends.integer(1));
    db::Query waits(tx, "SELECT kind || ' ' || status, count(*) FROM waits GROUP BY 1");
    while (waits.next()) ledger_.counts.add("waits " + waits.text(0), waits.integer(1));
    db::Query events(tx, "SELECT kind, count(*) FROM events GROUP BY kind");
    while (events.next()) ledger_.counts.add("event " + events.text(0), events.integer(1));
  });
}

// X7: who goes on as a new run has exactly one successor, and keeps nothing that is for it.
void World::check_continued(db::ReadTx& tx) {
  none(tx, "I1", "a run went on as a new one that is not there",
       "SELECT r.id FROM runs r WHERE json_extract(r.result, '$.continued_as') IS NOT NULL AND NOT EXISTS (SELECT 1 "
       "FROM runs n WHERE n.id = json_extract(r.result, '$.continued_as') AND n.continued_from = r.id)");
  none(tx, "I1", "a run has two successors",
       "SELECT continued_from FROM runs WHERE continued_from IS NOT NULL GROUP BY continued_from HAVING count(*) > 1");
  none(tx, "I4", "a run that goes on as a new one kept an unread signal",
       "SELECT s.id FROM signals s JOIN runs r ON r.id = s.run_id WHERE s.consumed_by IS NULL AND "
       "json_extract(r.result, '$.continued_as') IS NOT NULL");
}

}  // namespace bide::sim
