// A run failed while the worker of one of its tasks was lost: the task was in doubt. A retry put it back to "started",
// as it does with steps, whose next attempt asks. No attempt asks about a task, and it had no lease that could end: the
// run waited for ever. A retry gives such a task a lease that has ended: the sweep asks.
#include <catch2/catch.hpp>

#include "agent/base/limits.h"
#include "tests/support/rig.h"
#include "tests/support/verdict.h"

using namespace bide;

TEST_CASE("after a retry a task in doubt is asked about") {
  test::Rig rig;
  bool broken = true;
  bool dies = true;
  int painted = 0;
  rig.add_task("paint", [&](const std::string&, const flow::EffectInfo&) {
    if (dies) throw test::Died{};
    ++painted;
    return std::string("1");
  });
  rig.add("flow", [&](flow::Context& c) {
    flow::TaskOptions once;
    once.effect = kernel::Effect::non_idempotent;
    c.branches({[&](flow::Context& branch) { return branch.task("paint", "null", once); },
                [&](flow::Context& branch) {
                  branch.signal("go");
                  if (broken) throw std::runtime_error("no");
                  return std::string("1");
                }});
    return std::string("null");
  });
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK_THROWS_AS(rig.tasks->run_one(), test::Died);
  rig.restart();
  CHECK(test::verdict(rig.signal(run, "go")) == "sent");
  rig.drive();
  rig.advance(limits::kTaskLeaseMs);  // P1: a failing run lets the task finish until nobody is at it any more
  rig.sweep->pass();
  rig.drive();
  REQUIRE(rig.run(run).status == kernel::RunStatus::failed);
  REQUIRE(rig.number("SELECT count(*) FROM steps WHERE kind = 'task' AND status = 'needs_reconcile'") == 1);
  broken = dies = false;
  const auto retried = rig.commands->retry(run, test::Rig::person(), std::nullopt,
                                           [](const kernel::RetryOutcome&) { return work::Answer{}; });
  REQUIRE(std::holds_alternative<work::Answer>(retried));
  rig.drive();
  rig.sweep->pass();
  rig.drive();
  const WaitId asked(
      rig.number("SELECT coalesce(max(id), 0) FROM waits WHERE kind = 'reconcile' AND status = 'pending'"));
  REQUIRE(asked.valid());
  CHECK(test::verdict(rig.resolve(asked, R"({"answer":"run"})")) == "resolved");
  rig.drive();
  while (rig.tasks->run_one()) rig.drive();
  rig.drive();
  CHECK(rig.run(run).status == kernel::RunStatus::completed);
  CHECK(painted == 1);
}
