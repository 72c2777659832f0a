// Runs that nothing would move any more, and their re-drives [W5, W11].
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/kernel/claims.h"
#include "agent/kernel/runs.h"
#include "db/tx.h"

namespace bide::kernel {

struct StalledPage {
  std::vector<RunId> found;
  RunId last;  // go on after it; invalid: the end was reached
};
// W11: one page of live runs by id, and those of them that have no wake source. Stalled: `waiting` without a pending
// wait that another than time settles; `queued` and due for limits::kStalledMs while `idle` (workers are free and
// claims go on) and nothing in K1 forbids it. A running run's source is its driver, its lease or the orphan scan [W4].
[[nodiscard]] StalledPage find_stalled(db::ReadTx& tx, const ClaimRules& rules, RunId after, int limit, bool idle,
                                       TimeMs now);
// Sets redrive_at = now where none is set.
void note_stalled(db::Tx& tx, RunId run, TimeMs now);
// Due re-drives, oldest first.
[[nodiscard]] std::vector<RunId> due_redrives(db::ReadTx& tx, int limit, TimeMs now);
// The next re-drive is written before this one is done: 30 s doubling to 600 s. Then the run is queued now.
// False: it is not stalled any more; the mark is cleared.
[[nodiscard]] bool redrive(db::Tx& tx, const ClaimRules& rules, RunId run, TimeMs now);

}  // namespace bide::kernel
