// Feed: tells waiting requests that something was committed. Many commits are one; a reader looks at the file itself.
// Thread-safe. notify() is a bell.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "agent/base/mutex.h"
#include "agent/base/time.h"

namespace bide::work {

class Feed {
 public:
  // Rings all who wait. Cheap while nobody does.
  void notify() {
    {
      Lock lock(mutex_);
      ++commits_;
      if (waiting_ == 0) return;
    }
    changed_.notify_all();
  }
  [[nodiscard]] std::uint64_t seen() const {
    Lock lock(mutex_);
    return commits_;
  }
  // Waits until a commit after `seen`, for at most `longest`, or until close(). Returns the newest count.
  std::uint64_t wait(std::uint64_t seen, DurationMs longest) NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.wait_for(lock, std::chrono::milliseconds(longest),
                      [&]() REQUIRES(mutex_) { return commits_ != seen || closed_; });
    --waiting_;
    return commits_;
  }
  void close() {
    {
      Lock lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }
  [[nodiscard]] bool closed() const {
    Lock lock(mutex_);
    return closed_;
  }

 private:
  mutable Mutex mutex_;
  Condition changed_;
  std::uint64_t commits_ GUARDED_BY(mutex_) = 0;
  int waiting_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace bide::work
