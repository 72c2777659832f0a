#include <catch2/catch.hpp>

#include "tests/support/rig.h"

using namespace bide;

TEST_CASE("a native run of three steps ends, each step once") {
  test::Rig rig;
  int effects = 0;
  rig.add("flow", [&](flow::Context& c) {
    for (int i = 0; i < 3; ++i) {
      c.step("add", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) {
        ++effects;
        return std::to_string(effects);
      });
    }
    return std::string("\"done\"");
  });
  const RunId run = rig.start("flow");
  CHECK(rig.drive() == 1);
  CHECK(rig.run(run).status == kernel::RunStatus::completed);
  CHECK(rig.run(run).result == "\"done\"");
  CHECK(effects == 3);
  CHECK(rig.journal(run).size() == 3);
}

TEST_CASE("an approval suspends the run, the answer lets it go on") {
  test::Rig rig;
  int before = 0;
  std::string decided;
  rig.add("flow", [&](flow::Context& c) {
    c.step("fetch", kernel::Effect::idempotent, [&](const flow::EffectInfo&) {
      ++before;
      return std::string("1");
    });
    decided = c.approval("go on?");
    return std::string("null");
  });
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK(rig.run(run).status == kernel::RunStatus::waiting);
  const auto waits = rig.waits(run);
  REQUIRE(waits.size() == 1);
  rig.restart();
  CHECK(std::holds_alternative<kernel::WaitResolved>(rig.resolve(waits[0].id, R"({"decision":"approved"})")));
  rig.drive();
  CHECK(rig.run(run).status == kernel::RunStatus::completed);
  CHECK(before == 1);
  CHECK(decided.find("approved") != std::string::npos);
}

TEST_CASE("a process that dies in a non_idempotent step asks once, and does what is answered") {
  test::Rig rig;
  int effects = 0;
  bool die = true;
  rig.add("flow", [&](flow::Context& c) {
    return c.step("pay", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) {
      ++effects;
      if (die) throw test::Died{};
      return std::string("\"paid\"");
    });
  });
  const RunId run = rig.start("flow");
  CHECK_THROWS_AS(rig.drive(), test::Died);
  die = false;
  rig.restart();
  rig.sweep->pass();
  rig.drive();
  CHECK(effects == 1);
  CHECK(rig.run(run).status == kernel::RunStatus::waiting);
  const auto waits = rig.waits(run);
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].kind == kernel::WaitKind::reconcile);
  CHECK(std::holds_alternative<kernel::WaitResolved>(rig.resolve(waits[0].id, R"({"answer":"It didn't."})")));
  rig.drive();
  CHECK(effects == 2);
  CHECK(rig.run(run).result == "\"paid\"");
}

TEST_CASE("[N103] a native version that is gone waits, and goes on with one that accepts it") {
  test::Rig rig;
  int effects = 0;
  flow::NativeWorkflow flow;
  flow.name = "flow";
  flow.version = "1";
  flow.run = [&](flow::Context& c) {
    c.step("work", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) { return std::to_string(++effects); });
    return c.signal("go");
  };
  rig.add(flow);
  const auto version_of = [&](RunId id) {
    return rig.number("SELECT version FROM workflow_versions WHERE id = " + std::to_string(rig.run(id).version.value));
  };
  const RunId run = rig.start("flow");
  rig.drive();
  flow.version = "2";
  rig.replace(flow);
  rig.restart();
  (void)rig.signal(run, "go", "7");
  CHECK(rig.drive() == 0);
  CHECK(rig.run(run).status == kernel::RunStatus::queued);
  CHECK(rig.run(run).reason == "version_missing");
  CHECK(version_of(run) == 1);
  const RunId fresh = rig.start("flow");  // version 2 is there, and held up by nothing
  CHECK(rig.drive() == 1);
  CHECK(version_of(fresh) == 2);
  CHECK(effects == 2);
  rig.restart();
  CHECK(rig.drive() == 0);
  CHECK(rig.count_events(run, "run.moved") == 0);

  flow.accepts = {"1"};
  rig.replace(flow);
  rig.restart();
  CHECK(rig.drive() == 1);
  CHECK(rig.run(run).status == kernel::RunStatus::completed);
  CHECK(rig.run(run).reason.value_or("").empty());
  CHECK(version_of(run) == 2);
  CHECK(rig.count_events(run, "run.moved") == 1);
  CHECK(rig.count_events(fresh, "run.moved") == 0);
  CHECK(effects == 2);  // its step was done under version 1
}
