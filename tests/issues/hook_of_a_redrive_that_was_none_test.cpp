// Native code was told of a re-drive also when a pass met a mark that had no use any more, and re-drove nothing.
#include <catch2/catch.hpp>

#include <vector>

#include "tests/support/rig.h"

using namespace bide;
using test::Rig;

TEST_CASE("[W5] native code hears of a run that was re-driven, and not of one whose mark is taken away") {
  Rig rig;
  rig.add("asks", [](flow::Context& c) { return c.approval("go on?"); });
  const RunId stuck = rig.start("asks");
  const RunId waits = rig.start("asks");
  rig.drive();
  rig.exec(
      "UPDATE waits SET status = 'resolved', resolution = '{\"decision\":\"approved\"}', resolved_at = 1 WHERE "
      "run_id = " +
      std::to_string(stuck.value));
  rig.exec("UPDATE runs SET redrive_at = 1");
  std::vector<RunId> heard;
  rig.sweep->on_redrive([&](RunId run) { heard.push_back(run); });
  CHECK(rig.sweep->pass().first_error.empty());
  CHECK(heard == std::vector{stuck});
  CHECK(rig.count_events(stuck, "run.redriven") == 1);
  CHECK(rig.count_events(waits, "run.redriven") == 0);
  CHECK(rig.number("SELECT count(*) FROM runs WHERE redrive_at IS NOT NULL AND id = " + std::to_string(waits.value)) ==
        0);
}
