// Clock: the one source of time (rule C1). Nothing but clock.cpp asks the system what time it is.
// StoreClock: "now" of the file, from an anchor and the boot-time clock (rule C6). Thread-safe.
#pragma once

#include <atomic>

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

// now() = anchor + boot time since the anchor. Never goes backwards.
class StoreClock {
 public:
  // `mark`: the clock_mark of the file, 0 for a new one; the anchor is the later of the wall clock and it.
  StoreClock(Clock& clock, TimeMs mark);
  [[nodiscard]] TimeMs now() const;
  // Once a pass: follows a wall clock that runs ahead by up to 60 s; a wall clock behind is waited for.
  void follow_wall();
  // True while the wall clock was more than 60 s behind the mark at the start and has not passed it since.
  [[nodiscard]] bool held() const;

 private:
  Clock& clock_;
  std::atomic<TimeMs> offset_;  // now = offset_ + boot_ms()
  TimeMs mark_;
  mutable std::atomic<bool> held_;
};

}  // namespace bide
