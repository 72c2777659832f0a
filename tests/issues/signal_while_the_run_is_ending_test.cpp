// A signal came when the wait for it had been closed by the run's end, and the run was still ending. It was kept, but
// the wait that a retry opened did not look: the run waited for ever, and the next signal brought the old payload.
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "tests/support/rig.h"
#include "tests/support/verdict.h"

using namespace bide;
using kernel::Effect;
using kernel::RunStatus;
using test::Rig;

TEST_CASE("a signal that came while the run was ending is read by the wait that a retry opens") {
  Rig rig;
  bool broken = true;
  RunId run;
  rig.add("flow", [&](flow::Context& c) {
    return c.branches({
        [](flow::Context& b) { return b.signal("go"); },
        [&](flow::Context& b) {
          return b.step("long", Effect::pure, [&](const flow::EffectInfo&) -> std::string {
            if (!broken) return "1";
            while (rig.number("SELECT count(*) FROM waits WHERE status = 'cancelled'") == 0) std::this_thread::yield();
            CHECK(test::verdict(rig.signal(run, "go", "1")) == "sent");
            return "1";
          });
        },
        [&](flow::Context& b) {
          return b.step("fails", Effect::non_idempotent, [&](const flow::EffectInfo&) -> std::string {
            if (!broken) return "1";
            while (rig.number("SELECT count(*) FROM waits") == 0) std::this_thread::yield();
            throw std::runtime_error("no");
          });
        },
    })[0];
  });
  run = rig.start("flow");
  rig.drive();
  REQUIRE(rig.run(run).status == RunStatus::failed);
  REQUIRE(rig.number("SELECT count(*) FROM signals WHERE consumed_by IS NULL") == 1);
  broken = false;
  (void)rig.commands->retry(run, Rig::person(), std::nullopt,
                            [](const kernel::RetryOutcome&) { return work::Answer{}; });
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(json::member(rig.run(run).result.value_or("{}"), "payload") == "1");
}
