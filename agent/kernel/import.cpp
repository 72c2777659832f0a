#include "agent/kernel/import.h"

#include "agent/base/errors.h"

namespace bide::kernel {
namespace {

void next_run_is(db::Tx& tx, RunId id) {
  const auto moved = db::Query(tx, "UPDATE sqlite_sequence SET seq = ?1 - 1 WHERE name = 'runs'").bind(id).run();
  if (moved == 0) db::Query(tx, "INSERT INTO sqlite_sequence (name, seq) VALUES ('runs', ?1 - 1)").bind(id).run();
}

}  // namespace

void import_run(db::Tx& tx, const ImportRun& run, TimeMs now) {
  next_run_is(tx, run.id);
  StartRun start;
  start.workflow = run.workflow;
  start.version = run.version;
  start.uid = run.uid;
  start.input = run.input;
  start.created_by = run.created_by;
  const auto started = std::get<RunStarted>(start_run(tx, start, now));
  if (started.run != run.id) throw Bug("import_run: the number is taken");
  for (const StepRow& step : run.journal) {
    const bool settled = step.status == StepStatus::completed || step.status == StepStatus::failed;
    db::Query(
        tx,
        "INSERT INTO steps (id, run_id, position, seq, kind, name, effect, status, executions, failures, retries, "
        "request, request_hash, result, error, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, "
        "?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?16)")
        .bind(StepId(tx.next_id(db::Counter::steps)), run.id, step.position, step.seq, to_text(step.kind), step.name,
              to_text(step.effect), to_text(settled ? step.status : StepStatus::cancelled), step.executions,
              step.failures, step.retries, step.request, db::Blob{step.request_hash},
              settled ? step.result : std::nullopt, settled ? step.error : std::nullopt, now)
        .run();
  }
}

}  // namespace bide::kernel
