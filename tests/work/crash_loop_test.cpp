// Crashes of the process again and again: what counts them, and what does not [K6, E2].
#include <catch2/catch.hpp>

#include "tests/support/rig.h"

using namespace bide;
using kernel::Effect;
using kernel::RunStatus;

namespace {

void die_and_restart(test::Rig& rig) {
  CHECK_THROWS_AS(rig.drive(), test::Died);
  rig.restart();
  (void)rig.sweep->pass();
}

}  // namespace

TEST_CASE("[N47] a run that kills the process fails with CrashLoop after ten claims without progress") {
  test::Rig rig;
  int entered = 0;
  rig.add("guilty", [&](flow::Context&) -> std::string {
    ++entered;
    throw test::Died{};
  });
  rig.add("innocent", [](flow::Context& c) {
    return c.step("work", Effect::pure, [](const flow::EffectInfo&) { return std::string("1"); });
  });
  const RunId guilty = rig.start("guilty");
  const RunId innocent = rig.start("innocent");
  int restarts = 0;
  while (!kernel::terminal(rig.run(guilty).status)) {
    REQUIRE(restarts < 20);
    try {
      rig.drive();
      break;
    } catch (const test::Died&) {
      ++restarts;
      rig.restart();
      (void)rig.sweep->pass();
    }
  }
  rig.drive();
  CHECK(entered == 10);
  CHECK(rig.run(guilty).status == RunStatus::failed);
  CHECK(rig.run(guilty).error->find("CrashLoop") != std::string::npos);
  CHECK(rig.run(innocent).status == RunStatus::completed);
  CHECK(rig.run(innocent).recoveries == 0);
}

TEST_CASE("[N47] progress between crashes is no crash loop, whatever the class of the step") {
  for (const Effect effect : {Effect::pure, Effect::idempotent, Effect::non_idempotent}) {
    test::Rig rig;
    int steps = 0;
    constexpr int kSteps = 25;
    rig.add("flow", [&](flow::Context& c) {
      for (int i = 0; i < kSteps; ++i) {
        const bool first = steps == i;
        c.step("work", effect, [&](const flow::EffectInfo&) { return std::to_string(++steps); });
        if (first) throw test::Died{};
      }
      return std::string("null");
    });
    const RunId run = rig.start("flow");
    int restarts = 0;
    for (;; ++restarts) {
      REQUIRE(restarts <= kSteps);
      try {
        rig.drive();
        break;
      } catch (const test::Died&) {
        rig.restart();
        (void)rig.sweep->pass();
        CHECK(rig.run(run).recoveries <= 1);
      }
    }
    CHECK(restarts == kSteps);
    CHECK(rig.run(run).status == RunStatus::completed);
    CHECK(steps == kSteps);
  }
}

TEST_CASE("[N47] the next execution of the same step is no progress") {
  test::Rig rig;
  int entered = 0;
  rig.add("flow", [&](flow::Context& c) {
    return c.step("kills", Effect::idempotent, [&](const flow::EffectInfo&) -> std::string {
      ++entered;
      rig.store->flush_riders();
      throw test::Died{};
    });
  });
  const RunId run = rig.start("flow");
  for (int i = 0; i < 20 && !kernel::terminal(rig.run(run).status); ++i) {
    try {
      rig.drive();
    } catch (const test::Died&) {
      rig.restart();
      (void)rig.sweep->pass();
    }
  }
  CHECK(rig.run(run).status == RunStatus::failed);
  CHECK(rig.run(run).error->find("CrashLoop") != std::string::npos);
  CHECK(entered == 10);  // the first entry is written by the claim that counts as the first
}

TEST_CASE("[N96] ten restarts over a step of 60 s beside a run that kills the process: only the guilty one fails") {
  for (const bool guilty_first : {true, false}) {
    INFO((guilty_first ? "guilty first" : "innocent first"));
    test::Rig rig;
    bool killer_runs = false;
    int begun = 0;
    rig.add("guilty", [&](flow::Context&) -> std::string {
      killer_runs = true;
      rig.drive();  // the other workers go on meanwhile
      throw test::Died{};
    });
    rig.add("innocent", [&](flow::Context& c) {
      return c.step("long", Effect::idempotent, [&](const flow::EffectInfo&) {
        ++begun;
        for (int passed = 0; passed < 60'000; passed += 10'000) {
          rig.advance(10'000);
          rig.drive();  // a free worker takes what it may
          if (killer_runs) throw test::Died{};
        }
        return std::string("1");
      });
    });
    RunId guilty;
    if (guilty_first) guilty = rig.start("guilty");
    const RunId innocent = rig.start("innocent");
    if (!guilty_first) guilty = rig.start("guilty");
    int restarts = 0;
    for (;; ++restarts) {
      REQUIRE(restarts < 20);
      try {
        rig.drive();
        break;
      } catch (const test::Died&) {
        killer_runs = false;
        rig.restart();
        (void)rig.sweep->pass();
        CHECK(rig.run(innocent).recoveries <= limits::kCrashLoopAlone);
      }
    }
    CHECK(restarts == 10);
    CHECK(rig.run(guilty).status == RunStatus::failed);
    CHECK(rig.run(guilty).error->find("CrashLoop") != std::string::npos);
    CHECK(rig.run(innocent).status == RunStatus::completed);
    CHECK(rig.run(innocent).result == "1");
    CHECK(begun == 4);  // three deaths in company, then alone among the suspect
    CHECK(rig.journal(innocent)[0].executions == 4);
  }
}

TEST_CASE("[N97] retries 0 and a crash: run again, and still failed at its first recorded failure") {
  test::Rig rig;
  int entered = 0;
  rig.add("flow", [&](flow::Context& c) {
    flow::StepOptions options;
    options.retries = 0;
    return c.step(
        "fetch", Effect::pure,
        [&](const flow::EffectInfo&) -> std::string {
          rig.store->flush_riders();
          if (++entered <= 2) throw test::Died{};
          throw std::runtime_error("no such host");
        },
        options);
  });
  const RunId run = rig.start("flow");
  die_and_restart(rig);
  die_and_restart(rig);
  rig.drive();
  CHECK(entered == 3);
  CHECK(rig.run(run).status == RunStatus::failed);
  CHECK(rig.run(run).error->find("no such host") != std::string::npos);
  CHECK(rig.journal(run)[0].failures == 1);
  CHECK(rig.journal(run)[0].executions == 3);
}
