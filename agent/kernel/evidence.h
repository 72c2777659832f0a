// Evidence: what is known of an execution whose outcome nobody may record any more. It changes nothing; it is shown
// with the question of the step in doubt [E3, K2].
#pragma once

#include <string>
#include <string_view>

#include "agent/kernel/states.h"
#include "db/tx.h"

namespace bide::kernel {

// What was handed in: JSON, a result or an error.
struct HandedIn {
  std::string_view text;
  bool failed = false;
};

// Event step.late_outcome of a fence that is lost: {"epoch","name","result" | "error"}. Of an outcome over 4 KiB the
// first bytes are kept, as a text: {…,"result_cut" | "error_cut"}. `step` invalid: its intent is not in the file [J1].
void keep_late_outcome(db::Tx& tx, RunId run, StepId step, std::int64_t epoch, std::string_view name,
                       const HandedIn& handed, TimeMs now);
// An outcome handed in for an attempt that no process drives any more (its agent died): its secret died too, so it is
// believed by the nonce of the step's present execution. Kept once an execution. False: no such execution, not kept.
bool keep_orphaned_outcome(db::Tx& tx, RunId run, std::int64_t seq, std::int64_t epoch, std::string_view nonce,
                           const HandedIn& handed, TimeMs now);

// {"probe"?,"executions","first_began_at","last_began_at","failed_attempts":[{"at","error"}],"late_outcomes":[{"at",
// "epoch","result" | "error" | …}]}: the last ten of each. probe: what came of asking it; empty: not said.
[[nodiscard]] std::string evidence_of(db::ReadTx& tx, StepId step, std::string_view probe = "");

}  // namespace bide::kernel
