#include "agent/kernel/catalog.h"

namespace bide::kernel {
namespace {

WorkflowKind kind_of(std::string_view text) {
  if (text == "program") return WorkflowKind::program;
  return text == "remote" ? WorkflowKind::remote : WorkflowKind::native;
}

}  // namespace

WorkflowCounts count_runs(db::ReadTx& tx, WorkflowId workflow) {
  WorkflowCounts counts;
  {
    db::Query q(tx, "SELECT count(*) FROM runs WHERE workflow_id = ?");
    q.bind(workflow);
    counts.runs = q.one().integer(0);
  }
  {
    db::Query q(
        tx,
        "SELECT count(*) FILTER (WHERE status = 'queued'), count(*) FILTER (WHERE status = 'running'), count(*) "
        "FILTER (WHERE status = 'waiting') FROM runs INDEXED BY runs_live WHERE finished_at IS NULL AND "
        "workflow_id = ?");
    q.bind(workflow).one();
    counts.queued = q.integer(0);
    counts.running = q.integer(1);
    counts.waiting = q.integer(2);
  }
  db::Query q(tx, "SELECT count(*) FROM runs INDEXED BY runs_failed WHERE status = 'failed' AND workflow_id = ?");
  q.bind(workflow);
  counts.failed = q.one().integer(0);
  return counts;
}

std::optional<WorkflowDetail> read_workflow(db::ReadTx& tx, std::string_view name, int versions) {
  WorkflowDetail detail;
  {
    db::Query q(tx, "SELECT id, name FROM workflows WHERE name = ?");
    q.bind(name);
    if (!q.next()) return std::nullopt;
    detail.id = WorkflowId(q.integer(0));
    detail.name = q.text(1);
  }
  detail.counts = count_runs(tx, detail.id);
  db::Query q(
      tx,
      "SELECT v.id, v.version, v.kind, v.manifest, v.created_at, (SELECT count(*) FROM runs r WHERE "
      "r.workflow_version_id = v.id) FROM workflow_versions v WHERE v.workflow_id = ?1 ORDER BY v.id DESC LIMIT "
      "?2");
  q.bind(detail.id, versions);
  while (q.next()) {
    detail.versions.push_back(
        {VersionId(q.integer(0)), q.text(1), kind_of(q.text(2)), q.text(3), q.integer(4), q.integer(5)});
  }
  return detail;
}

}  // namespace bide::kernel
