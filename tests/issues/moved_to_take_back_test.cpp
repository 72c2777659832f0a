// A cancelled run was claimed by a newer version that accepts its own, to take back what it had done, and its row named
// that version from then on; but nothing said so: the event run.moved was written for other claims only.
#include <catch2/catch.hpp>

#include "tests/support/rig.h"

using namespace bide;
using kernel::RunStatus;
using test::Rig;

TEST_CASE("[K1] a cancelled run that another version takes back is told to have moved, once") {
  Rig rig;
  flow::NativeWorkflow workflow;
  workflow.name = "rent";
  workflow.version = "1";
  workflow.compensations["give back"] = {[](const flow::UndoInfo&) { return std::string("null"); }};
  workflow.run = [](flow::Context& c) {
    flow::StepOptions options;
    options.compensate = "give back";
    (void)c.step(
        "rent", kernel::Effect::idempotent, [](const flow::EffectInfo&) { return std::string("1"); }, options);
    return c.approval("keep it?");
  };
  rig.add(workflow);
  const RunId run = rig.start("rent");
  rig.drive();
  REQUIRE(rig.run(run).status == RunStatus::waiting);
  const VersionId before = rig.run(run).version;
  workflow.version = "2";
  workflow.accepts = {"1"};
  rig.replace(workflow);
  rig.restart();
  REQUIRE(std::holds_alternative<kernel::CancelCompensates>(rig.cancel(run)));
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::cancelled);
  CHECK(rig.run(run).version != before);
  CHECK(rig.count_events(run, "run.moved") == 1);
}
