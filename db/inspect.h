// What an operator wants to know of the file itself: is it sound, how large, how it is written. Reads only; on the
// connection of the ReadTx. Faults as tx.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/tx.h"

namespace bide::db {

// What SQLite's own check finds wrong, at most ten lines; empty: nothing. Reads the whole file.
[[nodiscard]] std::vector<std::string> check_file(ReadTx& tx);
struct FileSize {
  std::int64_t bytes = 0;
  std::int64_t free_bytes = 0;  // within it
};
[[nodiscard]] FileSize file_size(ReadTx& tx);

}  // namespace bide::db
