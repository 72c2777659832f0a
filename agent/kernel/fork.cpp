#include "agent/kernel/fork.h"

#include <vector>

#include "agent/base/json.h"
#include "agent/kernel/events.h"
#include "agent/kernel/steps.h"

namespace bide::kernel {
namespace {

#define BIDE_FIRST_ENTRIES "FROM steps WHERE run_id = ?1 AND seq <= ?2 AND position NOT GLOB '~undo/*' "

std::optional<Problem> open_entry(db::ReadTx& tx, const ForkRun& fork) {
  db::Query q(tx, "SELECT seq, name, status " BIDE_FIRST_ENTRIES
                  "AND status IN ('pending', 'started', 'needs_reconcile') ORDER BY seq LIMIT 1");
  q.bind(fork.from, fork.entries);
  if (!q.next()) return std::nullopt;
  return problem(
      "fork_open",
      "Entry " + q.text(0) + " (" + q.text(1) + ") is " + q.text(2) + ": what is not settled cannot be copied.",
      "bide fork " + std::to_string(fork.from.value) + " --from " + std::to_string(q.integer(0) - 1));
}

// An approval, or a group with one in it, was given for what that version shows and does with it.
std::vector<StepId> entries(db::ReadTx& tx, const ForkRun& fork, bool same_version) {
  std::vector<StepId> steps;
  db::Query q(tx,
              "SELECT id, kind = 'approval' OR (kind = 'first_of' AND EXISTS (SELECT 1 FROM "
              "json_each(steps.request, '$.any') WHERE json_extract(value, '$.kind') = 'approval')) " BIDE_FIRST_ENTRIES
              "AND status IN ('completed', 'failed') ORDER BY seq");
  q.bind(fork.from, fork.entries);
  while (q.next()) {
    if (same_version || q.integer(1) == 0) steps.push_back(StepId(q.integer(0)));
  }
  return steps;
}

}  // namespace

ForkOutcome fork_run(db::Tx& tx, const ForkRun& fork, TimeMs now) {
  const auto row = read_run(tx, fork.from);
  if (!row) return problem("run_not_found", "There is no run " + std::to_string(fork.from.value) + ".", "bide runs");
  if (auto refusal = open_entry(tx, fork)) return *refusal;
  const VersionId version = fork.version.valid() ? fork.version : row->version;
  StartRun start;
  start.workflow = row->workflow;
  start.version = version;
  start.uid = fork.uid;
  start.input = row->input;
  start.created_by = fork.by;
  start.mission = row->mission;
  start.priority = row->priority;
  start.labels = row->labels;
  start.deadline = row->deadline;
  Forked forked{std::get<RunStarted>(start_run(tx, start, now)).run, 0};
  // What was copied takes its keys from there: retention keeps it [W9].
  db::Query(tx, "UPDATE runs SET forked_from = ?2 WHERE id = ?1").bind(forked.run, fork.from).run();
  for (const StepId step : entries(tx, fork, version == row->version)) {
    const StepId copy(tx.next_id(db::Counter::steps));
    db::Query(tx,
              "INSERT INTO steps (id, run_id, position, seq, kind, name, effect, status, executions, caller_hash, "
              "failures, retries, request, request_hash, compensate, assume, settled_no, result, error, usage, "
              "copied_from, created_at, updated_at) SELECT ?1, ?2, position, seq, kind, name, effect, status, "
              "executions, caller_hash, failures, retries, request, request_hash, compensate, assume, settled_no, "
              "result, error, usage, coalesce(copied_from, id), created_at, updated_at FROM steps WHERE id = ?3")
        .bind(copy, forked.run, step)
        .run();
    ++forked.copied;
  }
  append_event(tx, now, "run.forked", forked.run, StepId(),
               json::Writer()
                   .begin_object()
                   .member("from", fork.from.value)
                   .member("entries", fork.entries)
                   .member("copied", forked.copied)
                   .end_object()
                   .text());
  return forked;
}

}  // namespace bide::kernel
