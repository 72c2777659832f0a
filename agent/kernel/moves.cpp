#include "agent/kernel/moves.h"

#include "agent/base/json.h"
#include "agent/kernel/events.h"

namespace bide::kernel {

std::vector<RunId> movable_runs(db::ReadTx& tx, std::string_view workflow, const std::vector<std::string>& versions,
                                std::int64_t most) {
  json::Writer list;
  list.begin_array();
  for (const std::string& version : versions) list.string(version);
  db::Query q(tx,
              "SELECT r.id FROM workflows f JOIN workflow_versions v ON v.workflow_id = f.id "
              "JOIN runs r INDEXED BY runs_version ON r.workflow_version_id = v.id "
              "WHERE f.name = ? AND v.version IN (SELECT value FROM json_each(?)) AND r.status IN ('queued','waiting') "
              "ORDER BY r.id LIMIT ?");
  q.bind(workflow, list.end_array().text(), most);
  std::vector<RunId> runs;
  while (q.next()) runs.emplace_back(q.integer(0));
  return runs;
}

bool move_run(db::Tx& tx, RunId run, VersionId version, TimeMs now) {
  const int changed = db::Query(tx,
                                "UPDATE runs SET workflow_version_id = ?2 WHERE id = ?1 AND status IN "
                                "('queued','waiting') AND workflow_version_id <> ?2")
                          .bind(run, version)
                          .run();
  if (changed == 1) append_event(tx, now, "run.moved", run, StepId());
  return changed == 1;
}

}  // namespace bide::kernel
