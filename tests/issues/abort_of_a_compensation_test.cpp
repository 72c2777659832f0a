// The question about a compensation in doubt was answered "abort": the failed run became a cancelled one, without its
// error. Of what is taken back one step is given up; the next one goes on, and the run ends with its first error [E6].
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "tests/support/rig.h"
#include "tests/support/verdict.h"

using namespace bide;
using kernel::Effect;
using kernel::RunStatus;
using test::Rig;

TEST_CASE("abort of a compensation in doubt: the others go on, and the run fails with its first error") {
  Rig rig;
  bool die = true;
  std::vector<std::string> undone;
  flow::NativeWorkflow workflow;
  workflow.name = "flow";
  workflow.version = "1";
  workflow.run = [](flow::Context& c) -> std::string {
    for (const std::string what : {"a", "b"}) {
      flow::StepOptions options;
      options.compensate = "undo";
      options.compensate_argument = json::quote(what);
      c.step(
          what, Effect::idempotent, [](const flow::EffectInfo&) { return std::string("1"); }, options);
    }
    throw std::runtime_error("the first error");
  };
  workflow.compensations["undo"] = {[&](const flow::UndoInfo& info) -> std::string {
                                      if (die) throw test::Died{};
                                      undone.push_back(json::as_string(info.argument).value());
                                      return "true";
                                    },
                                    Effect::non_idempotent, 0};
  rig.add(workflow);
  const RunId run = rig.start("flow");
  CHECK_THROWS_AS(rig.drive(), test::Died);
  die = false;
  rig.restart();
  rig.sweep->pass();
  rig.drive();
  const auto question = test::pending_wait(rig, run);
  REQUIRE(question.kind == kernel::WaitKind::reconcile);
  CHECK(test::verdict(rig.resolve(question.id, R"({"answer":"abort"})")) == "resolved");
  rig.drive();
  CHECK(undone == std::vector<std::string>{"a"});
  CHECK(rig.run(run).status == RunStatus::failed);
  CHECK(json::string_member(rig.run(run).error.value_or("{}"), "message") == "the first error");
}
