// The store's clock and the wall, as the agent's passes see them [C6].
#include <catch2/catch.hpp>

#include "tests/support/eventually.h"
#include "tests/support/rig.h"

namespace bide {
namespace {

using kernel::RunStatus;
using test::Rig;

constexpr DurationMs kHour = 3'600'000;

void add_sleeper(Rig& rig) {
  rig.add("sleeper", [](flow::Context& c) {
    c.sleep(kHour);
    return std::string("\"woken\"");
  });
}

TEST_CASE("[N127] a wall clock that jumps ahead: the pass that may follow it comes by itself, 60 s later [C6]") {
  Rig rig;
  add_sleeper(rig);
  const RunId run = rig.start("sleeper");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::queued);
  (void)rig.sweep->pass();
  CHECK(rig.sweep->until_next() > limits::kClockFollowMs);  // nothing to look at
  rig.clock.step_wall(kHour);
  (void)rig.sweep->pass();  // seen, not believed
  CHECK(rig.drive() == 0);
  CHECK(rig.sweep->until_next() == limits::kClockFollowMs);
  rig.advance(limits::kClockFollowMs - 1);
  (void)rig.sweep->pass();
  CHECK(rig.drive() == 0);
  CHECK(rig.sweep->until_next() == 1);
  rig.advance(1);
  (void)rig.sweep->pass();
  CHECK(rig.drive() == 1);
  CHECK(rig.run(run).result == "\"woken\"");
  CHECK(rig.sweep->until_next() > limits::kClockFollowMs);
}

TEST_CASE("[N85] a start with the wall a day behind is held until an operator accepts the wall [C6]") {
  Rig rig;
  add_sleeper(rig);
  rig.add("quick", [](flow::Context&) { return std::string("1"); });
  const RunId slept = rig.start("sleeper");
  rig.drive();
  const TimeMs wakes_at = rig.run(slept).run_at;
  rig.clock.step_wall(-24 * kHour);
  rig.restart();
  CHECK(rig.store->clock().held());
  const RunId due = rig.start("quick");  // starts are taken all the same, and are due by this clock
  const TimeMs behind = rig.clock.wall_ms();
  CHECK(rig.store->now() > behind);
  const auto accepted = rig.commands->accept_clock(Rig::person());
  CHECK(accepted.was_held);
  CHECK(accepted.now == behind);
  CHECK(accepted.was > behind);
  CHECK_FALSE(rig.store->clock().held());
  CHECK(rig.store->now() == behind);
  CHECK(rig.number("SELECT value FROM meta WHERE key = 'clock_mark'") == behind);
  CHECK(rig.number("SELECT count(*) FROM events WHERE kind = 'control.clock_accepted'") == 1);
  // It is the file's clock now: a restart is not held, and what was due at a time is due at that time.
  rig.restart();
  CHECK_FALSE(rig.store->clock().held());
  CHECK(rig.drive() == 1);
  CHECK(rig.run(due).status == RunStatus::completed);
  const RunId quick = rig.start("quick");
  CHECK(rig.drive() == 1);
  CHECK(rig.run(quick).status == RunStatus::completed);
  rig.advance(wakes_at - rig.store->now() - 1);
  CHECK(rig.drive() == 0);
  rig.advance(1);
  CHECK(rig.drive() == 1);
}

}  // namespace
}  // namespace bide
