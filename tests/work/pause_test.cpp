// Pause, resume, and the deadlines of a run and of an attempt [X5].
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "tests/support/verdict.h"

namespace bide {
namespace {

using kernel::Effect;
using kernel::RunStatus;
using test::Rig;
using test::verdict;

std::string pause(Rig& rig, RunId run, bool paused = true) {
  std::string told;
  (void)rig.commands->pause(run, paused, Rig::person(), std::nullopt, [&](const kernel::PauseOutcome& outcome) {
    told = verdict(outcome);
    return work::Answer{};
  });
  return told;
}

std::string code_of(Rig& rig, RunId run) {
  return json::string_member(rig.run(run).error.value_or("{}"), "code").value_or("");
}

TEST_CASE("[X5] a paused run is not claimed, an answer is taken meanwhile, it goes on when resumed") {
  Rig rig;
  int after = 0;
  rig.add("flow", [&](flow::Context& c) {
    c.approval("go?");
    return c.step("after", Effect::pure, [&](const flow::EffectInfo&) { return std::to_string(++after); });
  });
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK(pause(rig, run) == "changed");
  CHECK(pause(rig, run) == "same");
  CHECK(verdict(rig.resolve(test::pending_wait(rig, run).id, test::kApproved)) == "resolved");
  CHECK(rig.drive() == 0);
  rig.restart();
  rig.sweep->pass();
  CHECK(rig.drive() == 0);
  CHECK(after == 0);
  CHECK(pause(rig, run, false) == "changed");
  CHECK(pause(rig, run, false) == "same");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(pause(rig, run) == "run_ended");
  CHECK(pause(rig, RunId(99)) == "run_not_found");
  CHECK(rig.count_events(run, "control.pause") == 1);
  CHECK(rig.count_events(run, "control.resume") == 1);
}

TEST_CASE("[X5] a running attempt hands back at its next step boundary, what executes is recorded") {
  Rig rig;
  RunId run;
  int first = 0;
  int second = 0;
  rig.add("flow", [&](flow::Context& c) {
    c.step("first", Effect::non_idempotent, [&](const flow::EffectInfo&) {
      CHECK(pause(rig, run) == "changed");
      return std::to_string(++first);
    });
    return c.step("second", Effect::non_idempotent, [&](const flow::EffectInfo&) { return std::to_string(++second); });
  });
  run = rig.start("flow");
  CHECK(rig.drive() == 1);
  CHECK(rig.run(run).status == RunStatus::queued);
  CHECK(rig.run(run).paused_at.has_value());
  CHECK(rig.journal(run).size() == 1);
  CHECK(first == 1);
  CHECK(second == 0);
  CHECK(pause(rig, run, false) == "changed");
  CHECK(rig.drive() == 1);
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(first == 1);
  CHECK(second == 1);
}

TEST_CASE("[X5] a run that is being cancelled is not paused, and its compensations are not claimed in a circle") {
  work::ExecutorOptions options = Rig::default_options();
  options.inline_sleep = 0;  // a retry's delay may be under a second: nobody moves the clock in it
  Rig rig(Rig::Mode::inlined, options);
  int undone = 0;
  flow::NativeWorkflow trip;
  trip.name = "trip";
  trip.version = "1";
  trip.compensations["undo"] = {[&](const flow::UndoInfo&) -> std::string {
    if (++undone == 1) throw std::runtime_error("later");
    return "1";
  }};
  trip.run = [](flow::Context& c) {
    flow::StepOptions book;
    book.compensate = "undo";
    c.step(
        "book", kernel::Effect::idempotent, [](const flow::EffectInfo&) { return std::string("1"); }, book);
    return c.approval("go?");
  };
  rig.add(trip);
  const RunId run = rig.start("trip");
  rig.drive();
  (void)rig.cancel(run);
  CHECK(rig.drive(50) < 50);  // the compensation failed once, and has its delay
  CHECK(undone == 1);
  CHECK(pause(rig, run) == "run_cancelling");
  CHECK(rig.drive(50) == 0);
  rig.advance(60'000);
  CHECK(rig.drive(50) < 50);
  CHECK(undone == 2);
  CHECK(rig.run(run).status == RunStatus::cancelled);
}

TEST_CASE("[X5] deadlines of waits go on while a run is paused, and a timer is not lost") {
  Rig rig;
  rig.add("flow", [](flow::Context& c) { return c.approval("go?", {.name = "a", .timeout = 60'000}); });
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK(pause(rig, run) == "changed");
  rig.advance(60'001);
  rig.sweep->pass();
  CHECK(rig.waits(run).at(0).status == kernel::WaitStatus::expired);
  CHECK(rig.drive() == 0);
  CHECK(pause(rig, run, false) == "changed");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::completed);
}

struct Late {
  std::vector<std::string> ledger;
  int entered = 0;
  flow::NativeWorkflow workflow(std::function<std::string(flow::Context&)> then) {
    flow::NativeWorkflow w;
    w.name = "late";
    w.version = "1";
    w.run = [this, then](flow::Context& c) {
      ++entered;
      flow::StepOptions options;
      options.compensate = "undo";
      c.step(
          "do", Effect::non_idempotent,
          [&](const flow::EffectInfo&) {
            ledger.push_back("do");
            return std::string("1");
          },
          options);
      return then(c);
    };
    w.compensations["undo"] = {[this](const flow::UndoInfo&) {
                                 ledger.push_back("undo");
                                 return std::string("1");
                               },
                               Effect::idempotent, 0};
    return w;
  }
};

TEST_CASE("[X5] a run past its deadline: Timeout, and its compensations run, waiting, paused, and without any") {
  for (const bool paused : {false, true}) {
    INFO(paused);
    Rig rig;
    Late late;
    auto workflow = late.workflow([](flow::Context& c) { return c.approval("?"); });
    workflow.run_deadline = 60'000;
    rig.add(workflow);
    const RunId run = rig.start("late");
    rig.drive();
    if (paused) CHECK(pause(rig, run) == "changed");
    rig.advance(59'999);
    rig.sweep->pass();
    CHECK(rig.run(run).status == RunStatus::waiting);
    rig.advance(1);
    rig.sweep->pass();
    rig.drive();
    CHECK(rig.run(run).status == RunStatus::failed);
    CHECK(code_of(rig, run) == "Timeout");
    CHECK(late.ledger == std::vector<std::string>{"do", "undo"});
    CHECK(late.entered == 1);
    CHECK(rig.waits(run).at(0).status == kernel::WaitStatus::cancelled);
  }
  Rig rig;
  flow::NativeWorkflow plain;
  plain.name = "plain";
  plain.version = "1";
  plain.run = [](flow::Context& c) { return c.approval("?"); };
  plain.run_deadline = 60'000;
  rig.add(plain);
  const RunId run = rig.start("plain");
  rig.drive();
  rig.advance(60'000);
  rig.sweep->pass();  // ends without its code
  CHECK(rig.run(run).status == RunStatus::failed);
  CHECK(rig.drive() == 0);
}

TEST_CASE("[X5] a run past its deadline while a step executes: the outcome is recorded, nothing more begins") {
  Rig rig;
  Late late;
  int more = 0;
  auto workflow = late.workflow([&](flow::Context& c) {
    c.step("long", Effect::non_idempotent, [&](const flow::EffectInfo&) {
      rig.advance(60'000);
      rig.sweep->pass();
      return std::string("2");
    });
    return c.step("more", Effect::pure, [&](const flow::EffectInfo&) { return std::to_string(++more); });
  });
  workflow.run_deadline = 60'000;
  rig.add(workflow);
  const RunId run = rig.start("late");
  rig.drive();
  CHECK(code_of(rig, run) == "Timeout");
  CHECK(rig.run(run).status == RunStatus::failed);
  CHECK(more == 0);
  CHECK(rig.journal(run)[1].result == "2");
  CHECK(late.ledger == std::vector<std::string>{"do", "undo"});
}

TEST_CASE("[X5] an attempt past its own deadline: Timeout, and the time of a suspension does not count") {
  Rig rig;
  Late late;
  auto workflow = late.workflow([&](flow::Context& c) {
    c.approval("?");
    c.step("long", Effect::non_idempotent, [&](const flow::EffectInfo&) {
      rig.advance(59'999);
      rig.sweep->pass();
      rig.advance(1);
      rig.sweep->pass();
      return std::string("2");
    });
    return c.step("more", Effect::pure, [](const flow::EffectInfo&) { return std::string("3"); });
  });
  workflow.attempt_deadline = 60'000;
  rig.add(workflow);
  const RunId run = rig.start("late");
  rig.drive();
  rig.advance(3'600'000);
  rig.sweep->pass();
  CHECK(verdict(rig.resolve(test::pending_wait(rig, run).id, test::kApproved)) == "resolved");
  rig.drive();
  CHECK(code_of(rig, run) == "Timeout");
  CHECK(rig.journal(run)[2].result == "2");
  CHECK(late.ledger == std::vector<std::string>{"do", "undo"});
}

}  // namespace
}  // namespace bide
