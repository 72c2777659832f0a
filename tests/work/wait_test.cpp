// Waits and timers over suspension, death and time.
#include <catch2/catch.hpp>

#include <thread>

#include "agent/base/json.h"
#include "tests/support/eventually.h"
#include "tests/support/verdict.h"

namespace bide {
namespace {

using kernel::RunStatus;
using kernel::WaitStatus;
using test::kApproved;
using test::pending_wait;
using test::Rig;
using test::verdict;

constexpr DurationMs kMinute = 60'000;
constexpr DurationMs kHour = 60 * kMinute;

flow::ApprovalOptions timed(DurationMs timeout, std::optional<std::string> fallback = std::nullopt) {
  flow::ApprovalOptions options;
  options.timeout = timeout;
  options.fallback = std::move(fallback);
  return options;
}

TEST_CASE("[N50] the process dies between a resolve and its wake, and the run goes on after the restart") {
  Rig rig;
  rig.add("flow", [](flow::Context& c) { return c.approval("?"); });
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK(verdict(rig.resolve(pending_wait(rig, run).id, kApproved)) == "resolved");
  rig.restart();
  CHECK(rig.run(run).status == RunStatus::queued);  // in the transaction of the answer, no sweep was needed
  CHECK(rig.drive() == 1);
  CHECK(rig.run(run).status == RunStatus::completed);
}

TEST_CASE("[N51] a timeout of 60 s expires at 60 s, with one wait.resolved") {
  Rig rig;
  rig.add("flow", [](flow::Context& c) { return c.approval("?", timed(kMinute)); });
  const RunId run = rig.start("flow");
  rig.drive();
  const auto wait = pending_wait(rig, run);
  rig.advance(kMinute - 1);
  rig.sweep->pass();
  CHECK(rig.drive() == 0);
  CHECK(pending_wait(rig, run).id == wait.id);
  rig.advance(1);
  rig.sweep->pass();
  CHECK(rig.waits(run).front().status == WaitStatus::expired);
  rig.sweep->pass();
  CHECK(rig.drive() == 1);
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(rig.run(run).result == R"({"expired":true})");
  CHECK(rig.count_events(run, "wait.resolved") == 1);
  CHECK(verdict(rig.resolve(wait.id, kApproved)) == "wait_expired");
}

TEST_CASE("[N51] an expiry gives the declared default with the flag") {
  Rig rig;
  rig.add("denied", [](flow::Context& c) { return c.approval("?", timed(kMinute, "denied")); });
  rig.add("question", [](flow::Context& c) {
    flow::QuestionOptions options;
    options.timeout = kMinute;
    options.fallback = R"({"port":80})";
    return c.question("?", options);
  });
  rig.add("signal", [](flow::Context& c) { return c.signal("go", kMinute); });
  const RunId denied = rig.start("denied");
  const RunId question = rig.start("question");
  const RunId signal = rig.start("signal");
  rig.drive();
  rig.advance(kMinute);
  rig.sweep->pass();
  rig.drive();
  CHECK(rig.run(denied).result == R"({"decision":"denied","expired":true})");
  CHECK(rig.run(question).result == R"({"answer":{"port":80},"expired":true})");
  CHECK(rig.run(signal).result == R"({"expired":true})");
}

TEST_CASE("[N51] a default of approved needs the workflow's permission") {
  for (const bool permitted : {false, true}) {
    Rig rig;
    flow::NativeWorkflow workflow;
    workflow.name = "flow";
    workflow.version = "1";
    workflow.allow_default_approved = permitted;
    workflow.run = [](flow::Context& c) { return c.approval("?", timed(kMinute, "approved")); };
    rig.add(workflow);
    const RunId run = rig.start("flow");
    rig.drive();
    if (!permitted) {
      CHECK(rig.run(run).status == RunStatus::failed);
      CHECK(rig.waits(run).empty());
      continue;
    }
    rig.advance(kMinute);
    rig.sweep->pass();
    rig.drive();
    CHECK(rig.run(run).result == R"({"decision":"approved","expired":true})");
  }
}

TEST_CASE("[N52] an answer of 59.9 s that is read at 61 s is the answer") {
  Rig rig;
  rig.add("flow", [](flow::Context& c) { return c.approval("?", timed(kMinute)); });
  const RunId run = rig.start("flow");
  rig.drive();
  const auto wait = pending_wait(rig, run);
  rig.advance(59'900);
  CHECK(verdict(rig.resolve(wait.id, kApproved)) == "resolved");
  rig.advance(1'100);
  rig.restart();
  rig.sweep->pass();
  rig.drive();
  CHECK(json::string_member(rig.run(run).result.value(), "decision") == "approved");
  CHECK_FALSE(json::member(rig.run(run).result.value(), "expired"));
}

TEST_CASE("[N52] an answer at 60.1 s comes too late, also before any sweep") {
  Rig rig;
  rig.add("flow", [](flow::Context& c) { return c.approval("?", timed(kMinute)); });
  const RunId run = rig.start("flow");
  rig.drive();
  const auto wait = pending_wait(rig, run);
  rig.advance(60'100);
  CHECK(verdict(rig.resolve(wait.id, kApproved)) == "wait_expired");
  CHECK(rig.waits(run).front().status == WaitStatus::pending);  // the sweep's to settle
  CHECK(rig.number("SELECT count(*) FROM approvals_audit WHERE verdict = 'refused' AND why = 'wait_expired'") == 1);
  rig.sweep->pass();
  rig.drive();
  CHECK(rig.run(run).result == R"({"expired":true})");
}

TEST_CASE("[N59] a stray wake on a waiting run: it stays waiting") {
  Rig rig;
  int before = 0;
  rig.add("flow", [&](flow::Context& c) {
    c.step("before", kernel::Effect::idempotent, [&](const flow::EffectInfo&) {
      ++before;
      return std::string("1");
    });
    return c.approval("?");
  });
  const RunId run = rig.start("flow");
  rig.drive();
  const auto wait = pending_wait(rig, run);
  for (int i = 0; i < 3; ++i) {
    (void)rig.store->write([&](db::Tx& tx) { return kernel::wake_run(tx, run, tx.now()); });
    CHECK(rig.drive() == 1);  // it looks once and lies down again: no loop
    CHECK(rig.run(run).status == RunStatus::waiting);
  }
  CHECK(pending_wait(rig, run).id == wait.id);
  CHECK(rig.waits(run).size() == 1);
  CHECK(before == 1);
  CHECK(rig.count_events(run, "wait.created") == 1);
}

TEST_CASE("[N60] a sleep of 200 ms is slept in the process, and others commit meanwhile") {
  Rig rig(Rig::Mode::threaded);
  rig.add("nap", [](flow::Context& c) {
    c.sleep(200);
    return std::string("1");
  });
  rig.add("other", [](flow::Context& c) { return c.approval("?"); });
  const RunId run = rig.start("nap");
  std::jthread worker([&] { rig.drive(1); });
  test::eventually([&] { return !rig.waits(run).empty(); }, "the timer's wait is there");
  const RunId other = rig.start("other");
  CHECK(rig.drive(1) == 1);
  CHECK(rig.run(other).status == RunStatus::waiting);
  CHECK(rig.run(run).status == RunStatus::running);
  CHECK(rig.waits(run).front().kind == kernel::WaitKind::timer);
  rig.advance(199);
  CHECK(rig.run(run).status == RunStatus::running);
  rig.advance(1);
  worker.join();
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(rig.count_events(run, "run.suspended") == 0);
  CHECK(rig.count_events(run, "run.claimed") == 1);
}

TEST_CASE("[N60] a sleep of an hour is a queued run, killed at 30 min, and wakes at 60:00") {
  Rig rig;
  std::string woke;
  rig.add("flow", [&](flow::Context& c) {
    c.sleep(kHour);
    return std::string("1");
  });
  const TimeMs begun = rig.clock.wall_ms();
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::queued);
  CHECK(rig.run(run).run_at == begun + kHour);
  rig.advance(kHour / 2);
  rig.restart();
  rig.sweep->pass();
  CHECK(rig.drive() == 0);
  rig.advance(kHour / 2 - 1);
  rig.sweep->pass();
  CHECK(rig.drive() == 0);
  rig.advance(1);
  CHECK(rig.drive() == 1);  // nothing but the time
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(rig.journal(run).front().result == R"({"woke_at":")" + format_time(begun + kHour) + "\"}");
  CHECK(rig.waits(run).front().status == WaitStatus::resolved);  // it is no expiry
}

TEST_CASE("[N61] down over a timer and a timeout: both are handled in the first pass") {
  Rig rig;
  rig.add("timer", [](flow::Context& c) {
    c.sleep(kMinute);
    return std::string("1");
  });
  rig.add("timeout", [](flow::Context& c) { return c.approval("?", timed(90'000)); });
  const RunId timer = rig.start("timer");
  const RunId timeout = rig.start("timeout");
  rig.drive();
  rig.advance(10'000);
  rig.restart();
  CHECK(rig.drive() == 0);
  rig.advance(110'000);
  rig.restart();
  rig.sweep->pass();
  CHECK(rig.drive() == 2);
  CHECK(rig.run(timer).status == RunStatus::completed);
  CHECK(rig.run(timeout).result == R"({"expired":true})");
}

TEST_CASE("[N62] a timeout may change between replays, what is asked and how long a timer is may not") {
  struct Case {
    std::string name;
    std::function<std::string(flow::Context&)> old_code, new_code;
    bool same;
  };
  const auto approval = [](std::string text, DurationMs timeout) {
    return [=](flow::Context& c) { return c.approval(text, timed(timeout)); };
  };
  const auto sleep = [](DurationMs length) {
    return [=](flow::Context& c) {
      c.sleep(length);
      return std::string("1");
    };
  };
  const auto question = [](std::vector<std::string> options) {
    return [=](flow::Context& c) {
      flow::QuestionOptions asked;
      asked.options = options;
      return c.question("?", asked);
    };
  };
  const std::vector<Case> cases = {
      {"timeout", approval("go?", kMinute), approval("go?", kHour), true},
      {"text", approval("go?", kMinute), approval("go on?", kMinute), false},
      {"options", question({"a", "b"}), question({"a", "c"}), false},
      {"timer", sleep(kHour), sleep(2 * kHour), false},
      {"kind", approval("go?", kMinute), sleep(kHour), false},
  };
  for (const Case& one : cases) {
    INFO(one.name);
    Rig rig;
    rig.add("flow", one.old_code);
    const RunId run = rig.start("flow");
    rig.drive();
    const auto wait = pending_wait(rig, run);
    rig.replace("flow", one.new_code);
    rig.restart();
    (void)rig.store->write([&](db::Tx& tx) { return kernel::wake_run(tx, run, tx.now()); });
    CHECK(rig.drive() == 1);
    if (one.same) {
      CHECK(rig.run(run).status == RunStatus::waiting);
      CHECK(pending_wait(rig, run).resolve_by == wait.resolve_by);  // as it was asked
    } else {
      CHECK(rig.run(run).status == RunStatus::failed);
      CHECK(json::string_member(rig.run(run).error.value_or("{}"), "code") == "NonDeterminism");
      CHECK(rig.waits(run).front().status == WaitStatus::cancelled);
    }
    CHECK(rig.count_events(run, "wait.created") == 1);
  }
}

TEST_CASE("[N64] cancel of a waiting run: the wait is cancelled, the run ends, a later answer is refused") {
  Rig rig;
  int entered = 0;
  rig.add("flow", [&](flow::Context& c) {
    ++entered;
    return c.approval("?");
  });
  const RunId run = rig.start("flow");
  rig.drive();
  const auto wait = pending_wait(rig, run);
  CHECK(verdict(rig.cancel(run)) == "ended");
  CHECK(rig.run(run).status == RunStatus::cancelled);
  CHECK(rig.waits(run).front().status == WaitStatus::cancelled);
  CHECK(rig.journal(run).front().status == kernel::StepStatus::cancelled);
  CHECK(verdict(rig.resolve(wait.id, kApproved)) == "wait_cancelled");
  CHECK(verdict(rig.cancel(run)) == "already ended");
  CHECK(rig.drive() == 0);
  CHECK(entered == 1);  // without its code
  CHECK(rig.count_events(run, "control.cancel") == 1);
  CHECK(rig.count_events(run, "run.cancelled") == 1);
  CHECK(rig.count_events(run, "wait.resolved") == 0);
}

TEST_CASE("[N91] suspended on a timer of 1 h, an approval and a retry in 5 min: the earliest wakes it, none is lost") {
  Rig rig;
  const TimeMs begun = rig.clock.wall_ms();
  std::atomic<int> tries{0};
  rig.add("flow", [&](flow::Context& c) {
    const auto results = c.branches({
        [](flow::Context& b) {
          b.sleep(kHour);
          return std::string("\"slept\"");
        },
        [](flow::Context& b) { return b.approval("?"); },
        [&](flow::Context& b) {
          flow::StepOptions options;
          options.backoff = 5 * kMinute;
          return b.step(
              "flaky", kernel::Effect::idempotent,
              [&](const flow::EffectInfo&) -> std::string {
                if (++tries < 3) throw std::runtime_error("not yet");
                return "\"done\"";
              },
              options);
        },
    });
    return results[2];
  });
  const RunId run = rig.start("flow");
  CHECK(rig.drive() == 1);
  CHECK(rig.run(run).status == RunStatus::queued);
  CHECK(rig.run(run).run_at == begun + 5 * kMinute);
  CHECK(tries == 1);
  rig.advance(5 * kMinute - 1);
  CHECK(rig.drive() == 0);
  rig.advance(1);
  CHECK(rig.drive() == 1);
  CHECK(tries == 2);
  CHECK(rig.run(run).run_at == begun + 10 * kMinute);
  // The approval wakes it at once, and the other two are still there after it.
  rig.advance(kMinute);
  std::optional<WaitId> approval;
  for (const auto& wait : rig.waits(run)) {
    if (wait.kind == kernel::WaitKind::approval) approval = wait.id;
  }
  CHECK(verdict(rig.resolve(approval.value(), kApproved)) == "resolved");
  CHECK(rig.run(run).run_at == begun + 6 * kMinute);
  CHECK(rig.drive() == 1);
  CHECK(tries == 2);
  CHECK(rig.run(run).run_at == begun + 10 * kMinute);
  rig.advance(4 * kMinute);
  CHECK(rig.drive() == 1);
  CHECK(tries == 3);
  CHECK(rig.run(run).status == RunStatus::queued);
  CHECK(rig.run(run).run_at == begun + kHour);
  rig.advance(50 * kMinute);
  CHECK(rig.drive() == 1);
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(rig.run(run).result == "\"done\"");
  CHECK(rig.count_events(run, "step.attempt_failed") == 2);
}

}  // namespace
}  // namespace bide
