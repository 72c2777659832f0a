// The file's size, and giving back what nothing uses [W9]. The file is made with auto_vacuum=INCREMENTAL: free pages
// stay in it until they are asked for. Threads: as Tx and ReadTx.
#pragma once

#include <cstdint>

#include "db/tx.h"

namespace bide::db {

struct FileSpace {
  std::int64_t page_bytes = 0;
  std::int64_t pages = 0;  // of the file, without its WAL
  std::int64_t free = 0;   // of them: nothing is in them
  [[nodiscard]] std::int64_t bytes() const { return pages * page_bytes; }
  [[nodiscard]] std::int64_t free_bytes() const { return free * page_bytes; }
  [[nodiscard]] std::int64_t used_bytes() const { return (pages - free) * page_bytes; }
};
[[nodiscard]] FileSpace file_space(ReadTx& tx);

// Moves what lies at the file's end into free pages and cuts the end off, `most` pages at most; returns how many. The
// file itself becomes shorter at the next checkpoint.
int give_back_space(Tx& tx, int most);

}  // namespace bide::db
