// IdCounters: the ids of the hot tables (steps, waits, events), counted in memory by the writer [D2].
// An id that has left the file never comes back: a start takes max(id, mark) + 1, where the mark stands in
// meta `id_mark:<table>` and is written by the DELETE trigger of the table when its highest row goes, whoever
// deletes it. A table that is missing counts from 1. The writer's thread only.
#pragma once

#include <array>
#include <cstdint>

#include "db/tx.h"

namespace bide::db {

class IdCounters {
 public:
  using Values = std::array<std::int64_t, kCounters>;

  [[nodiscard]] std::int64_t next(Counter counter) { return ++last_[static_cast<std::size_t>(counter)]; }
  // The state to give back to, when a job or a batch rolls back; never below what load() found in the file.
  [[nodiscard]] const Values& values() const { return last_; }
  void give_back(const Values& values);
  // Reads the file; never lowers a counter. At a start, and after a foreign hand has written.
  void load(Connection& connection);

 private:
  Values last_{};
  Values in_file_{};  // as load() saw it: a foreign hand's ids stay taken, whatever of ours is rolled back
};

}  // namespace bide::db
