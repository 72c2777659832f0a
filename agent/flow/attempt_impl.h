// Shared by the attempt_*.cpp files only.
#pragma once

#include <chrono>
#include <utility>

#include "agent/base/errors.h"
#include "agent/flow/attempt.h"
#include "agent/flow/failure_json.h"

namespace bide::flow {

template <class Job>
auto Attempt::persist(Guard& guard, Job job, db::Purpose purpose, bool patient) {
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
      if (!patient || closing() == Closing::shutdown || closing() == Closing::lease_lost) throw;
    } catch (const StorageBusy&) {
      if (!patient || closing() == Closing::shutdown || closing() == Closing::lease_lost) throw;
    }
    Guard waiting(mutex_);
    wait_for_change(waiting, limits::kDiskProbeMs);
  }
}

// Remote: from where the entry of a place was found until the request that asked for it first has written it, or gave
// up. The same request that comes meanwhile waits for that.
class Attempt::Opening {
 public:
  Opening(Entry& entry, Condition& changed) : entry_(entry), changed_(changed) {}
  ~Opening() {
    if (!entry_.opening) return;
    entry_.opening = false;
    changed_.notify_all();
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

 private:
  Entry& entry_;
  Condition& changed_;
};
// How often a caller that waits is looked at, whether it is still there.
inline constexpr DurationMs kGoneLookMs = 250;

// E2: 1 s, doubling, at most 5 min, ±20 %; a declared backoff is kept exactly.
[[nodiscard]] DurationMs backoff_of(const StepAsk& ask, std::int64_t failures, std::uint64_t chance);

// The row of a holder, and its entry in the transaction that begins its step.
[[nodiscard]] kernel::ProcessRow holder_row(const ProcessKey& key, const std::string& nonce);
void add_holder(db::Tx& tx, const kernel::Fence& fence, kernel::ProcessRow row, StepId step);

}  // namespace bide::flow
