// Native code that does not end: it cannot be killed, so it is left behind, and what is known of it is recorded.
#include <catch2/catch.hpp>

#include <atomic>

#include "agent/base/json.h"
#include "agent/kernel/evidence.h"
#include "agent/work/explain.h"
#include "tests/support/eventually.h"
#include "tests/support/verdict.h"

namespace bide {
namespace {

using namespace std::chrono_literals;
using kernel::Effect;
using kernel::RunStatus;
using kernel::StepStatus;
using test::pending_wait;
using test::Rig;

std::string code_of(const std::optional<std::string>& error) {
  return json::string_member(error.value_or("{}"), "code").value_or("");
}

// The clock passes the deadline of what runs on this thread, and the sweep looks.
void too_late(Rig& rig, DurationMs timeout) {
  rig.advance(timeout + limits::kAbandonMs - 1);
  (void)rig.sweep->pass();
  CHECK(rig.number("SELECT count(*) FROM events WHERE kind = 'run.abandoned'") == 0);
  rig.advance(1);
  (void)rig.sweep->pass();
}

TEST_CASE("[N27] a native probe that times out cannot tell: a question, and it is not asked again") {
  struct Case {
    DurationMs step;   // the step's timeout
    DurationMs probe;  // how long its probe has
  };
  for (const Case one : {Case{5'000, 5'000}, Case{0, 30'000}, Case{3'600'000, 30'000}}) {
    INFO(one.step);
    Rig rig;
    int effects = 0;
    int probes = 0;
    bool die = true;
    rig.add("flow", [&](flow::Context& c) {
      flow::StepOptions options;
      options.timeout = one.step;
      options.probe = [&](const flow::EffectInfo&) -> flow::ProbeAnswer {
        ++probes;
        too_late(rig, one.probe);
        rig.drive();  // another worker takes the run while this one still hangs
        CHECK(rig.run(c.run()).status == RunStatus::waiting);
        return {flow::ProbeVerdict::ran, "\"too late\""};
      };
      return c.step(
          "pay", Effect::non_idempotent,
          [&](const flow::EffectInfo&) -> std::string {
            ++effects;
            if (die) throw test::Died{};
            return "\"paid\"";
          },
          options);
    });
    const RunId run = rig.start("flow");
    CHECK_THROWS_AS(rig.drive(), test::Died);
    die = false;
    rig.restart();
    (void)rig.sweep->pass();
    rig.drive();
    CHECK(probes == 1);
    CHECK(effects == 1);
    CHECK(rig.count_events(run, "run.abandoned") == 1);
    CHECK(rig.run(run).status == RunStatus::waiting);
    const auto question = pending_wait(rig, run);
    CHECK(question.kind == kernel::WaitKind::reconcile);
    CHECK(json::string_member(json::member(question.payload, "known").value_or("{}"), "probe") == "timed out");
    CHECK(work::explain(*rig.store, *rig.executor, run)->reason == "in_doubt");
    CHECK(test::verdict(rig.resolve(question.id, R"({"answer":"run"})")) == "resolved");
    rig.drive();
    CHECK(rig.run(run).result == "\"paid\"");
    CHECK(probes == 1);
    CHECK(effects == 2);
  }
}

TEST_CASE("[N124] a native step past its timeout: Timeout, counted, and final after the retries [E5]") {
  for (const Effect effect : {Effect::pure, Effect::idempotent}) {
    Rig rig;
    int effects = 0;
    rig.add("flow", [&](flow::Context& c) {
      flow::StepOptions options;
      options.timeout = 2'000;
      options.retries = 1;
      options.backoff = 60'000;
      return c.step(
          "slow", effect,
          [&](const flow::EffectInfo&) {
            ++effects;
            too_late(rig, 2'000);
            rig.exec("DELETE FROM events WHERE kind = 'run.abandoned'");
            return std::string("\"too late\"");
          },
          options);
    });
    const RunId run = rig.start("flow");
    rig.drive();
    CHECK(effects == 1);
    REQUIRE(rig.journal(run).size() == 1);
    CHECK(rig.journal(run)[0].status == StepStatus::pending);
    CHECK(rig.journal(run)[0].failures == 1);
    CHECK(code_of(rig.journal(run)[0].error) == "Timeout");
    CHECK(rig.count_events(run, "step.attempt_failed") == 1);
    rig.advance(59'999);
    CHECK(rig.drive() == 0);
    rig.advance(1);
    rig.drive();
    CHECK(effects == 2);
    CHECK(rig.journal(run)[0].failures == 2);
    CHECK(rig.journal(run)[0].status == StepStatus::failed);
    CHECK(rig.count_events(run, "step.failed") == 1);
    CHECK(rig.count_events(run, "step.late_outcome") == 2);
    CHECK(rig.run(run).status == RunStatus::failed);
    CHECK(code_of(rig.run(run).error) == "Timeout");
    rig.restart();
    rig.advance(3'600'000);
    (void)rig.sweep->pass();
    rig.drive();
    CHECK(effects == 2);
  }
}

TEST_CASE("[N124] a native non_idempotent step past its timeout: a question, or Timeout where it was declared [E5]") {
  for (const bool declared : {false, true}) {
    Rig rig;
    int effects = 0;
    rig.add("flow", [&](flow::Context& c) {
      flow::StepOptions options;
      options.timeout = 2'000;
      options.fail_on_timeout = declared;
      return c.step(
          "pay", Effect::non_idempotent,
          [&](const flow::EffectInfo&) {
            ++effects;
            too_late(rig, 2'000);
            return std::string("\"too late\"");
          },
          options);
    });
    const RunId run = rig.start("flow");
    rig.drive();
    CHECK(effects == 1);
    CHECK(rig.run(run).status == (declared ? RunStatus::failed : RunStatus::waiting));
    CHECK(rig.journal(run)[0].status == (declared ? StepStatus::failed : StepStatus::needs_reconcile));
    CHECK(rig.journal(run)[0].failures == (declared ? 1 : 0));
    if (declared) CHECK(code_of(rig.run(run).error) == "Timeout");
  }
}

TEST_CASE("[N124] a native step that ends after its timeout but before it is left behind: its outcome counts [E9]") {
  Rig rig;
  rig.add("flow", [&](flow::Context& c) {
    flow::StepOptions options;
    options.timeout = 2'000;
    return c.step(
        "slow", Effect::pure,
        [&](const flow::EffectInfo&) {
          rig.advance(20'000);
          (void)rig.sweep->pass();
          return std::string("\"done\"");
        },
        options);
  });
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK(rig.run(run).result == "\"done\"");
  CHECK(rig.count_events(run, "run.abandoned") == 0);
}

TEST_CASE("[N124] an agent that has nothing else to do sees a step that is too late by itself [E5, K3]") {
  auto options = Rig::default_options();
  options.abandon_after = 100;
  Rig rig(Rig::Mode::threaded, options);
  std::atomic<bool> let_go{false};
  std::atomic<int> effects{0};
  rig.add("flow", [&](flow::Context& c) {
    flow::StepOptions step;
    step.timeout = 100;
    step.retries = 0;
    return c.step(
        "slow", Effect::idempotent,
        [&](const flow::EffectInfo&) {
          ++effects;
          (void)test::holds_within(60s, [&] { return let_go.load(); });
          return std::string("1");
        },
        step);
  });
  const RunId idle = rig.start("flow");
  (void)rig.cancel(idle);
  rig.executor->set_overdue_bell([&](BootMs at) { rig.sweep->look_at(at); });
  rig.sweep->start();
  rig.executor->start();
  test::eventually([&] { return !rig.sweep->last_report().duties.empty(); }, "the first pass");
  const RunId run = rig.start("flow");
  rig.executor->ring();
  test::eventually([&] { return effects == 1; }, "the effect");
  rig.advance(200);
  test::eventually([&] { return rig.run(run).status == RunStatus::failed; }, "its timeout is recorded");
  CHECK(code_of(rig.run(run).error) == "Timeout");
  let_go = true;
  test::eventually([&] { return rig.count_events(run, "step.late_outcome") == 1; }, "the late outcome is kept");
  CHECK(effects == 1);
}

// What came in late, as a question shows it.
std::string late(const std::string& document) {
  return json::at_pointer(document, "/late_outcomes/0").value_or("none");
}

TEST_CASE("[N28] a late outcome is kept itself, result or error, and the question of the step shows it [K2, E3]") {
  struct Case {
    std::string result;  // empty: it throws
    std::string member;
    std::string kept;
  };
  const std::vector<Case> cases = {
      {R"({"id": 12345678901234567890})", "result", R"({"id": 12345678901234567890})"},
      {"", "error", R"({"code":"StepError","message":"no"})"},
      {json::quote(std::string(5'000, 'x')), "result_cut", json::quote("\"" + std::string(4'095, 'x'))},
      // Cut between characters: 4095 bytes and a sign of two.
      {json::quote(std::string(4'094, 'x') + "\xC3\xA9 and more"), "result_cut",
       json::quote("\"" + std::string(4'094, 'x'))},
  };
  for (const Case& one : cases) {
    INFO(one.member);
    Rig rig;
    int effects = 0;
    rig.add("flow", [&](flow::Context& c) {
      return c.step("pay", Effect::non_idempotent, [&](const flow::EffectInfo&) {
        ++effects;
        rig.exec("UPDATE runs SET epoch = epoch + 1, status = 'queued', owner = NULL");  // taken over
        if (one.result.empty()) throw flow::Final("no");
        return one.result;
      });
    });
    const RunId run = rig.start("flow");
    rig.drive();
    CHECK(effects == 1);
    CHECK(rig.run(run).status == RunStatus::waiting);
    const auto question = pending_wait(rig, run);
    const std::string known = json::member(question.payload, "known").value_or("");
    CHECK(json::string_member(known, "probe") == "none");
    CHECK(json::int_member(known, "executions") == 1);
    CHECK(json::string_member(known, "last_began_at") == "2027-01-01T00:00:00.000Z");
    CHECK(json::int_member(late(known), "epoch") == 1);
    CHECK(json::member(late(known), one.member) == one.kept);
    CHECK_FALSE(json::check(question.payload));
  }
}

TEST_CASE("[N28] an outcome that comes after the question was asked is shown beside it, and failed attempts are") {
  Rig rig;
  int effects = 0;
  bool hang = false;
  rig.add("flow", [&](flow::Context& c) {
    flow::StepOptions options;
    options.timeout = 2'000;
    options.retries = 1;
    options.backoff = 5'000;
    return c.step(
        "pay", Effect::non_idempotent,
        [&](const flow::EffectInfo&) -> std::string {
          ++effects;
          if (!hang) throw std::runtime_error("busy");
          too_late(rig, 2'000);
          rig.drive();  // asks the question
          return "\"receipt\"";
        },
        options);
  });
  const RunId run = rig.start("flow");
  rig.drive();
  hang = true;
  rig.advance(5'000);
  rig.drive();
  CHECK(effects == 2);
  const auto question = pending_wait(rig, run);
  const std::string known = json::member(question.payload, "known").value_or("");
  CHECK(json::at_pointer(known, "/failed_attempts/0/error/message") == "\"busy\"");
  CHECK(json::int_member(known, "executions") == 2);
  CHECK(json::member(known, "late_outcomes") == "[]");
  const std::string now = rig.store->read([&](db::ReadTx& tx) { return kernel::evidence_of(tx, question.step); });
  CHECK(json::member(late(now), "result") == "\"receipt\"");
}

}  // namespace
}  // namespace bide
