// The sweep looked at the first 2000 rows of live processes, those of driven runs among them: on a box with more, what
// came later was never looked at, and a run behind it waited for its dead guard for ever.
#include <catch2/catch.hpp>

#include "agent/work/holders.h"
#include "agent/work/program_driver.h"
#include "tests/support/rig.h"

using namespace bide;
using namespace bide::test;

TEST_CASE("[W7] issue: a pass looks at all processes, however many there are") {
  Rig rig;
  rig.add("nap", [](flow::Context& c) {
    c.sleep(3'600'000);
    return std::string("null");
  });
  const RunId run = rig.start("nap");
  const std::string boot = "of-an-earlier-boot";
  rig.exec(
      "INSERT INTO processes (run_id, nonce, epoch, pid, pid_start, boot_id, status, started_at) "
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4100) "
      "SELECT " +
      std::to_string(run.value) + ", 'n' || i, 1, 99, 7, '" + boot + "', 'running', 0 FROM n");
  work::Holders holders(*rig.store, rig.random, *rig.executor, rig.dir.str("outcomes"), rig.dir.str("s"));
  work::SystemSpawner spawner;
  work::ProgramDriver driver(*rig.store, rig.random, spawner, holders, {},
                             [](const kernel::VersionRow&) { return work::ProgramHome{}; });
  CHECK(driver.sweep_processes(rig.clock.wall_ms()) == 4'100);
  CHECK(rig.number("SELECT count(*) FROM processes WHERE status <> 'stopped'") == 0);
}
