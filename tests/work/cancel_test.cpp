// Cancel from every live state: each run ends cancelled, each caller is told the truth.
#include <catch2/catch.hpp>

#include <thread>

#include "tests/db/gate.h"
#include "tests/support/eventually.h"
#include "tests/support/verdict.h"
#include "tests/support/vfs_shim.h"

namespace bide {
namespace {

using kernel::RunStatus;
using kernel::StepStatus;
using test::eventually;
using test::holds_within;
using test::Rig;
using test::verdict;

const auto kPatience = std::chrono::seconds(20);

std::string shown(Rig& rig, RunId run) { return std::string(to_text(rig.run(run).status)); }

TEST_CASE("[N90] cancel and finish in one batch, in both orders") {
  for (const bool cancel_first : {true, false}) {
    INFO(cancel_first);
    test::VfsShim disk("n90");
    Rig rig(Rig::Mode::threaded);
    rig.vfs = disk.name();
    std::atomic<bool> inside{false};
    std::atomic<bool> release{false};
    rig.add("flow", [&](flow::Context&) {  // no step: its finish is its only write
      inside = true;
      if (!holds_within(kPatience, [&] { return release.load(); })) return std::string("\"nobody came\"");
      return std::string("\"done\"");
    });
    const RunId run = rig.start("flow");
    std::jthread worker([&] { rig.drive(1); });
    eventually([&] { return inside.load(); }, "the code runs");
    std::string told;
    {
      db::Gate gate(*rig.store);
      std::jthread person;
      const auto queued = [&](std::size_t n) {
        eventually([&] { return rig.store->health().queued_jobs == n; }, "queued");
      };
      const auto cancel = [&] { person = std::jthread([&] { told = verdict(rig.cancel(run)); }); };
      if (cancel_first) cancel();
      queued(cancel_first ? 1 : 0);
      release = true;
      queued(cancel_first ? 2 : 1);
      if (!cancel_first) cancel();
      queued(2);
      gate.open();
    }
    worker.join();
    eventually([&] { return !told.empty(); }, "the caller is told");
    CHECK(told == (cancel_first ? "told" : "already ended"));
    CHECK(shown(rig, run) == (cancel_first ? "cancelled" : "completed"));
    CHECK(rig.run(run).result.has_value() == !cancel_first);
    CHECK(rig.count_events(run, "run.cancelled") == (cancel_first ? 1 : 0));
    CHECK(rig.count_events(run, "run.completed") == (cancel_first ? 0 : 1));
    CHECK(rig.drive() == 0);
  }
}

TEST_CASE("[N90] cancel of a paused run") {
  Rig rig;
  rig.add("flow", [](flow::Context& c) { return c.approval("?"); });
  const RunId queued = rig.start("flow");
  rig.exec("UPDATE runs SET paused_at = 1 WHERE id = " + std::to_string(queued.value));
  CHECK(rig.drive() == 0);
  CHECK(verdict(rig.cancel(queued)) == "ended");
  CHECK(shown(rig, queued) == "cancelled");
  CHECK_FALSE(rig.run(queued).paused_at);
}

TEST_CASE("[N90] cancel of a run whose workflow is gone, and of one whose process was killed meanwhile") {
  Rig rig;
  bool die = true;
  int entered = 0;
  rig.add("flow", [&](flow::Context& c) {
    ++entered;
    return c.step("s", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) -> std::string {
      if (die) throw test::Died{};
      return "1";
    });
  });
  const RunId unknown = rig.start("flow");
  const RunId running = rig.start("flow");
  CHECK_THROWS_AS(rig.drive(1), test::Died);
  rig.remove("flow");
  rig.restart();
  const RunId dead = rig.run(unknown).status == RunStatus::running ? unknown : running;
  const RunId queued = dead == unknown ? running : unknown;
  CHECK(rig.drive() == 0);
  CHECK(rig.run(queued).reason == "workflow_missing");
  CHECK(verdict(rig.cancel(queued)) == "ended");
  CHECK(shown(rig, queued) == "cancelled");
  // Still running for the file: told, and ended by the sweep that finds nobody drives it; its step stays in doubt.
  CHECK(verdict(rig.cancel(dead)) == "told");
  rig.sweep->pass();
  rig.drive();
  CHECK(shown(rig, dead) == "cancelled");
  CHECK(rig.journal(dead).front().status == StepStatus::needs_reconcile);
  CHECK(entered == 1);
}

TEST_CASE("[N90] cancel of a run due in three weeks") {
  Rig rig;
  int entered = 0;
  rig.add("flow", [&](flow::Context& c) {
    ++entered;
    c.sleep(DurationMs{21} * 24 * 3'600'000);
    return std::string("1");
  });
  const RunId sleeping = rig.start("flow");
  CHECK(rig.drive() == 1);
  CHECK(rig.run(sleeping).status == RunStatus::queued);
  CHECK(verdict(rig.cancel(sleeping)) == "ended");
  CHECK(shown(rig, sleeping) == "cancelled");
  CHECK(rig.drive() == 0);
  CHECK(entered == 1);
  CHECK(verdict(rig.cancel(RunId(4711))) == "no such run");
}

TEST_CASE("[N90] cancel while the code runs: what is in flight is recorded, nothing more begins") {
  Rig rig;
  RunId run;
  int after = 0;
  rig.add("flow", [&](flow::Context& c) {
    c.step("in flight", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) {
      CHECK(verdict(rig.cancel(run)) == "told");
      CHECK(verdict(rig.cancel(run)) == "told");
      return std::string("\"happened\"");
    });
    c.step("after", kernel::Effect::pure, [&](const flow::EffectInfo&) { return ++after, std::string("1"); });
    return std::string("1");
  });
  run = rig.start("flow");
  rig.drive();
  CHECK(shown(rig, run) == "cancelled");
  CHECK(rig.journal(run).size() == 1);
  CHECK(rig.journal(run).front().result == "\"happened\"");
  CHECK(after == 0);
  CHECK(rig.count_events(run, "step.completed") == 1);
  CHECK(rig.count_events(run, "run.cancelled") == 1);
}

