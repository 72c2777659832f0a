// First-of: one step with several waits; the first that is settled wins, the others are closed with it [A10].
// A timer among them is a deadline of the whole group: what comes after it is too late, whoever sees it first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/kernel/waits.h"

namespace bide::kernel {

struct Alternative {
  WaitKind kind = WaitKind::approval;  // approval | question | signal | timer
  std::string name;                    // one a group
  std::string payload = "{}";
  std::optional<TimeMs> resolve_by;  // a timer's
};
// A1, for all of them. WaitOpened::settled: an early decision or an unread signal decided at once, the first in order.
[[nodiscard]] OpenOutcome open_first_of(db::Tx& tx, const Fence& fence, const StepIntent& intent,
                                        const std::vector<Alternative>& alternatives, bool reset_recoveries,
                                        TimeMs now);

// The wait of a step that counts, of the latest of each name: the one that was settled, else its timer, else the last.
[[nodiscard]] std::optional<WaitRow> deciding_wait(db::ReadTx& tx, StepId step);
// When a pending wait of this step stops taking answers because of a timer beside it.
[[nodiscard]] std::optional<TimeMs> group_deadline(db::ReadTx& tx, StepId step);
// The others of a group are closed in the transaction that settles one.
void close_siblings(db::Tx& tx, const WaitRow& won, TimeMs now);

// {"won":name,"value":…}
[[nodiscard]] std::string won_value(std::string_view name, std::string_view value);

}  // namespace bide::kernel
