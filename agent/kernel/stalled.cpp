#include "agent/kernel/stalled.h"

#include <algorithm>

#include "agent/base/limits.h"
#include "agent/kernel/events.h"

namespace bide::kernel {
namespace {

bool has_pending_wait(db::ReadTx& tx, RunId run) {
  db::Query q(tx, "SELECT 1 FROM waits WHERE run_id = ? AND status = 'pending' LIMIT 1");
  return q.bind(run).next();
}

}  // namespace

StalledPage find_stalled(db::ReadTx& tx, RunId after, int limit, bool idle, TimeMs now) {
  StalledPage page;
  db::Query q(tx,
              "SELECT id, status, run_at, paused_at, reason FROM runs r WHERE finished_at IS NULL AND id > ? ORDER BY id LIMIT ?");
  q.bind(after, limit);
  int seen = 0;
  RunId last;
  while (q.next()) {
    ++seen;
    last = RunId(q.integer(0));
    const std::string status = q.text(1);
    const bool waiting = status == "waiting" && !has_pending_wait(tx, last);
    const bool queued = status == "queued" && idle && q.integer(2) <= now - limits::kStalledMs && q.null(3) && q.null(4);
    if (waiting || queued) page.found.push_back(last);
  }
  if (seen == limit) page.last = last;
  return page;
}

void note_stalled(db::Tx& tx, RunId run, TimeMs now) {
  db::Query(tx, "UPDATE runs SET redrive_at = ?2 WHERE id = ?1 AND redrive_at IS NULL AND finished_at IS NULL").bind(run, now).run();
}

std::vector<RunId> due_redrives(db::ReadTx& tx, int limit, TimeMs now) {
  std::vector<RunId> runs;
  db::Query q(tx, "SELECT id FROM runs WHERE redrive_at IS NOT NULL AND redrive_at <= ? ORDER BY redrive_at, id LIMIT ?");
  q.bind(now, limit);
  while (q.next()) runs.push_back(RunId(q.integer(0)));
  return runs;
}

bool redrive(db::Tx& tx, RunId run, TimeMs now) {
  const auto row = read_run(tx, run);
  const bool stuck = row && ((row->status == RunStatus::waiting && !has_pending_wait(tx, run)) ||
                             (row->status == RunStatus::queued && row->run_at <= now - limits::kStalledMs && !row->paused_at));
  if (!stuck) {
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
