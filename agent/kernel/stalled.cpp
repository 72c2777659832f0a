#include "agent/kernel/stalled.h"

#include "agent/base/limits.h"
#include "agent/kernel/events.h"
#include "agent/kernel/tasks.h"

namespace bide::kernel {
namespace {

// Whoever does it wakes the run; the relay of tasks sees to it that somebody does [W6].
bool open_task(db::ReadTx& tx, RunId run) {
  db::Query q(tx,
              "SELECT 1 FROM steps WHERE run_id = ? AND kind = 'task' AND status IN ('pending', 'started') LIMIT 1");
  return q.bind(run).next();
}

// A timer moves its run through run_at, and only while that is queued: a waiting run needs a wait that somebody else
// settles, or that expires [A12].
bool will_be_woken(db::ReadTx& tx, RunId run) {
  db::Query q(tx, "SELECT 1 FROM waits WHERE run_id = ? AND status = 'pending' AND kind <> 'timer' LIMIT 1");
  return q.bind(run).next() || open_task(tx, run);
}

bool is_stalled(db::ReadTx& tx, RunId run, std::string_view status, TimeMs run_at, const ClaimRules& rules, bool idle,
                TimeMs now) {
  if (status == "waiting") return !will_be_woken(tx, run);
  if (status != "queued") return false;  // running: its driver, or the orphan scan
  return idle && run_at <= now - limits::kStalledMs && !claim_forbidden(tx, rules, run);
}

}  // namespace

StalledPage find_stalled(db::ReadTx& tx, const ClaimRules& rules, RunId after, int limit, bool idle, TimeMs now) {
  StalledPage page;
  db::Query q(tx, "SELECT id, status, run_at FROM runs WHERE finished_at IS NULL AND id > ? ORDER BY id LIMIT ?");
  q.bind(after, limit);
  int seen = 0;
  RunId last;
  while (q.next()) {
    ++seen;
    last = RunId(q.integer(0));
    if (is_stalled(tx, last, q.text(1), q.integer(2), rules, idle, now)) page.found.push_back(last);
  }
  if (seen == limit) page.last = last;
  return page;
}

void note_stalled(db::Tx& tx, RunId run, TimeMs now) {
  db::Query(tx, "UPDATE runs SET redrive_at = ?2 WHERE id = ?1 AND redrive_at IS NULL AND finished_at IS NULL")
      .bind(run, now)
      .run();
}

std::vector<RunId> due_redrives(db::ReadTx& tx, int limit, TimeMs now) {
  std::vector<RunId> runs;
  db::Query q(tx,
              "SELECT id FROM runs WHERE redrive_at IS NOT NULL AND redrive_at <= ? ORDER BY redrive_at, id LIMIT ?");
  q.bind(now, limit);
  while (q.next()) runs.push_back(RunId(q.integer(0)));
  return runs;
}

bool redrive(db::Tx& tx, const ClaimRules& rules, RunId run, TimeMs now) {
  if (open_task(tx, run)) {
    // The mark is that of its tasks [W6]. Between two offers it is of no use, and would be due for as long as one is
    // worked on; the delay stays.
    if (!relay_due(tx, run, now))
      db::Query(tx, "UPDATE runs SET redrive_at = NULL WHERE id = ? AND redrive_at <= ?").bind(run, now).run();
    return false;
  }
  const auto row = read_run(tx, run);
  if (!row || !is_stalled(tx, run, to_text(row->status), row->run_at, rules, true, now)) {
    db::Query(tx, "UPDATE runs SET redrive_at = NULL, redrive_delay = NULL WHERE id = ?").bind(run).run();
    return false;
  }
  db::Query(tx,
            "UPDATE runs SET redrive_delay = min(coalesce(redrive_delay * 2, ?3), ?4), "
            "redrive_at = ?2 + min(coalesce(redrive_delay * 2, ?3), ?4) WHERE id = ?1")
      .bind(run, now, limits::kRedriveFirstMs, limits::kRedriveMaxMs)
      .run();
  append_event(tx, now, "run.redriven", run, StepId());
  (void)wake_run(tx, run, now);
  return true;
}

}  // namespace bide::kernel
