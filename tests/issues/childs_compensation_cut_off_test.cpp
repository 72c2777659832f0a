// A run failed: its end was written, its child was cancelled and began to take back what it had done. That failed once
// and had its delay. Meanwhile the parent ended, which closed the open steps of its child once more: the compensation
// was cancelled, and what the child had done stayed done. Steps of a child that was cancelled before are left alone.
#include <catch2/catch.hpp>

#include "tests/support/rig.h"
#include "tests/support/verdict.h"

using namespace bide;

TEST_CASE("the end of a parent cuts off no compensation of its child") {
  work::ExecutorOptions options = test::Rig::default_options();
  options.inline_sleep = 0;
  test::Rig rig(test::Rig::Mode::inlined, options);
  int taken_back = 0;
  int parents = 0;
  flow::NativeWorkflow child;
  child.name = "child";
  child.version = "1";
  child.compensations["undo"] = {[&](const flow::UndoInfo&) -> std::string {
    if (++taken_back == 1) throw std::runtime_error("later");
    return "1";
  }};
  child.run = [](flow::Context& c) {
    flow::StepOptions book;
    book.compensate = "undo";
    c.step(
        "book", kernel::Effect::idempotent, [](const flow::EffectInfo&) { return std::string("1"); }, book);
    c.signal("never");
    return std::string("1");
  };
  rig.add(child);
  flow::NativeWorkflow parent;
  parent.name = "parent";
  parent.version = "1";
  // Of the parent, too, something is to be taken back: between its end's writing and its end there is time.
  parent.compensations["undo"] = {[&](const flow::UndoInfo&) -> std::string {
    if (++parents == 1) throw std::runtime_error("later");
    return "1";
  }};
  parent.run = [](flow::Context& c) {
    flow::StepOptions book;
    book.compensate = "undo";
    c.step(
        "book", kernel::Effect::idempotent, [](const flow::EffectInfo&) { return std::string("1"); }, book);
    c.branches({[](flow::Context& b) { return b.call("child"); },
                [](flow::Context& b) {
                  b.signal("fail");
                  throw std::runtime_error("no");
                  return std::string();
                }});
    return std::string("1");
  };
  rig.add(parent);
  const RunId run = rig.start("parent");
  rig.drive();
  CHECK(test::verdict(rig.signal(run, "fail")) == "sent");
  rig.drive();
  // The parent's compensation goes through first, and the parent ends while its child's still has its delay.
  REQUIRE(taken_back == 1);
  REQUIRE(parents == 1);
  rig.exec("UPDATE steps SET not_before = not_before + 3600000 WHERE status = 'pending' AND run_id <> " +
           std::to_string(run.value));
  rig.exec("UPDATE runs SET run_at = run_at + 3600000 WHERE parent_step_id IS NOT NULL");
  rig.advance(60'000);
  rig.drive();
  CHECK(parents == 2);
  CHECK(rig.run(run).status == kernel::RunStatus::failed);
  CHECK(taken_back == 1);
  rig.advance(3'700'000);
  rig.drive();
  CHECK(taken_back == 2);
  CHECK(rig.number("SELECT count(*) FROM runs WHERE status = 'cancelled'") == 1);
  CHECK(rig.number("SELECT count(*) FROM steps WHERE name = 'undo' AND status = 'completed'") == 2);
}
