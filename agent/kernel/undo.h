// Compensations: what a run that ends failed or cancelled takes back, and whether it has to [E6]. They are steps of the
// reserved branch ~undo; the position of one is "~undo/" and the seq of the step that it takes back, so none is there
// twice. Pure reading, any ReadTx.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kernel/runs.h"
#include "db/tx.h"

namespace bide::kernel {

inline constexpr std::string_view kUndoBranch = "~undo";

struct Compensation {
  std::int64_t seq = 0;  // of the step that it takes back
  std::string step;      // name of that step
  std::string
      compensate;       // as recorded with the intent; native: {"name","argument"}, program: {"command","cwd","export"}
  std::string result;   // of the step, JSON
  std::string key_uid;  // whose keys the step has: the run's uid, or that of the run it was copied from [X4, J6]
};
// Those that are not done yet, the step that settled last first. Completed steps only: what is in doubt is listed, not
// taken back. None when an operator said so.
[[nodiscard]] std::vector<Compensation> open_compensations(db::ReadTx& tx, RunId run);
[[nodiscard]] bool has_compensations(db::ReadTx& tx, RunId run);
// A step of ~undo is there: whatever its state, the world is not what the journal says any more [X3].
[[nodiscard]] bool undo_began(db::ReadTx& tx, RunId run);

}  // namespace bide::kernel
