// A fork copies entries with their keys [X4]; but a failed one that the fork's retry ran again had the fork's own key:
// what had happened under the first one, unseen, happened again.
#include <catch2/catch.hpp>

#include <set>

#include "tests/support/rig.h"
#include "tests/support/verdict.h"

using namespace bide;
using kernel::Effect;
using kernel::RunStatus;
using test::Rig;

TEST_CASE("a copied step, and a copied task, that a fork tries again keeps its key") {
  for (const bool task : {false, true}) {
    INFO(task);
    Rig rig;
    std::set<std::string> keys;
    int executions = 0;
    bool broken = true;
    const auto effect = [&](const flow::EffectInfo& info) -> std::string {
      keys.insert(info.idempotency_key);
      ++executions;
      if (broken) throw flow::Final("no");
      return "1";
    };
    rig.add_task("charge", [&](const std::string&, const flow::EffectInfo& info) { return effect(info); });
    rig.add("flow",
            [&](flow::Context& c) { return task ? c.task("charge") : c.step("charge", Effect::idempotent, effect); });
    const auto settle = [&] {
      rig.drive();
      while (rig.tasks->run_one()) rig.drive();
    };
    const RunId run = rig.start("flow");
    settle();
    REQUIRE(rig.run(run).status == RunStatus::failed);
    RunId fork;
    (void)rig.commands->fork_run(run, 1, false, Rig::person(), std::nullopt, [&](const kernel::ForkOutcome& outcome) {
      fork = std::get<kernel::Forked>(outcome).run;
      return work::Answer{};
    });
    settle();
    REQUIRE(rig.run(fork).status == RunStatus::failed);  // the copied failure is replayed
    REQUIRE(executions == 1);
    broken = false;
    (void)rig.commands->retry(fork, Rig::person(), std::nullopt,
                              [](const kernel::RetryOutcome&) { return work::Answer{}; });
    settle();
    rig.advance(limits::kTaskRelayMs);  // a task that was opened again is offered by the sweep
    rig.sweep->pass();
    settle();
    CHECK(rig.run(fork).status == RunStatus::completed);
    CHECK(executions == 2);
    CHECK(keys.size() == 1);
  }
}
