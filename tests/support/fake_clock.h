// FakeClock: a Clock that stands still until the test moves it. Thread-safe.
#pragma once

#include <atomic>

#include "agent/base/clock.h"

namespace bide::test {

class FakeClock final : public Clock {
 public:
  // 2027-01-01T00:00:00Z, an hour after the boot.
  explicit FakeClock(TimeMs wall = 1'798'761'600'000, BootMs boot = 3'600'000) : wall_(wall), boot_(boot) {}

  TimeMs wall_ms() override { return wall_.load(); }
  BootMs boot_ms() override { return boot_.load(); }

  // Time passes: both clocks move.
  void advance(DurationMs by) {
    wall_ += by;
    boot_ += by;
  }
  // Somebody sets the wall clock (by may be negative), or it is set to a time; the boot clock never steps.
  void step_wall(DurationMs by) { wall_ += by; }
  void set_wall(TimeMs at) { wall_ = at; }
  void set_boot(BootMs at) { boot_ = at; }

 private:
  std::atomic<TimeMs> wall_;
  std::atomic<BootMs> boot_;
};

}  // namespace bide::test
