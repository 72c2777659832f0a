// Clock: the one source of time (rule C1). Nothing but clock.cpp asks the system what time it is.
// StoreClock: "now" of the file, from an anchor and the boot-time clock (rule C6). Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "agent/base/mutex.h"
#include "agent/base/time.h"

namespace bide {

class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual TimeMs wall_ms() = 0;  // CLOCK_REALTIME: may step
  [[nodiscard]] virtual BootMs boot_ms() = 0;  // CLOCK_BOOTTIME
};

class SystemClock final : public Clock {
 public:
  TimeMs wall_ms() override;
  BootMs boot_ms() override;
};

// now() = anchor + boot time since the anchor. Goes backwards only when an operator says so (accept_wall).
// now() and held() take no lock.
class StoreClock {
 public:
  // `mark`: the clock_mark of the file, 0 for a new one; the anchor is the later of the wall clock and it.
  StoreClock(Clock& clock, TimeMs mark);
  [[nodiscard]] TimeMs now() const;
  // Once a pass. A wall clock that runs ahead by up to 60 s is followed; by more when two passes 60 s apart agree;
  // one that is behind is waited for. Returns how far now() jumped if that was by more than 60 s (to be warned of),
  // else 0.
  DurationMs follow_wall();
  // The boot time at which a pass should look again at a wall clock that is far ahead; nullopt: it is not.
  [[nodiscard]] std::optional<BootMs> look_again_at() const;
  // True while the wall clock was more than 60 s behind the mark at the start and has not passed it since.
  [[nodiscard]] bool held() const;
  // `bide clock accept`: now() is the wall clock, forwards or backwards. The caller writes that time as the mark.
  TimeMs accept_wall();
  // Since the start: steps of the wall clock that were seen: ahead and followed, or behind, by more than 60 s; and what
  // accept_wall() moved by more than a second.
  [[nodiscard]] std::uint64_t steps() const { return steps_.load(std::memory_order_relaxed); }

 private:
  struct Ahead {
    TimeMs offset;  // wall - boot when it was seen first
    BootMs seen_at;
  };

  Clock& clock_;
  const TimeMs mark_;
  std::atomic<TimeMs> offset_;  // now = offset_ + boot_ms()
  std::atomic<bool> held_;
  std::atomic<std::uint64_t> steps_{0};
  mutable Mutex mutex_;  // passes of several threads: none adds what another has added already
  std::optional<Ahead> ahead_ GUARDED_BY(mutex_);
  bool behind_ GUARDED_BY(mutex_);
};

}  // namespace bide
