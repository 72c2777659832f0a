// Code that threw an int, or anything else that is no std::exception, ended the whole agent. It is the workflow's
// error, or the task's.
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "tests/support/rig.h"
#include "tests/support/verdict.h"

using namespace bide;
using kernel::RunStatus;
using test::Rig;

TEST_CASE("what code throws and is no std::exception is its own error, and not the end of the agent") {
  work::ExecutorOptions options = Rig::default_options();
  options.pass_unknown = false;
  Rig rig(Rig::Mode::inlined, options);
  rig.add("bare", [](flow::Context&) -> std::string { throw 7; });
  rig.add("in a branch", [](flow::Context& c) {
    return c.branches(
        {[](flow::Context&) -> std::string { throw 7; }, [](flow::Context&) { return std::string("1"); }})[0];
  });
  rig.add("in a step", [](flow::Context& c) {
    return c.step("s", kernel::Effect::pure, [](const flow::EffectInfo&) -> std::string { throw 7; });
  });
  rig.add_task("work", [](const std::string&, const flow::EffectInfo&) -> std::string { throw 7; });
  rig.add("by a task", [](flow::Context& c) { return c.task("work", "null", {.retries = 0}); });
  for (const std::string name : {"bare", "in a branch", "in a step", "by a task"}) {
    INFO(name);
    const RunId run = rig.start(name);
    rig.drive();
    while (rig.tasks->run_one()) rig.drive();
    CHECK(rig.run(run).status == RunStatus::failed);
  }
}
