// Doorbell: wakes one thread that waits for work. A ring before the wait is not lost; many rings are one.
// Thread-safe. ring() never blocks, allocates or throws: it may be called after a commit, on the writer.
#pragma once

#include <chrono>

#include "agent/base/mutex.h"

namespace bide {

class Doorbell {
 public:
  void ring() {
    {
      Lock lock(mutex_);
      rung_ = true;
    }
    condition_.notify_all();
  }
  // True: rung (and reset). False: the time passed first.
  bool wait_for(std::chrono::milliseconds longest) NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock lock(mutex_);
    const bool rung = condition_.wait_for(lock, longest, [this]() NO_THREAD_SAFETY_ANALYSIS { return rung_; });
    rung_ = false;
    return rung;
  }
  void wait() NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock lock(mutex_);
    condition_.wait(lock, [this]() NO_THREAD_SAFETY_ANALYSIS { return rung_; });
    rung_ = false;
  }

 private:
  Mutex mutex_;
  Condition condition_;
  bool rung_ GUARDED_BY(mutex_) = false;
};

}  // namespace bide
