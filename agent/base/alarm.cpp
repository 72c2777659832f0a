#include "agent/base/alarm.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <limits>

#include "agent/base/errors.h"

namespace bide {
namespace {

// The latest time that the kernel's nanoseconds hold, in the year 2262: a clock that stands beyond it is none.
constexpr std::time_t kNever = std::numeric_limits<std::int64_t>::max() / 1'000'000'000;

// A timer of the wall clock that never fires, but whose read fails with ECANCELED when somebody sets the clock.
void arm_wall(int fd) {
  itimerspec never{};
  never.it_value.tv_sec = kNever;
  ::timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, nullptr);
}

bool drain(int fd) {
  std::uint64_t count = 0;
  return ::read(fd, &count, sizeof count) == static_cast<ssize_t>(sizeof count);
}

}  // namespace

Alarm::Alarm()
    : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      boot_timer_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)),
      wall_timer_(::timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!event_.valid() || !boot_timer_.valid() || !wall_timer_.valid()) throw Bug("alarm: no descriptors left");
  arm_wall(wall_timer_.get());
}

Alarm::Woke Alarm::wait(std::optional<DurationMs> longest) {
  itimerspec spec{};
  if (longest) {
    const DurationMs ms = *longest < 0 ? 0 : *longest;
    spec.it_value.tv_sec = ms / 1000;
    spec.it_value.tv_nsec = (ms % 1000) * 1'000'000;
    if (ms == 0) spec.it_value.tv_nsec = 1;
  }
  ::timerfd_settime(boot_timer_.get(), 0, &spec, nullptr);
  for (;;) {
    pollfd fds[] = {{event_.get(), POLLIN, 0}, {boot_timer_.get(), POLLIN, 0}, {wall_timer_.get(), POLLIN, 0}};
    if (::poll(fds, 3, -1) < 0 && errno != EINTR) throw Bug("alarm: poll failed");
    if ((fds[0].revents & POLLIN) != 0 && drain(event_.get())) return Woke::rung;
    if (fds[2].revents != 0) {
      (void)drain(wall_timer_.get());
      arm_wall(wall_timer_.get());
      return Woke::clock_stepped;
    }
    if ((fds[1].revents & POLLIN) != 0 && drain(boot_timer_.get())) return Woke::due;
  }
}

void Alarm::ring() {
  const std::uint64_t one = 1;
  if (::write(event_.get(), &one, sizeof one) < 0) return;  // full: it is rung already
}

}  // namespace bide
