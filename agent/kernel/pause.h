// Pause, resume, and the deadline of a run [X5].
#pragma once

#include <variant>
#include <vector>

#include "agent/base/errors.h"
#include "agent/kernel/runs.h"
#include "db/tx.h"

namespace bide::kernel {

struct PauseChanged {
  bool running = false;  // its attempt hands back at its next step boundary: ring it
};
struct PauseSame {};  // it was so already
// Problem codes: run_not_found 404, run_ended 409.
using PauseOutcome = std::variant<PauseChanged, PauseSame, Problem>;
// A live run is not claimed while it is paused; its deadlines and those of its waits go on, answers are taken.
[[nodiscard]] PauseOutcome pause_run(db::Tx& tx, RunId run, std::string_view by, TimeMs now);
[[nodiscard]] PauseOutcome resume_run(db::Tx& tx, RunId run, std::string_view by, TimeMs now);

// Whether enforce_deadlines would find one.
[[nodiscard]] bool deadline_due(db::ReadTx& tx, TimeMs now);
// Live runs past their deadline, the oldest first, at most `limit`: their end is written as `Timeout` [E6]. One that
// runs is told, like by a cancel; another ends here, or is queued to take back what it did. Returns how many.
int enforce_deadlines(db::Tx& tx, int limit, TimeMs now, Ripples* ripples);

}  // namespace bide::kernel
