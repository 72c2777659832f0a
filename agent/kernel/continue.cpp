#include "agent/kernel/continue.h"

#include "agent/base/json.h"
#include "agent/kernel/children.h"
#include "agent/kernel/events.h"

namespace bide::kernel {
namespace {

std::string link(std::string_view member, RunId run) {
  return json::Writer().begin_object().member(member, run.value).end_object().take();
}

}  // namespace

std::string continue_run(db::Tx& tx, RunId run, const ContinueAsNew& next, TimeMs now, Ripples* ripples) {
  const auto row = read_run(tx, run).value();
  StartRun start;
  start.workflow = row.workflow;
  start.version = next.version.valid() ? next.version : row.version;
  start.uid = next.uid;
  start.input = next.input;
  start.created_by = row.created_by;
  start.mission = row.mission;
  start.priority = row.priority;
  start.labels = row.labels;
  start.deadline = row.deadline;
  const RunId successor = std::get<RunStarted>(start_run(tx, start, now)).run;
  db::Query(tx, "UPDATE runs SET continued_from = ?2 WHERE id = ?1").bind(successor, run).run();
  db::Query(tx, "UPDATE signals SET run_id = ?2 WHERE run_id = ?1 AND consumed_by IS NULL").bind(run, successor).run();
  db::Query(tx, "UPDATE early_decisions SET run_id = ?2 WHERE run_id = ?1").bind(run, successor).run();
  hand_over_child(tx, run, successor);
  append_event(tx, now, "run.continued", run, StepId(), link("continued_as", successor));
  if (ripples != nullptr) ripples->queued = true;
  return link("continued_as", successor);
}

std::optional<RunId> continued_as(db::ReadTx& tx, RunId run) {
  db::Query q(tx, "SELECT id FROM runs WHERE continued_from = ? LIMIT 1");
  q.bind(run);
  if (!q.next()) return std::nullopt;
  return RunId(q.integer(0));
}

}  // namespace bide::kernel
