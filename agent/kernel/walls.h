// Where a decision rests on a wall that is not there [A7]. Reading only, for the doctor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/tx.h"

namespace bide::kernel {

// Program workflows that ask now for an approval by somebody else than their initiator (`not_initiator`), while their
// processes run as the agent's own user: these could decide it themselves. Sorted; at most `most`.
[[nodiscard]] std::vector<std::string> gates_without_wall(db::ReadTx& tx, std::int64_t most);

}  // namespace bide::kernel
