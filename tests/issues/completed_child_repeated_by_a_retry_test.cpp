// A child completed after its parent's end was written and before the parent had ended: nobody recorded it, the
// parent's step was cancelled, and a retry of the parent began a second child, under other keys. What executes is let
// finish and recorded [P1], a child too; and a retry takes what a child has completed [X3].
#include <catch2/catch.hpp>

#include "tests/support/rig.h"
#include "tests/support/verdict.h"

using namespace bide;
using kernel::Effect;
using kernel::RunStatus;
using test::Rig;

namespace {

std::string retry(Rig& rig, RunId run) {
  std::string said;
  (void)rig.commands->retry(run, Rig::person(), std::nullopt, [&](const kernel::RetryOutcome& outcome) {
    said = test::verdict(outcome);
    return work::Answer{};
  });
  return said;
}

}  // namespace

TEST_CASE(
    "a child that completes while its parent is failing: the retried parent has its result, and no second child") {
  Rig rig;
  int effects = 0;
  bool broken = true;
  rig.add("child", [&](flow::Context& c) {
    c.signal("go");
    return c.step("pay", Effect::non_idempotent, [&](const flow::EffectInfo&) { return std::to_string(++effects); });
  });
  RunId child;
  rig.add("parent", [&](flow::Context& c) {
    return c.branches({
        [](flow::Context& b) { return b.call("child"); },
        [&](flow::Context& b) {
          return b.step("long", Effect::pure, [&](const flow::EffectInfo&) -> std::string {
            if (!broken) return "1";
            while (rig.number("SELECT count(*) FROM runs WHERE error IS NOT NULL") == 0) std::this_thread::yield();
            child = RunId(rig.number("SELECT id FROM runs WHERE parent_step_id IS NOT NULL"));
            CHECK(test::verdict(rig.signal(child, "go")) == "sent");
            while (rig.run(child).status != RunStatus::completed) rig.drive(1);
            return "1";
          });
        },
        [&](flow::Context& b) {
          return b.step("fails", Effect::non_idempotent, [&](const flow::EffectInfo&) -> std::string {
            if (!broken) return "1";
            while (rig.number("SELECT count(*) FROM runs WHERE status = 'waiting'") == 0) rig.drive(1);
            throw std::runtime_error("no");
          });
        },
    })[0];
  });
  const RunId run = rig.start("parent");
  rig.drive(1);
  REQUIRE(rig.run(run).status == RunStatus::failed);
  REQUIRE(rig.run(child).status == RunStatus::completed);
  // It is recorded at its end, and not only found by the retry [P1].
  CHECK(rig.number("SELECT count(*) FROM steps WHERE kind = 'child' AND status = 'completed'") == 1);
  broken = false;
  CHECK(retry(rig, run) == "retried");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(rig.run(run).result == "1");
  CHECK(effects == 1);
  CHECK(rig.number("SELECT count(*) FROM runs") == 2);
}

TEST_CASE("a parent is not retried while a child of it takes back what it did") {
  Rig rig;
  flow::NativeWorkflow child;
  child.name = "child";
  child.version = "1";
  child.run = [](flow::Context& c) {
    flow::StepOptions options;
    options.compensate = "undo";
    c.step(
        "book", Effect::idempotent, [](const flow::EffectInfo&) { return std::string("1"); }, options);
    return c.signal("never");
  };
  bool stuck = true;
  child.compensations["undo"] = {[&](const flow::UndoInfo&) -> std::string {
    if (stuck) throw test::Died{};
    return "true";
  }};
  rig.add(child);
  rig.add("parent", [](flow::Context& c) {
    return c.branches({
        [](flow::Context& b) { return b.call("child"); },
        [](flow::Context& b) {
          b.signal("fail");
          return b.step("fails", Effect::non_idempotent,
                        [](const flow::EffectInfo&) -> std::string { throw std::runtime_error("no"); });
        },
    })[0];
  });
  const RunId run = rig.start("parent");
  rig.drive();
  (void)rig.signal(run, "fail");
  CHECK(rig.drive(1) == 1);
  REQUIRE(rig.run(run).status == RunStatus::failed);
  CHECK(retry(rig, run) == "child_ending");
  stuck = false;
  rig.drive();
  CHECK(retry(rig, run) == "retried");
}
