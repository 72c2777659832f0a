// Many runs at once: an action on all that a filter finds, limits::kActionRuns to a transaction, so that decisions of
// others come in between. Each run is treated as by the command on one; what one refuses stops no other.
// Thread-safe; returns after the last COMMIT. A crash in the middle leaves whole transactions: the same call again goes
// on where it stopped, because what was done does not fit any more.
#pragma once

#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "agent/kernel/principal.h"
#include "agent/kernel/run_actions.h"
#include "agent/work/commands.h"

namespace bide::work {

struct ManyAsk {
  kernel::RunAction action = kernel::RunAction::cancel;
  kernel::ActionFilter filter;
  std::vector<RunId> runs;  // not empty: these, whatever the filter
  bool dry_run = false;     // only count
  std::string reason;       // cancel
  bool without_compensation = false;
};
struct ManyItem {
  RunId run;
  bool done = false;
  std::string what;  // done: cancelled, cancelling, compensating, queued, paused, pausing, resumed; else the code
};
struct ManyReport {
  std::int64_t matched = 0;
  std::int64_t done = 0;
  std::map<std::string, std::int64_t> refused;  // by code
  std::vector<ManyItem> items;                  // the first limits::kActionItems
  bool cut_short = false;                       // the agent closes: the rest was not looked at
};
[[nodiscard]] ManyReport act_on_many(Commands& commands, const ManyAsk& ask, const kernel::Principal& by,
                                     const std::stop_token& stop);

}  // namespace bide::work
