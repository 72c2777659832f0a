#include "agent/kernel/run_links.h"

#include "agent/base/json.h"
#include "agent/base/time.h"

namespace bide::kernel {

RunLinks run_links(db::ReadTx& tx, RunId run) {
  db::Query q(
      tx,
      "SELECT v.version, r.forked_from, (SELECT s.run_id FROM steps s WHERE s.id = r.parent_step_id) FROM runs r "
      "JOIN workflow_versions v ON v.id = r.workflow_version_id WHERE r.id = ?");
  q.bind(run);
  if (!q.next()) return {};
  return {q.text(0), RunId(q.maybe_integer(1).value_or(0)), RunId(q.maybe_integer(2).value_or(0))};
}

std::string votes_json(db::ReadTx& tx, WaitId wait) {
  json::Writer w;
  w.begin_array();
  db::Query q(
      tx, "SELECT decided_by, decision, decided_at FROM decisions WHERE wait_id = ? ORDER BY decided_at, decided_by");
  q.bind(wait);
  while (q.next()) {
    w.begin_object().member("by", q.text(0)).member("decision", q.text(1)).member("at", format_time(q.integer(2)));
    w.end_object();
  }
  return w.end_array().take();
}

}  // namespace bide::kernel
