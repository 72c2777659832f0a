// A run that had failed after it had caught an earlier failure was retried: both steps were pending and due. The first
// of them now went through, and the code came to an approval instead of the second. Suspending found "a step is due",
// went on, found nothing to do, and suspended again: for ever, with a transaction each time.
// Only what the attempt waits for may keep it from being suspended, or wake it.
#include <catch2/catch.hpp>

#include "tests/support/rig.h"

using namespace bide;

TEST_CASE("an open step that the code has not come to keeps nobody awake") {
  test::Rig rig;
  int commits = 0;
  rig.after_commit = [&] {
    if (++commits > 500) throw test::Died{};
  };
  int first = 0;
  int second = 0;
  rig.add("flow", [&](flow::Context& c) {
    flow::StepOptions once;
    once.retries = 0;
    const auto fails_once = [](int& times) {
      return [&times](const flow::EffectInfo&) -> std::string {
        if (++times == 1) throw std::runtime_error("the first time");
        return "1";
      };
    };
    try {
      c.branches({[&](flow::Context& branch) {
        branch.step("first", kernel::Effect::idempotent, fails_once(first), once);
        return branch.approval("go on?");
      }});
    } catch (const flow::StepFailed&) {
      c.step("second", kernel::Effect::idempotent, fails_once(second), once);
    }
    return std::string("null");
  });
  const RunId run = rig.start("flow");
  rig.drive();
  REQUIRE(rig.run(run).status == kernel::RunStatus::failed);
  // As a retry that opens both.
  rig.exec("UPDATE steps SET status = 'pending', not_before = 0, failures = 0, error = NULL WHERE status = 'failed'");
  rig.exec("UPDATE runs SET status = 'queued', error = NULL, finished_at = NULL");
  int driven = 0;
  CHECK_NOTHROW(driven = rig.drive(20));
  CHECK(driven == 1);
  CHECK(rig.run(run).status == kernel::RunStatus::waiting);
}
