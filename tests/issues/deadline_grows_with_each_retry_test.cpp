// A run's deadline was told from the time between its creation and its deadline: each retry made that longer, forks and
// children that were begun anew had none, and a run for tomorrow was late tonight [X5].
#include <catch2/catch.hpp>

#include "tests/support/rig.h"
#include "tests/support/verdict.h"

using namespace bide;
using kernel::RunStatus;
using test::Rig;

namespace {

constexpr DurationMs kHour = 3'600'000;

flow::NativeWorkflow waits_an_hour(const std::string& name) {
  flow::NativeWorkflow workflow;
  workflow.name = name;
  workflow.version = "1";
  workflow.run_deadline = kHour;
  workflow.run = [](flow::Context& c) { return c.signal("go"); };
  return workflow;
}

std::int64_t deadline_of(Rig& rig, RunId run) {
  return rig.number("SELECT coalesce(deadline_at, 0) FROM runs WHERE id = " + std::to_string(run.value));
}

void retry(Rig& rig, RunId run) {
  const auto done =
      rig.commands->retry(run, Rig::person(), std::nullopt, [](const kernel::RetryOutcome&) { return work::Answer{}; });
  REQUIRE(std::holds_alternative<work::Answer>(done));
}

}  // namespace

TEST_CASE("a deadline is as long after the second retry as it was declared, and a fork has it too") {
  Rig rig;
  rig.add(waits_an_hour("flow"));
  const RunId run = rig.start("flow");
  rig.drive();
  for (int i = 0; i < 2; ++i) {
    rig.advance(5 * kHour);
    rig.sweep->pass();
    REQUIRE(rig.run(run).status == RunStatus::failed);
    retry(rig, run);
    CHECK(deadline_of(rig, run) == rig.store->now() + kHour);
    rig.drive();
  }
  RunId fork;
  (void)rig.commands->fork_run(run, 0, false, Rig::person(), std::nullopt, [&](const kernel::ForkOutcome& outcome) {
    fork = std::get<kernel::Forked>(outcome).run;
    return work::Answer{};
  });
  CHECK(deadline_of(rig, fork) == rig.store->now() + kHour);
}

TEST_CASE("a run that is to begin later has its whole time from then on") {
  Rig rig;
  rig.add(waits_an_hour("flow"));
  (void)rig.start("flow");
  kernel::StartRun start;
  const auto version = rig.store->read([](db::ReadTx& tx) { return kernel::find_version(tx, "flow", "1"); });
  start.workflow = rig.store->read([&](db::ReadTx& tx) { return kernel::read_version(tx, *version)->workflow; });
  start.version = *version;
  start.uid = "u";
  start.created_by = "ada";
  start.run_at = rig.store->now() + 2 * kHour;
  start.deadline = kHour;
  const auto run = rig.store->write(
      [&](db::Tx& tx) { return std::get<kernel::RunStarted>(kernel::start_run(tx, start, tx.now())).run; });
  CHECK(deadline_of(rig, run) == rig.store->now() + 3 * kHour);
}

TEST_CASE("a child that is begun anew has its deadline") {
  Rig rig;
  rig.add(waits_an_hour("child"));
  bool broken = true;
  rig.add("parent", [&](flow::Context& c) {
    return c.branches({
        [](flow::Context& b) { return b.call("child"); },
        [&](flow::Context& b) {
          b.signal("fail");
          return b.step("fails", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) -> std::string {
            if (broken) throw std::runtime_error("no");
            return "1";
          });
        },
    })[0];
  });
  const RunId run = rig.start("parent");
  rig.drive();
  (void)rig.signal(run, "fail");
  rig.drive();
  REQUIRE(rig.run(run).status == RunStatus::failed);
  broken = false;
  retry(rig, run);
  rig.drive();
  const RunId child(rig.number("SELECT max(id) FROM runs WHERE parent_step_id IS NOT NULL"));
  CHECK(rig.number("SELECT count(*) FROM runs") == 3);  // the cancelled one is not taken up again
  CHECK(deadline_of(rig, child) == rig.store->now() + kHour);
}
