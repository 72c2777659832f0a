// A run that fails while somebody is at a task of it: the task is let finish and recorded, what is pending is not
// begun, then the run ends [P1, K8, E6].
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "agent/kernel/explain.h"
#include "agent/kernel/tasks.h"
#include "tests/support/verdict.h"

namespace bide {
namespace {

using kernel::Effect;
using kernel::RunStatus;
using kernel::StepStatus;
using test::Rig;
using test::verdict;

// A booking that is taken back; then side by side: a task that somebody has begun, one that nobody has, an approval,
// and a branch that fails when it is told to.
struct Failing {
  explicit Failing(Effect effect = Effect::idempotent, std::optional<DurationMs> deadline = std::nullopt) {
    flow::NativeWorkflow w;
    w.name = "flow";
    w.version = "1";
    w.run_deadline = deadline;
    w.run = [this, effect](flow::Context& c) {
      ++entered;
      if (books) {
        flow::StepOptions options;
        options.compensate = "unbook";
        c.step(
            "book", Effect::non_idempotent, [](const flow::EffectInfo&) { return std::string("1"); }, options);
      }
      c.branches({[effect](flow::Context& b) { return b.task("slow", "null", {.effect = effect, .retries = 3}); },
                  [](flow::Context& b) { return b.task("other"); }, [](flow::Context& b) { return b.approval("go?"); },
                  [this](flow::Context& b) -> std::string {
                    b.signal("fail");
                    if (fails) throw std::runtime_error("no more");
                    return "1";
                  }});
      return std::string("\"done\"");
    };
    w.compensations["unbook"] = {[this](const flow::UndoInfo&) {
                                   ledger.push_back("unbook");
                                   return std::string("1");
                                 },
                                 Effect::idempotent, 5};
    rig.add(std::move(w));
    rig.add_task("slow", [this](const std::string&, const flow::EffectInfo&) {
      ++repeated;
      return std::string("1");
    });
    rig.add_task("other", [this](const std::string&, const flow::EffectInfo&) {
      ++others;
      return std::string("1");
    });
  }
  // Until somebody elsewhere has begun the task.
  void begin() {
    run = rig.start("flow");
    rig.drive();
    CHECK(rig.run(run).status == RunStatus::waiting);
    const auto any = [](const std::string&) { return true; };
    claim = rig.store->write([&](db::Tx& tx) { return kernel::claim_task(tx, task("slow").id, "w1", any, tx.now()); });
    REQUIRE(claim);
  }
  void fail() {
    CHECK(verdict(rig.signal(run, "fail")) == "sent");
    CHECK(rig.drive() == 1);
  }
  kernel::StepRow task(const std::string& name) {
    for (auto& row : rig.journal(run)) {
      if (row.name == name) return row;
    }
    throw std::runtime_error("there is no " + name);
  }
  kernel::TaskRecorded outcome(const kernel::TaskOutcome& said) {
    return rig.store->write([&](db::Tx& tx) {
      kernel::Ripples ripples;
      return kernel::finish_task(tx, *claim, said, tx.now(), &ripples);
    });
  }
  // It waits, without an attempt, until the task is over; nobody can begin the other one.
  void check_ending() {
    const auto row = rig.run(run);
    CHECK(row.status == RunStatus::waiting);
    CHECK(json::string_member(row.error.value_or("{}"), "message").has_value());
    CHECK_FALSE(row.owner);
    CHECK_FALSE(rig.executor->drives(run));
    CHECK(task("slow").status == StepStatus::started);
    CHECK(task("other").status == StepStatus::cancelled);
    for (const auto& wait : rig.waits(run)) CHECK(wait.status != kernel::WaitStatus::pending);
    CHECK(ledger.empty());
    CHECK(rig.count_events(run, "run.failed") == 0);
    while (rig.tasks->run_one()) {
    }
    CHECK(others == 0);
    const auto said =
        rig.store->read([&](db::ReadTx& tx) { return kernel::explain_run(tx, run, {}, rig.store->now()).value(); });
    CHECK(said.reason == "ending");
    CHECK(said.text.find("\"slow\"") != std::string::npos);
    // W11: it has somebody who wakes it. The check of the first pass finds nothing, however long that takes.
    (void)rig.sweep->pass();
    CHECK(rig.count_events(run, "run.redriven") == 0);
    CHECK(rig.drive() == 0);
  }
  void check_failed(const std::string& message = "no more") {
    CHECK(rig.drive() == 1);
    const auto row = rig.run(run);
    CHECK(row.status == RunStatus::failed);
    CHECK(json::string_member(row.error.value_or("{}"), "message") == message);
    CHECK(rig.count_events(run, "run.failed") == 1);
    CHECK(ledger == (books ? std::vector<std::string>{"unbook"} : std::vector<std::string>{}));
    CHECK(others == 0);
  }