TEST_CASE("[N90] native code that ignores the stop is ended 30 s after it was told, its late outcome is kept") {
  Rig rig;
  RunId run;
  rig.add("flow", [&](flow::Context& c) {
    return c.step("deaf", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) {
      CHECK(verdict(rig.cancel(run)) == "told");
      rig.advance(limits::kAbandonMs - 1);
      rig.sweep->pass();
      CHECK(rig.run(run).status == RunStatus::running);
      rig.advance(1);
      rig.sweep->pass();
      CHECK(rig.run(run).status == RunStatus::cancelled);  // while the code still runs
      return std::string("\"late\"");
    });
  });
  run = rig.start("flow");
  rig.drive();
  CHECK(shown(rig, run) == "cancelled");
  const auto step = rig.journal(run).front();
  CHECK(step.status == StepStatus::needs_reconcile);
  CHECK_FALSE(step.result);
  CHECK(rig.count_events(run, "run.abandoned") == 1);
  CHECK(rig.count_events(run, "step.late_outcome") == 1);
  CHECK(rig.count_events(run, "run.cancelled") == 1);
}

TEST_CASE("[F12] a step that outlives every lease: one start, one end, no second attempt, no mark") {
  Rig rig;
  RunId run;
  int starts = 0;
  int ends = 0;
  rig.add("flow", [&](flow::Context& c) {
    return c.step("long", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) {
      ++starts;
      for (int minute = 0; minute < 120; ++minute) {
        rig.advance(60'000);
        rig.sweep->pass();
        CHECK(rig.drive() == 0);
        CHECK(rig.run(run).epoch == 1);
      }
      ++ends;
      return std::string("\"done\"");
    });
  });
  run = rig.start("flow");
  CHECK(rig.drive() == 1);
  CHECK(starts == 1);
  CHECK(ends == 1);
  CHECK(rig.run(run).result == "\"done\"");
  CHECK(rig.journal(run).front().executions == 1);
  CHECK(rig.count_events(run, "step.completed") == 1);
  for (const std::string kind : {"run.recovered", "run.abandoned", "run.redriven", "step.late_outcome", "run.failed"}) {
    CHECK(rig.count_events(run, kind) == 0);
  }
}

TEST_CASE("[F12] a step past its own timeout and 30 s is taken over: its late outcome is refused and kept") {
  Rig rig;
  RunId run;
  std::atomic<int> starts{0};
  rig.add("flow", [&](flow::Context& c) {
    flow::StepOptions options;
    options.timeout = 60'000;
    options.backoff = 5'000;
    return c.step(
        "long", kernel::Effect::idempotent,
        [&](const flow::EffectInfo&) {
          if (++starts > 1) return std::string("\"second\"");
          rig.advance(60'000 + limits::kAbandonMs - 1);
          rig.sweep->pass();
          CHECK(rig.run(run).status == RunStatus::running);
          rig.advance(1);
          rig.sweep->pass();
          CHECK(rig.run(run).status == RunStatus::queued);
          CHECK(rig.run(run).epoch == 2);
          rig.advance(5'000);       // its timeout was a failed attempt [E5]
          CHECK(rig.drive() == 1);  // elsewhere, while the first still hangs
          CHECK(rig.run(run).result == "\"second\"");
          return std::string("\"late\"");
        },
        options);
  });
  run = rig.start("flow");
  rig.drive();
  CHECK(starts == 2);
  CHECK(rig.run(run).result == "\"second\"");
  CHECK(rig.journal(run).front().result == "\"second\"");
  CHECK(rig.count_events(run, "step.late_outcome") == 1);
  CHECK(rig.count_events(run, "step.completed") == 1);
}

}  // namespace
}  // namespace bide
