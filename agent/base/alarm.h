// Alarm: sleeps until a time of the boot-time clock, a ring, or a step of the wall clock [C6]. No polling.
// ring() may be called from any thread and never blocks; wait() from one thread.
#pragma once

#include <optional>

#include "agent/base/fd.h"
#include "agent/base/time.h"

namespace bide {

class Alarm {
 public:
  Alarm();
  enum class Woke { rung, due, clock_stepped };
  // nullopt: until rung. A time that has passed returns at once.
  Woke wait(std::optional<DurationMs> longest);
  void ring();

 private:
  Fd event_;
  Fd boot_timer_;
  Fd wall_timer_;
};

}  // namespace bide
