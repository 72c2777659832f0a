// Whether the file itself is sound. Reads only, on the connection of the ReadTx. Faults as tx.h. How large it is:
// space.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/tx.h"

namespace bide::db {

// What SQLite's own check finds wrong, at most ten lines; empty: nothing. Reads the whole file.
[[nodiscard]] std::vector<std::string> check_file(ReadTx& tx);

}  // namespace bide::db
