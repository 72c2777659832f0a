// An operator's retry of a failed run, and a fork of any [X3, X4].
#include <catch2/catch.hpp>

#include <set>

#include "agent/base/json.h"
#include "tests/support/verdict.h"

namespace bide {
namespace {

using kernel::Effect;
using kernel::RunStatus;
using test::Rig;
using test::verdict;

std::string retry(Rig& rig, RunId run) {
  std::string told;
  (void)rig.commands->retry(run, Rig::person(), std::nullopt, [&](const kernel::RetryOutcome& outcome) {
    told = verdict(outcome);
    return work::Answer{};
  });
  return told;
}

kernel::ForkOutcome forked_from(Rig& rig, RunId run, std::int64_t entries, bool latest = false) {
  std::optional<kernel::ForkOutcome> told;
  (void)rig.commands->fork_run(run, entries, latest, Rig::person("forker"), std::nullopt,
                               [&](const kernel::ForkOutcome& outcome) {
                                 told = outcome;
                                 return work::Answer{};
                               });
  return told.value();
}

flow::StepOptions once() {
  flow::StepOptions options;
  options.retries = 0;
  return options;
}

TEST_CASE("[X3] the failed step runs again, completed ones stay, a failure that was caught stays") {
  Rig rig;
  int good = 0;
  int caught = 0;
  int bad = 0;
  bool broken = true;
  rig.add("flow", [&](flow::Context& c) {
    c.step("good", Effect::non_idempotent, [&](const flow::EffectInfo&) { return std::to_string(++good); });
    try {
      c.step(
          "caught", Effect::pure,
          [&](const flow::EffectInfo&) -> std::string {
            ++caught;
            throw flow::Final("handled");
          },
          once());
    } catch (const flow::StepFailed&) {
    }
    return c.step(
        "bad", Effect::non_idempotent,
        [&](const flow::EffectInfo&) -> std::string {
          ++bad;
          if (broken) throw flow::Final("broken");
          return "\"mended\"";
        },
        once());
  });
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::failed);
  CHECK(retry(rig, run) == "retried");
  CHECK(retry(rig, run) == "not_failed");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::failed);  // as broken as before: failures count anew
  broken = false;
  CHECK(retry(rig, run) == "retried");
  rig.restart();
  rig.drive();
  CHECK(rig.run(run).result == "\"mended\"");
  CHECK(good == 1);
  CHECK(caught == 1);
  CHECK(bad == 3);
}

TEST_CASE("[X3] what was cancelled by the failure is open again: a wait is asked anew, also a group") {
  Rig rig;
  flow::NativeWorkflow workflow;
  workflow.name = "flow";
  workflow.version = "1";
  workflow.run_deadline = 60'000;
  workflow.run = [](flow::Context& c) {
    return c.branches({
        [](flow::Context& b) { return b.approval("go?"); },
        [](flow::Context& b) {
          return b.first_of({flow::Alternative::signal("s"), flow::Alternative::timer(3'600'000)});
        },
    })[0];
  };
  rig.add(workflow);
  const RunId run = rig.start("flow");
  rig.drive();
  rig.advance(60'000);
  rig.sweep->pass();
  CHECK(rig.run(run).status == RunStatus::failed);  // at its deadline
  const auto old = rig.waits(run);
  REQUIRE(old.size() == 3);
  CHECK(retry(rig, run) == "retried");
  rig.drive();
  const auto waits = rig.waits(run);
  REQUIRE(waits.size() == 6);
  for (std::size_t i = 0; i < 6; ++i)
    CHECK(waits[i].status == (i < 3 ? kernel::WaitStatus::cancelled : kernel::WaitStatus::pending));
  for (const auto& wait : old) {
    if (wait.kind == kernel::WaitKind::approval)
      CHECK(verdict(rig.resolve(wait.id, test::kApproved)) == "wait_cancelled");
  }
  for (const auto& wait : waits) {
    if (wait.status == kernel::WaitStatus::pending && wait.kind == kernel::WaitKind::approval)
      CHECK(verdict(rig.resolve(wait.id, test::kApproved)) == "resolved");
  }
  (void)rig.signal(run, "s");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::completed);
}

TEST_CASE("[N104] retry after a compensation began: compensated") {
  Rig rig;
  flow::NativeWorkflow workflow;
  workflow.name = "saga";
  workflow.version = "1";
  workflow.run = [](flow::Context& c) -> std::string {
    flow::StepOptions options;
    options.compensate = "undo";
    c.step(
        "do", Effect::non_idempotent, [](const flow::EffectInfo&) { return std::string("1"); }, options);
    throw std::runtime_error("no");
  };
  workflow.compensations["undo"] = {[](const flow::UndoInfo&) { return std::string("1"); }, Effect::idempotent, 0};
  rig.add(workflow);
  const RunId run = rig.start("saga");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::failed);
  CHECK(retry(rig, run) == "compensated");
  CHECK(retry(rig, RunId(4711)) == "run_not_found");
}

TEST_CASE("[N104] retry of a child whose parent was told: parent_told, and with its parent it goes on") {
  Rig rig;
  bool broken = true;
  int before = 0;
  rig.add("child", [&](flow::Context& c) {
    c.step("before", Effect::non_idempotent, [&](const flow::EffectInfo&) { return std::to_string(++before); });
    return c.step(
        "bad", Effect::pure,
        [&](const flow::EffectInfo&) -> std::string {
          if (broken) throw flow::Final("broken");
          return "\"whole\"";
        },
        once());
  });
  rig.add("parent", [](flow::Context& c) { return c.call("child"); });
  const RunId parent = rig.start("parent");
  rig.drive();
  const RunId child(rig.number("SELECT id FROM runs WHERE parent_step_id IS NOT NULL"));
  CHECK(rig.run(parent).status == RunStatus::failed);
  CHECK(rig.run(child).status == RunStatus::failed);
  CHECK(retry(rig, child) == "parent_told");
  broken = false;
  CHECK(retry(rig, parent) == "retried");
  CHECK(rig.run(child).status == RunStatus::queued);
  rig.drive();
  CHECK(rig.run(parent).result == "\"whole\"");
  CHECK(before == 1);
  CHECK(rig.number("SELECT count(*) FROM runs") == 2);
}

