// The timer that tells when somebody sets the clock was armed for the last second of 32 bits: with a clock beyond
// 2038-01-19 it was always due, and the dispatcher and the sweep turned without a rest. It is armed for 2262 now.
#include <catch2/catch.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/base/alarm.h"

using namespace bide;

namespace {

// Seconds until the timers of the wall clock in this process are due, as the kernel says; 0: there is none.
std::int64_t wall_timer_due() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream in(entry.path());
    std::stringstream text;
    text << in.rdbuf();
    if (text.str().find("clockid: 0\n") == std::string::npos) continue;
    const auto at = text.str().find("it_value: (");
    if (at != std::string::npos) return std::stoll(text.str().substr(at + 11));
  }
  return 0;
}

}  // namespace

TEST_CASE("[C6] issue: the timer that watches the wall clock is due in no time that the clock can have") {
  REQUIRE(wall_timer_due() == 0);
  Alarm alarm;
  constexpr std::int64_t kYear = 365LL * 24 * 3600;
  CHECK(wall_timer_due() > 200 * kYear);
  CHECK(alarm.wait(10) == Alarm::Woke::due);
  CHECK(wall_timer_due() > 200 * kYear);
}
