#include "agent/base/clock.h"

#include <ctime>

#include <algorithm>
#include <cstdlib>

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
      mark_(mark),
      offset_(std::max(clock.wall_ms(), mark) - clock.boot_ms()),
      held_(mark - clock.wall_ms() > limits::kClockFollowMs),
      behind_(held_.load()) {}

TimeMs StoreClock::now() const { return offset_.load(std::memory_order_relaxed) + clock_.boot_ms(); }

DurationMs StoreClock::follow_wall() {
  Lock lock(mutex_);
  const TimeMs wall = clock_.wall_ms();
  const BootMs boot = clock_.boot_ms();
  if (held_.load(std::memory_order_relaxed) && wall >= mark_) held_.store(false, std::memory_order_relaxed);

  const TimeMs offset = wall - boot;
  const DurationMs ahead = offset - offset_.load(std::memory_order_relaxed);
  const bool behind = -ahead > limits::kClockFollowMs;
  if (behind && !behind_) ++steps_;
  behind_ = behind;
  if (ahead <= limits::kClockFollowMs) {
    ahead_.reset();
    if (ahead > 0) offset_.store(offset, std::memory_order_relaxed);
    return 0;
  }
  if (!ahead_ || std::abs(offset - ahead_->offset) > limits::kClockAgreeMs) {
    ahead_ = Ahead{offset, boot};
    return 0;
  }
  if (boot - ahead_->seen_at < limits::kClockFollowMs) return 0;
  ahead_.reset();
  offset_.store(offset, std::memory_order_relaxed);
  ++steps_;
  return ahead;
}

std::optional<BootMs> StoreClock::look_again_at() const {
  Lock lock(mutex_);
  if (!ahead_) return std::nullopt;
  return ahead_->seen_at + limits::kClockFollowMs;
}

bool StoreClock::held() const { return held_.load(std::memory_order_relaxed); }

TimeMs StoreClock::accept_wall() {
  Lock lock(mutex_);
  const TimeMs wall = clock_.wall_ms();
  const TimeMs offset = wall - clock_.boot_ms();
  if (std::abs(offset - offset_.load(std::memory_order_relaxed)) > limits::kClockAgreeMs) ++steps_;
  offset_.store(offset, std::memory_order_relaxed);
  behind_ = false;
  held_.store(false, std::memory_order_relaxed);
  ahead_.reset();
  return wall;
}

}  // namespace bide
