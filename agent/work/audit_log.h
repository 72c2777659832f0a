// The head of the audit's chain goes to the log: when it has changed, at most once in limits::kAuditHeadMs, and at a
// stop. Whoever changes the file afterwards, and makes the chain anew, has another head than the log [A7].
// Threads: pass() and look() on the sweep's, say() when that has ended.
#pragma once

#include <cstdint>
#include <optional>

#include "agent/base/time.h"
#include "db/store.h"

namespace bide::work {

class AuditLog {
 public:
  explicit AuditLog(db::Store& store) : store_(store) {}
  // A sweep duty; 1: a line was written.
  std::int64_t pass();
  // In how long a head that is not in the log yet may be; nullopt: all are.
  [[nodiscard]] std::optional<DurationMs> look();
  // Now, if it has changed.
  std::int64_t say();

 private:
  db::Store& store_;
  std::int64_t said_ = 0;  // the row of the last line
  std::optional<BootMs> said_at_;
};

}  // namespace bide::work
