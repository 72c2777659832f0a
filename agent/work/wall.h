// The store's clock and the wall [C6]: what every pass does before it looks at what is due.
#pragma once

#include <optional>

#include "db/store.h"

namespace bide::work {

// Follows the wall clock, and warns of a jump. In how long a pass has to look again at a wall clock that is far ahead;
// nullopt: it is not.
std::optional<DurationMs> follow_wall(db::Store& store);

}  // namespace bide::work
