// Shared by the attempt_*.cpp files only.
#pragma once

#include <chrono>
#include <utility>

#include "agent/base/errors.h"
#include "agent/flow/attempt.h"

namespace bide::flow {

template <class Job>
auto Attempt::persist(Guard& guard, Job job, db::Purpose purpose) {
  guard.unlock();
  struct Relock {
    Guard& guard;
    ~Relock() { guard.lock(); }
  } relock{guard};
  for (;;) {
    if (options_.pace != nullptr) options_.pace->before_write();
    try {
      return store_.write(job, purpose);
    } catch (const StorageFull&) {
      if (closing() == Closing::shutdown || closing() == Closing::lease_lost) throw;
    } catch (const StorageBusy&) {
      if (closing() == Closing::shutdown || closing() == Closing::lease_lost) throw;
    }
    Guard waiting(mutex_);
    wait_for_change(waiting, limits::kDiskProbeMs);
  }
}

// E2: 1 s, doubling, at most 5 min, ±20 %; a declared backoff is kept exactly.
[[nodiscard]] DurationMs backoff_of(const StepAsk& ask, std::int64_t failures, std::uint64_t chance);

// {"code":…,"message":…}
[[nodiscard]] std::string error_json(std::string_view code, std::string_view message);

}  // namespace bide::flow
