#include "agent/base/clock.h"

#include <ctime>

#include <algorithm>

#include "agent/base/limits.h"

namespace bide {
namespace {

std::int64_t read_clock(clockid_t which) {
  timespec ts{};
  ::clock_gettime(which, &ts);
  return static_cast<std::int64_t>(ts.tv_sec) * 1000 + ts.tv_nsec / 1'000'000;
}

}  // namespace

TimeMs SystemClock::wall_ms() { return read_clock(CLOCK_REALTIME); }
BootMs SystemClock::boot_ms() { return read_clock(CLOCK_BOOTTIME); }

StoreClock::StoreClock(Clock& clock, TimeMs mark)
    : clock_(clock),
      offset_(std::max(clock.wall_ms(), mark) - clock.boot_ms()),
      mark_(mark),
      held_(mark - clock.wall_ms() > limits::kClockFollowMs) {}

TimeMs StoreClock::now() const { return offset_.load(std::memory_order_relaxed) + clock_.boot_ms(); }

void StoreClock::follow_wall() {
  const TimeMs wall = clock_.wall_ms();
  if (held_.load(std::memory_order_relaxed) && wall >= mark_) held_.store(false, std::memory_order_relaxed);
  const DurationMs ahead = wall - now();
  if (ahead > 0 && ahead <= limits::kClockFollowMs) offset_.fetch_add(ahead, std::memory_order_relaxed);
}

bool StoreClock::held() const { return held_.load(std::memory_order_relaxed); }

}  // namespace bide
