// A branch failed while a task of another branch was at work in this process: the run ended at once, and what the task
// gave a moment later was a late outcome. A task that executes is let finish and recorded, like any step [P1].
#include <catch2/catch.hpp>

#include <atomic>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/rig.h"
#include "tests/support/verdict.h"

using namespace bide;
using kernel::Effect;
using kernel::RunStatus;
using kernel::StepStatus;
using test::Rig;

TEST_CASE("a run that fails lets a task that executes finish, and has its outcome") {
  Rig rig(Rig::Mode::threaded);
  std::atomic<bool> begun{false};
  rig.add_task("work", [&](const std::string&, const flow::EffectInfo&) {
    begun = true;
    test::eventually([&] { return rig.number("SELECT count(*) FROM runs WHERE error IS NOT NULL") == 1; }, "the end");
    return std::string("7");
  });
  rig.add("flow", [&](flow::Context& c) {
    return c.branches({
        [](flow::Context& b) { return b.task("work", "null", {.effect = Effect::non_idempotent}); },
        [&](flow::Context& b) {
          return b.step("fails", Effect::non_idempotent, [&](const flow::EffectInfo&) -> std::string {
            test::eventually([&] { return begun.load(); }, "the task executes");
            throw std::runtime_error("no");
          });
        },
    })[0];
  });
  const RunId run = rig.start("flow");
  std::jthread worker([&] { test::eventually([&] { return rig.tasks->run_one(); }, "a task is done"); });
  rig.drive(1);
  CHECK(rig.run(run).status == RunStatus::failed);
  for (const auto& step : rig.journal(run)) {
    if (step.kind != kernel::StepKind::task) continue;
    CHECK(step.status == StepStatus::completed);
    CHECK(step.result == "7");
  }
  CHECK(rig.count_events(run, "step.late_outcome") == 0);
}
