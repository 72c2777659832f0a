// Many runs at once: which ones an action fits, by filter, newest first, in pages. The action itself is that of one run
// (endings.h, pause.h). Reads only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kernel/runs.h"
#include "db/tx.h"

namespace bide::kernel {

// cancel fits live runs of which none was asked to cancel; retry failed ones; pause live ones that are not paused;
// resume paused ones.
enum class RunAction { cancel, retry, pause, resume };
[[nodiscard]] std::optional<RunAction> run_action_from(std::string_view text);
[[nodiscard]] std::string_view to_text(RunAction action);

struct ActionFilter {
  std::optional<RunStatus> status;
  std::optional<std::string> workflow;
  std::optional<std::string> mission;
  std::optional<std::string> label;        // a label's name …
  std::optional<std::string> label_value;  // … and what it is, as text
};
// Ids below `before` (invalid: from the newest), at most `limit`.
[[nodiscard]] std::vector<RunId> runs_to_act_on(db::ReadTx& tx, RunAction action, const ActionFilter& filter,
                                                RunId before, int limit);
// As list_runs, but only those with the label; the walk over runs goes back at most to the page's end.
[[nodiscard]] std::vector<RunId> runs_with_label(db::ReadTx& tx, const ActionFilter& filter, RunId before, int limit);

// How many runs of a mission are in each state; empty: there is no such mission.
[[nodiscard]] std::map<RunStatus, std::int64_t> mission_states(db::ReadTx& tx, std::string_view mission);
[[nodiscard]] std::optional<TimeMs> mission_began(db::ReadTx& tx, std::string_view mission);

}  // namespace bide::kernel