TEST_CASE(
    "[X3] a child that cannot go on is begun anew, under other keys, one that was not there is looked for again") {
  Rig rig;
  std::set<std::string> keys;
  rig.add("child", [&](flow::Context& c) {
    c.step("s", Effect::idempotent, [&](const flow::EffectInfo& info) {
      keys.insert(info.idempotency_key);
      return std::string("1");
    });
    return c.approval("?");
  });
  rig.add("parent", [](flow::Context& c) { return c.call("child"); });
  const RunId parent = rig.start("parent");
  rig.drive();
  const RunId child(rig.number("SELECT id FROM runs WHERE parent_step_id IS NOT NULL"));
  CHECK(verdict(rig.cancel(child)) == "ended");
  rig.drive();
  CHECK(rig.run(parent).status == RunStatus::failed);
  CHECK(retry(rig, parent) == "retried");
  rig.drive();
  CHECK(rig.number("SELECT count(*) FROM runs WHERE parent_step_id IS NOT NULL") == 2);
  CHECK(keys.size() == 2);
  const RunId second(rig.number("SELECT max(id) FROM runs"));
  CHECK(verdict(rig.resolve(test::pending_wait(rig, second).id, test::kApproved)) == "resolved");
  rig.drive();
  CHECK(rig.run(parent).status == RunStatus::completed);

  Rig other;
  other.add("parent", [](flow::Context& c) { return c.call("late"); });
  const RunId orphan = other.start("parent");
  other.drive();
  CHECK(other.run(orphan).status == RunStatus::failed);
  other.replace("late", [](flow::Context&) { return std::string("7"); });
  other.restart();
  CHECK(retry(other, orphan) == "retried");
  other.drive();
  CHECK(other.run(orphan).result == "7");
}

TEST_CASE("[X3] decided: what a decision ended is not retried") {
  Rig rig;
  rig.add("flow", [](flow::Context& c) { return c.approval("?"); });
  const RunId run = rig.start("flow");
  rig.drive(0);
  rig.exec(R"(UPDATE runs SET status = 'failed', finished_at = 1, error = '{"code":"Denied","message":"by ada"}')");
  CHECK(retry(rig, run) == "decided");
}

TEST_CASE("[X4] a fork begins with the first entries, their results and nothing else, and goes its own way") {
  Rig rig;
  std::vector<std::string> ran;
  rig.add("flow", [&](flow::Context& c) {
    std::string all;
    for (const std::string name : {"a", "b", "c"}) {
      all += c.step(name, Effect::non_idempotent, [&](const flow::EffectInfo&) {
        ran.push_back(name);
        return std::to_string(ran.size());
      });
    }
    return all;
  });
  const RunId run = rig.start("flow", R"({"x":1})");
  rig.drive();
  const auto outcome = forked_from(rig, run, 2);
  REQUIRE(std::holds_alternative<kernel::Forked>(outcome));
  const RunId forked = std::get<kernel::Forked>(outcome).run;
  CHECK(std::get<kernel::Forked>(outcome).copied == 2);
  const auto journal = rig.journal(forked);
  REQUIRE(journal.size() == 2);
  CHECK(journal[1].copied_from == rig.journal(run)[1].id.value);
  CHECK(rig.run(forked).input == R"({"x":1})");
  CHECK(rig.run(forked).created_by == "forker");
  rig.drive();
  CHECK(ran == std::vector<std::string>{"a", "b", "c", "c"});
  CHECK(rig.run(run).result == "123");
  CHECK(rig.run(forked).result == "124");
  CHECK(rig.count_events(forked, "run.forked") == 1);
  // From the start, and past the end: both are runs of their own.
  CHECK(std::get<kernel::Forked>(forked_from(rig, run, 0)).copied == 0);
  CHECK(std::get<kernel::Forked>(forked_from(rig, run, 1000)).copied == 3);
}

TEST_CASE("[X4] what is open is not copied, approvals only into the same version") {
  Rig rig;
  rig.add("flow", [](flow::Context& c) {
    c.step("s", Effect::pure, [](const flow::EffectInfo&) { return std::string("1"); });
    return c.approval("go?");
  });
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK(verdict(forked_from(rig, run, 2)) == "fork_open");
  CHECK(rig.number("SELECT count(*) FROM runs") == 1);
  CHECK(verdict(rig.resolve(test::pending_wait(rig, run).id, test::kApproved)) == "resolved");
  rig.drive();
  CHECK(std::get<kernel::Forked>(forked_from(rig, run, 2)).copied == 2);
  rig.replace(
      "flow",
      [](flow::Context& c) {
        c.step("s", Effect::pure, [](const flow::EffectInfo&) { return std::string("1"); });
        return c.approval("go?");
      },
      "2");
  rig.restart();
  const auto newer = std::get<kernel::Forked>(forked_from(rig, run, 2, true));
  CHECK(newer.copied == 1);
  rig.drive();
  CHECK(rig.run(newer.run).status == RunStatus::waiting);  // asked anew
}

}  // namespace
}  // namespace bide
