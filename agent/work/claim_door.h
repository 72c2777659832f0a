// ClaimDoor: whether runs and tasks are claimed here [K1, K8]. An operator shuts it to let the agent run dry before it
// is stopped or moved; a new process begins with it open. It holds nothing else back: what executes ends, answers and
// deliveries go on.
// Thread-safe. shut() waits for claims that have begun, each a commit long: not from a writer's job or a bell.
#pragma once

#include <utility>

#include "agent/base/mutex.h"

namespace bide::work {

class ClaimDoor {
 public:
  // Held over a claim's transaction; false: no claim may begin.
  class Pass {
   public:
    Pass() = default;
    explicit Pass(ClaimDoor& door) : door_(&door) {}
    Pass(Pass&& other) noexcept : door_(std::exchange(other.door_, nullptr)) {}
    Pass& operator=(Pass&&) = delete;
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    ~Pass() {
      if (door_ != nullptr) door_->leave();
    }
    explicit operator bool() const { return door_ != nullptr; }

   private:
    ClaimDoor* door_ = nullptr;
  };
  [[nodiscard]] Pass enter() {
    Lock lock(mutex_);
    if (shut_) return {};
    ++inside_;
    return Pass(*this);
  }
  // When it returns, whatever was claimed stands in the file as claimed.
  void shut() NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock lock(mutex_);
    shut_ = true;
    left_.wait(lock, [this]() REQUIRES(mutex_) { return inside_ == 0; });
  }
  void open() {
    Lock lock(mutex_);
    shut_ = false;
  }
  [[nodiscard]] bool is_shut() const {
    Lock lock(mutex_);
    return shut_;
  }

 private:
  void leave() {
    {
      Lock lock(mutex_);
      --inside_;
    }
    left_.notify_all();
  }

  mutable Mutex mutex_;
  Condition left_;
  int inside_ GUARDED_BY(mutex_) = 0;
  bool shut_ GUARDED_BY(mutex_) = false;
};

}  // namespace bide::work
