#include "agent/kernel/undo.h"

#include <algorithm>

#include "agent/base/planted.h"

namespace bide::kernel {

#define BIDE_OPEN_COMPENSATIONS                                                                                     \
  "FROM steps s JOIN runs r ON r.id = s.run_id "                                                                    \
  "WHERE s.run_id = ?1 AND s.status = 'completed' AND s.compensate IS NOT NULL AND "                                \
  "r.skip_compensation = 0 AND NOT EXISTS (SELECT 1 FROM steps u WHERE u.run_id = ?1 AND u.position = '~undo/' || " \
  "s.seq AND u.status IN ('completed', 'failed', 'cancelled')) "

std::vector<Compensation> open_compensations(db::ReadTx& tx, RunId run) {
  std::vector<Compensation> open;
  if (BIDE_PLANTED(nothing_taken_back)) return open;
  db::Query q(tx,
              "SELECT s.seq, s.name, s.compensate, s.result, coalesce((SELECT o.uid FROM steps c JOIN runs o ON o.id = "
              "c.run_id WHERE c.id = s.copied_from), r.uid) " BIDE_OPEN_COMPENSATIONS
              "ORDER BY s.settled_no DESC, s.seq DESC");
  q.bind(run);
  while (q.next()) open.push_back({q.integer(0), q.text(1), q.text(2), q.maybe_text(3).value_or("null"), q.text(4)});
  if (BIDE_PLANTED(taken_back_forwards)) std::reverse(open.begin(), open.end());
  return open;
}

bool has_compensations(db::ReadTx& tx, RunId run) {
  db::Query q(tx, "SELECT 1 " BIDE_OPEN_COMPENSATIONS "LIMIT 1");
  return q.bind(run).next();
}

bool undo_began(db::ReadTx& tx, RunId run) {
  db::Query q(tx, "SELECT 1 FROM steps WHERE run_id = ? AND position >= '~undo/' AND position < '~undo0' LIMIT 1");
  return q.bind(run).next();
}

}  // namespace bide::kernel
