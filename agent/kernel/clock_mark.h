// The mark of the store's clock in the file [C6]: the latest time that was given out, as far as it was written.
#pragma once

#include <string_view>

#include "db/tx.h"

namespace bide::kernel {

// An operator accepted the wall clock: it may lower the mark. What was due by the old clock is due by the new one.
// Event control.clock_accepted.
void accept_clock(db::Tx& tx, std::string_view by, TimeMs was, TimeMs now);

}  // namespace bide::kernel
