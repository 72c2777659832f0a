#include "agent/kernel/walls.h"

namespace bide::kernel {

std::vector<std::string> gates_without_wall(db::ReadTx& tx, std::int64_t most) {
  db::Query q(tx,
              "SELECT DISTINCT f.name FROM waits w INDEXED BY waits_inbox JOIN runs r ON r.id = w.run_id "
              "JOIN workflow_versions v ON v.id = r.workflow_version_id JOIN workflows f ON f.id = v.workflow_id "
              "WHERE w.status = 'pending' AND w.kind IN ('approval','question','reconcile') AND w.kind = 'approval' "
              "AND json_extract(w.payload, '$.policy') = 'not_initiator' AND v.kind = 'program' "
              "AND json_extract(v.manifest, '$.run_as') IS NULL ORDER BY f.name LIMIT ?");
  q.bind(most);
  std::vector<std::string> names;
  while (q.next()) names.push_back(q.text(0));
  return names;
}

}  // namespace bide::kernel
