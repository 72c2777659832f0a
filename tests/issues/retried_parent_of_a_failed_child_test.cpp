// A run whose child had failed was retried: its step got a new wait, for the child that now runs again. The attempt
// looked for the wait of the step that was settled, whenever, and found the one that had told of the failure: "a child
// has ended and its step is open", a fault of the agent's own, again and again until the child had ended.
// Of the waits of a step only the latest of each name counts.
#include <catch2/catch.hpp>

#include "tests/support/rig.h"
#include "tests/support/verdict.h"

using namespace bide;

TEST_CASE("a retried parent waits for its child, and is told of no fault") {
  test::Rig rig;
  bool broken = true;
  rig.add("child", [&](flow::Context& c) {
    if (broken) throw std::runtime_error("no");
    c.signal("go");
    return std::string("7");
  });
  rig.add("parent", [](flow::Context& c) { return c.call("child"); });
  const RunId run = rig.start("parent");
  rig.drive();
  REQUIRE(rig.run(run).status == kernel::RunStatus::failed);
  broken = false;
  const auto retried = rig.commands->retry(run, test::Rig::person(), std::nullopt,
                                           [](const kernel::RetryOutcome&) { return work::Answer{}; });
  REQUIRE(std::holds_alternative<work::Answer>(retried));
  rig.drive();
  CHECK(rig.count_events(run, "run.handed_back") == 0);
  CHECK(rig.run(run).status == kernel::RunStatus::waiting);
  const RunId child(rig.number("SELECT id FROM runs WHERE parent_step_id IS NOT NULL"));
  CHECK(test::verdict(rig.signal(child, "go")) == "sent");
  rig.drive();
  CHECK(rig.run(run).status == kernel::RunStatus::completed);
  CHECK(rig.run(run).result == "7");
}
