// An operator accepted a clock that was set back, by a day and more, in a running agent. Its own marks were times of
// that clock: orphans, children and stalled runs were not looked for until it had caught up, and a retry's delay, a
// task's lease or a short sleep lasted as long. Marks are on the clock that nobody sets, delays keep what was left of
// them [C6].
#include <catch2/catch.hpp>

#include "tests/support/rig.h"
#include "tests/support/verdict.h"

using namespace bide;
using kernel::Effect;
using kernel::RunStatus;
using test::Rig;

namespace {

constexpr DurationMs kDay = 24 * 3'600'000;

void set_back_and_accept(Rig& rig) {
  rig.clock.step_wall(-30 * kDay);
  const auto accepted = rig.commands->accept_clock(Rig::person());
  REQUIRE(accepted.now < accepted.was);
}

}  // namespace

TEST_CASE("after the clock was set back, the sweep looks for orphans as often as before") {
  Rig rig;
  rig.add("flow", [](flow::Context&) { return std::string("1"); });
  (void)rig.start("flow");
  rig.sweep->pass();
  set_back_and_accept(rig);
  rig.drive();
  const RunId run = rig.start("flow");
  rig.exec("UPDATE runs SET status = 'running', owner = 'local:gone', epoch = epoch + 1 WHERE id = " +
           std::to_string(run.value));
  rig.advance(limits::kOrphanScanMs);
  rig.sweep->pass();
  CHECK(rig.count_events(run, "run.recovered") == 1);
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::completed);
}

TEST_CASE("after the clock was set back, a retry comes after what was left of its delay") {
  Rig rig;
  int executions = 0;
  rig.add("flow", [&](flow::Context& c) {
    flow::StepOptions options;
    options.backoff = 60'000;
    return c.step(
        "try", Effect::idempotent,
        [&](const flow::EffectInfo&) -> std::string {
          if (++executions == 1) throw std::runtime_error("no");
          return "1";
        },
        options);
  });
  const RunId run = rig.start("flow");
  rig.drive();
  REQUIRE(executions == 1);
  rig.advance(20'000);
  set_back_and_accept(rig);
  rig.drive();
  CHECK(executions == 1);
  rig.advance(39'000);
  rig.drive();
  CHECK(executions == 1);
  rig.advance(1'000);
  rig.drive();
  CHECK(executions == 2);
  CHECK(rig.run(run).status == RunStatus::completed);
}

TEST_CASE("after the clock was set back, a lost worker's task lapses after what was left of its lease") {
  Rig rig;
  bool die = true;
  rig.add_task("work", [&](const std::string&, const flow::EffectInfo&) -> std::string {
    if (die) throw test::Died{};
    return "1";
  });
  rig.add("flow", [](flow::Context& c) { return c.task("work"); });
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK_THROWS_AS(rig.tasks->run_one(), test::Died);
  die = false;
  rig.advance(10'000);
  set_back_and_accept(rig);
  rig.advance(limits::kTaskLeaseMs - 10'000);
  rig.sweep->pass();
  CHECK(rig.tasks->run_one());
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::completed);
}
