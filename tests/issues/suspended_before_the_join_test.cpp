// A branch had branches of its own. When the last of these ended, nobody counted for the branch any more that was to go
// on after the join; if another branch waited, the run was suspended, and what came after the join was not reached: a
// timer there was not set before the other branch had its answer.
// The last branch's place is now taken by the one that goes on.
#include <catch2/catch.hpp>

#include "tests/support/eventually.h"
#include "tests/support/rig.h"

using namespace bide;

TEST_CASE("a branch goes on after its own branches though another one waits") {
  for (int i = 0; i < 10; ++i) {
    test::Rig rig;
    rig.add("flow", [&](flow::Context& c) {
      c.branches({[](flow::Context& waits) { return waits.signal("go"); },
                  [&](flow::Context& goes_on) {
                    goes_on.branches({[&](flow::Context& inner) {
                      return inner.step("inner", kernel::Effect::pure, [&](const flow::EffectInfo&) {
                        while (!test::holds_within(std::chrono::seconds(1),
                                                   [&] { return rig.number("SELECT count(*) FROM waits") == 1; })) {
                        }
                        return std::string("1");
                      });
                    }});
                    goes_on.sleep(3'600'000);
                    return std::string("null");
                  }});
      return std::string("null");
    });
    const RunId run = rig.start("flow");
    CHECK(rig.drive() == 1);
    CHECK(rig.run(run).status == kernel::RunStatus::queued);
    CHECK(rig.number("SELECT count(*) FROM waits WHERE kind = 'timer' AND status = 'pending'") == 1);
    CHECK(rig.run(run).run_at == rig.number("SELECT resolve_by FROM waits WHERE kind = 'timer'"));
  }
}
