// Live runs that go on in a newer version of their program, because it accepts theirs [K1].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/ids.h"
#include "db/tx.h"

namespace bide::kernel {

// Runs of this workflow that nobody drives now and that began with one of these versions; by id, at most `most`.
[[nodiscard]] std::vector<RunId> movable_runs(db::ReadTx& tx, std::string_view workflow,
                                              const std::vector<std::string>& versions, std::int64_t most);
// Pins it to `version`, with event run.moved. False: it is driven by now, or has ended.
bool move_run(db::Tx& tx, RunId run, VersionId version, TimeMs now);

}  // namespace bide::kernel
