// A program died for the tenth time in a row, and its run failed with CrashLoop: its parent's step was settled, but the
// parent, which another branch kept running, was not rung, and looked again only when something else of it changed.
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>

#include "tests/support/rig.h"
#include "tests/support/verdict.h"

using namespace bide;
using kernel::Effect;
using kernel::RunStatus;
using test::Rig;

TEST_CASE("a child that dies for the tenth time: its running parent goes on at once") {
  Rig rig(Rig::Mode::threaded);
  rig.add("child", [&](flow::Context& c) {
    rig.executor->attempt(c.run())->crash();
    return std::string("1");
  });
  std::atomic<bool> told{false};
  rig.add("parent", [&](flow::Context& c) {
    return c.branches({
        [&](flow::Context& b) {
          try {
            return b.call("child");
          } catch (const flow::StepFailed&) {
            told = true;
            return std::string("\"it failed\"");
          }
        },
        [&](flow::Context& b) {
          return b.step("drives", Effect::pure, [&](const flow::EffectInfo&) {
            while (rig.number("SELECT count(*) FROM runs WHERE status = 'failed'") == 0) rig.drive(1);
            const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
            while (!told && std::chrono::steady_clock::now() < end) std::this_thread::yield();
            return std::string(told ? "1" : "0");
          });
        },
    })[1];
  });
  const RunId parent = rig.start("parent");
  rig.drive(1);
  CHECK(rig.number("SELECT count(*) FROM events WHERE kind = 'run.recovered'") == 10);
  CHECK(rig.run(parent).status == RunStatus::completed);
  CHECK(rig.run(parent).result == "1");
}
