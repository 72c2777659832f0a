#include "agent/kernel/audit.h"

#include "agent/base/json.h"
#include "agent/kernel/audit_chain.h"

namespace bide::kernel {

void audit_answer(db::Tx& tx, RunId run, std::string_view name, const WaitRow* wait, const Decision& decision,
                  std::string_view decided_by, std::string_view verdict, std::string_view why, TimeMs now) {
  json::Writer w;
  w.begin_object().member("decision", decision.decision);
  if (decision.answer) w.member_raw("answer", *decision.answer);
  if (decision.result) w.member_raw("result", *decision.result);
  if (!decision.comment.empty()) w.member("comment", decision.comment);
  w.end_object();
  std::optional<WaitId> wait_id;
  std::optional<db::Blob> digest;
  if (wait != nullptr) {
    wait_id = wait->id;
    digest = db::Blob{wait->digest};
  }
  std::optional<std::string_view> reason;
  if (!why.empty()) reason = why;
  db::Query(
      tx,
      "INSERT INTO approvals_audit (at, run_uid, run_id, workflow, wait_id, name, digest, decided_by, verdict, "
      "decision, why) "
      "SELECT ?1, r.uid, r.id, f.name, ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM runs r JOIN workflows f ON f.id = r.workflow_id "
      "WHERE r.id = ?2")
      .bind(now, run, wait_id, name, digest, decided_by, verdict, w.text(), reason)
      .run();
  chain_audit(tx, tx.last_insert_id());
}

}  // namespace bide::kernel
