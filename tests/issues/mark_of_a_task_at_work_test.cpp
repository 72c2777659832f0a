// A run that had been re-driven went on to a task, and its mark (redrive_at) passed while a worker had the task. "The
// mark is that of its tasks" left it standing: due at every look, a pass of the sweep every 5 s with a transaction
// each, for as long as the task took. A mark of tasks that nobody need offer is taken away; the delay stays.
#include <catch2/catch.hpp>

#include "tests/support/rig.h"

using namespace bide;

TEST_CASE("while a task is worked on no mark of its run is due") {
  test::Rig rig;
  bool looked = false;
  rig.add_task("paint", [&](const std::string&, const flow::EffectInfo&) {
    rig.exec("UPDATE runs SET redrive_at = 1, redrive_delay = 60000");
    rig.sweep->pass();
    CHECK(rig.number("SELECT count(*) FROM runs WHERE redrive_at IS NOT NULL") == 0);
    CHECK(rig.number("SELECT redrive_delay FROM runs") == 60'000);
    looked = true;
    return std::string("1");
  });
  rig.add("flow", [](flow::Context& c) { return c.task("paint"); });
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK(rig.tasks->run_one());
  rig.drive();
  CHECK(looked);
  CHECK(rig.run(run).status == kernel::RunStatus::completed);
}
