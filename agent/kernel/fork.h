// Fork: a new run that begins with a part of another one's journal [X4].
#pragma once

#include <string>
#include <variant>

#include "agent/base/errors.h"
#include "agent/kernel/runs.h"
#include "db/tx.h"

namespace bide::kernel {

struct ForkRun {
  RunId from;
  std::int64_t entries = 0;  // the first so many by order of appearance are copied
  VersionId version;         // of the same workflow; invalid: the one that the run has
  std::string uid;           // Random::uid()
  std::string by;
};
struct Forked {
  RunId run;
  std::int64_t copied = 0;
};
// Copied are entries that are settled, marked as such, in their positions and with their results; ~undo is not, and
// approvals only into the same version: another one is asked about anew. The run that was forked stays as it is.
// Problem codes: run_not_found 404, fork_open 409 (one of the entries is not settled, so nobody knows what it did).
using ForkOutcome = std::variant<Forked, Problem>;
[[nodiscard]] ForkOutcome fork_run(db::Tx& tx, const ForkRun& fork, TimeMs now);

}  // namespace bide::kernel
