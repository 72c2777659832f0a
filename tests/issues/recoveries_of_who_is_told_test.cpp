// K6 says that a settled step sets the recoveries of its run to 0. An outcome that came from elsewhere, of a task or of
// a child run, did not: a run that got on with the help of workers was on its way to CrashLoop all the same.
#include <catch2/catch.hpp>

#include "agent/base/limits.h"
#include "agent/kernel/tasks.h"
#include "tests/kernel/kernel_fixture.h"
#include "tests/support/rig.h"

using namespace bide;
using namespace bide::test;

TEST_CASE("[K6] issue: the outcome of a task is a settled step, and one that will be tried again is none") {
  KernelFixture file;
  const RunId run = file.make_run(kernel::RunStatus::running);
  const StepId step = file.make_step(run, kernel::StepStatus::started, kernel::StepKind::task);
  kernel::TaskClaim claim;
  claim.run = run;
  claim.step = step;
  claim.epoch = 1;
  claim.worker = "w1";
  file.store->write([&](db::Tx& tx) {
    db::Query(tx, "UPDATE steps SET owner = 'w1', epoch = 1, lease_until = ?2 WHERE id = ?1")
        .bind(step, tx.now() + limits::kTaskLeaseMs)
        .run();
    db::Query(tx, "UPDATE runs SET recoveries = 2 WHERE id = ?").bind(run).run();
  });
  const bool again = GENERATE(false, true);
  kernel::TaskOutcome outcome;
  if (!again) outcome.result = "1";
  if (again) outcome.error = R"({"code":"E","message":"m"})";
  const auto recorded = file.store->write([&](db::Tx& tx) {
    if (again) outcome.retry_at = tx.now() + 1;
    return kernel::finish_task(tx, claim, outcome, tx.now(), nullptr);
  });
  CHECK(recorded == (again ? kernel::TaskRecorded::again : kernel::TaskRecorded::settled));
  CHECK(file.run(run).recoveries == (again ? 2 : 0));
}

TEST_CASE("[K6] issue: the outcome of a child is a settled step of its parent") {
  Rig rig;
  const bool fails = GENERATE(false, true);
  rig.add("child", [&](flow::Context& c) {
    c.signal("go");
    if (fails) throw std::runtime_error("no");
    return std::string("1");
  });
  rig.add("parent", [](flow::Context& c) { return c.call("child", "{}"); });
  const RunId parent = rig.start("parent");
  rig.drive();
  const RunId child(rig.number("SELECT id FROM runs WHERE parent_step_id IS NOT NULL"));
  rig.exec("UPDATE runs SET recoveries = 2 WHERE id = " + std::to_string(parent.value));
  (void)rig.signal(child, "go");
  CHECK(rig.drive(1) == 1);  // the child
  REQUIRE(rig.run(child).status == (fails ? kernel::RunStatus::failed : kernel::RunStatus::completed));
  CHECK(rig.run(parent).status == kernel::RunStatus::queued);
  CHECK(rig.run(parent).recoveries == 0);
}
