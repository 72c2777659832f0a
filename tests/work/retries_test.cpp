// Retries beside what else goes on in a run [E2].
#include <catch2/catch.hpp>

#include "tests/support/rig.h"

namespace bide {
namespace {

using kernel::Effect;
using kernel::RunStatus;
using test::Rig;

TEST_CASE("[N38] a branch's step failed once of six while another branch replays: the run fails after the sixth only") {
  Rig rig;
  int failed = 0;
  int done = 0;
  int replayed = 0;
  rig.add("flow", [&](flow::Context& c) {
    c.branches({
        [&](flow::Context& b) {
          flow::StepOptions options;
          options.retries = 5;
          options.backoff = 600'000;  // over inline_sleep: handed back, and met by a replay
          return b.step(
              "flaky", Effect::idempotent,
              [&](const flow::EffectInfo&) -> std::string {
                ++failed;
                throw std::runtime_error("busy");
              },
              options);
        },
        [&](flow::Context& b) {
          ++replayed;
          for (int i = 0; i < 3; ++i) {
            b.step("work", Effect::pure, [&](const flow::EffectInfo&) { return std::to_string(++done); });
            b.signal("go");
          }
          return std::string("1");
        },
    });
    return std::string("1");
  });
  const RunId run = rig.start("flow");
  rig.drive();
  // Each signal brings an attempt that replays the branch, and meets the failed step in its backoff.
  for (int round = 1; round <= 2; ++round) {
    CHECK(rig.run(run).status == RunStatus::queued);
    CHECK(failed == 1);
    CHECK(done == round);
    (void)rig.signal(run, "go");
    CHECK(rig.drive() == 1);
  }
  CHECK(failed == 1);
  CHECK(replayed == 3);
  while (failed < 6) {
    REQUIRE(rig.run(run).status == RunStatus::queued);
    const int before = failed;
    rig.advance(rig.run(run).run_at - rig.store->now() - 1);
    CHECK(rig.drive() == 0);
    CHECK(failed == before);
    rig.advance(1);
    CHECK(rig.drive() == 1);
    REQUIRE(failed == before + 1);
  }
  CHECK(rig.run(run).status == RunStatus::failed);
  CHECK(rig.run(run).error->find("busy") != std::string::npos);
  CHECK(done == 3);
  for (const auto& step : rig.journal(run)) {  // in no order: two branches begin side by side
    if (step.name == "flaky") CHECK(step.failures == 6);
  }
  rig.advance(3'600'000);
  CHECK(rig.drive() == 0);
  CHECK(failed == 6);
}

}  // namespace
}  // namespace bide