  Rig rig;
  RunId run;
  std::optional<kernel::TaskClaim> claim;
  bool books = true;
  bool fails = true;
  int entered = 0;
  int repeated = 0;
  int others = 0;
  std::vector<std::string> ledger;
};

TEST_CASE("[N79] a task that somebody is at when a branch fails is let finish and recorded, compensations come after") {
  Failing box;
  box.books = GENERATE(true, false);
  box.begin();
  box.fail();
  box.check_ending();
  if (GENERATE(false, true)) {
    box.rig.restart();
    box.check_ending();
  }
  const int entered = box.entered;
  CHECK(box.outcome({R"("picture")", std::nullopt, "", std::nullopt}) == kernel::TaskRecorded::settled);
  box.check_failed();
  CHECK(box.entered == entered);  // E6
  CHECK(box.task("slow").status == StepStatus::completed);
  CHECK(box.task("slow").result == R"("picture")");
}

TEST_CASE("[N79] [N95] … whose worker is dead: its lease lapses, it is not repeated, nobody is asked, the run ends") {
  const Effect effect = GENERATE(Effect::pure, Effect::idempotent, Effect::non_idempotent);
  INFO(to_text(effect));
  Failing box(effect);
  box.begin();
  box.fail();
  box.check_ending();
  box.rig.restart();
  box.rig.advance(limits::kTaskLeaseMs - 1);
  box.check_ending();
  box.rig.advance(1);
  (void)box.rig.sweep->pass();
  const bool unknown = effect == Effect::non_idempotent;
  CHECK(box.task("slow").status == (unknown ? StepStatus::needs_reconcile : StepStatus::cancelled));
  box.check_failed();
  while (box.rig.tasks->run_one()) {
  }
  CHECK(box.repeated == 0);
  CHECK(box.rig.number("SELECT count(*) FROM waits WHERE kind = 'reconcile'") == 0);
  // What it says after that changes nothing [K2].
  CHECK(box.outcome({R"("picture")", std::nullopt, "", std::nullopt}) == kernel::TaskRecorded::late);
  CHECK(box.task("slow").status == (unknown ? StepStatus::needs_reconcile : StepStatus::cancelled));
  CHECK(box.rig.run(box.run).status == RunStatus::failed);
}

TEST_CASE("[N79] … that fails with retries left is not tried again, the run ends with its first error") {
  Failing box;
  box.begin();
  box.fail();
  const TimeMs later = box.rig.store->now() + 1'000;
  CHECK(box.outcome({std::nullopt, std::nullopt, R"({"code":"StepError","message":"busy"})", later}) ==
        kernel::TaskRecorded::settled);
  CHECK(box.task("slow").status == StepStatus::cancelled);
  CHECK(box.task("slow").failures == 1);
  box.check_failed();
  box.rig.advance(60'000);
  (void)box.rig.sweep->pass();
  while (box.rig.tasks->run_one()) {
  }
  CHECK(box.repeated == 0);
}

TEST_CASE("[X1] a cancel cuts it short: what comes then is a late outcome, what was done is taken back") {
  Failing box;
  box.books = GENERATE(true, false);
  box.begin();
  box.fail();
  box.check_ending();
  CHECK(verdict(box.rig.cancel(box.run)) == (box.books ? "compensates" : "ended"));
  box.rig.drive();
  CHECK(box.rig.run(box.run).status == RunStatus::cancelled);
  CHECK(box.ledger.size() == (box.books ? 1U : 0U));
  CHECK(box.task("slow").status == StepStatus::cancelled);
  CHECK(box.outcome({"1", std::nullopt, "", std::nullopt}) == kernel::TaskRecorded::late);
  CHECK(box.rig.count_events(box.run, "step.late_outcome") == 1);  // X2
}

TEST_CASE("[X1] [X2] a cancel of a run whose task is at work ends it, its outcome comes late") {
  Failing box;
  box.books = false;
  box.begin();
  CHECK(verdict(box.rig.cancel(box.run)) == "ended");
  CHECK(box.rig.run(box.run).status == RunStatus::cancelled);
  CHECK(box.outcome({"1", std::nullopt, "", std::nullopt}) == kernel::TaskRecorded::late);
  CHECK(box.rig.count_events(box.run, "step.late_outcome") == 1);
}

TEST_CASE("[X5] a run's deadline lets finish a task that somebody is at") {
  Failing box(Effect::idempotent, 20'000);
  box.books = GENERATE(true, false);
  box.begin();
  box.rig.advance(20'000);
  (void)box.rig.sweep->pass();
  CHECK(box.rig.drive() == 1);
  box.check_ending();
  CHECK(box.outcome({"1", std::nullopt, "", std::nullopt}) == kernel::TaskRecorded::settled);
  box.check_failed(json::string_member(*box.rig.run(box.run).error, "message").value());
  CHECK(json::string_member(*box.rig.run(box.run).error, "code") == "Timeout");
  CHECK(box.task("slow").status == StepStatus::completed);
}

TEST_CASE("[X3] retried, what its task did while the run failed is not done again") {
  Failing box;
  box.books = false;
  box.begin();
  box.fail();
  CHECK(box.outcome({"1", std::nullopt, "", std::nullopt}) == kernel::TaskRecorded::settled);
  box.check_failed();
  box.fails = false;
  CHECK(verdict(box.rig.store->write([&](db::Tx& tx) { return kernel::retry_run(tx, box.run, "ada", tx.now()); })) ==
        "retried");
  box.rig.drive();
  CHECK(box.rig.tasks->run(box.task("other").id));
  box.rig.drive();
  CHECK(verdict(box.rig.resolve(test::pending_wait(box.rig, box.run).id, test::kApproved)) == "resolved");
  box.rig.drive();
  CHECK(box.rig.run(box.run).result == "\"done\"");
  CHECK(box.repeated == 0);
  CHECK(box.others == 1);
}

}  // namespace
}  // namespace bide
