// How native code ends: a branch that fails ends the others [P1], code that ends before its entries does not [J9].
#include <catch2/catch.hpp>

#include <atomic>

#include "agent/base/json.h"
#include "tests/support/eventually.h"
#include "tests/support/verdict.h"

namespace bide {
namespace {

using namespace std::chrono_literals;
using kernel::Effect;
using kernel::RunStatus;
using kernel::StepStatus;
using kernel::WaitStatus;
using test::eventually;
using test::pending_wait;
using test::Rig;

std::string code_of(const std::optional<std::string>& error) {
  return json::string_member(error.value_or("{}"), "code").value_or("");
}

StepStatus status_of(Rig& rig, RunId run, const std::string& step) {
  for (const auto& row : rig.journal(run)) {
    if (row.name == step) return row.status;
  }
  throw std::logic_error("no step " + step);
}

bool has_step(Rig& rig, RunId run, const std::string& step) {
  for (const auto& row : rig.journal(run)) {
    if (row.name == step) return true;
  }
  return false;
}

// Five branches: one executes, one waits for a person, one for its retry, one executes and will fail, and the last
// fails for good when all of that is so.
struct Five {
  explicit Five(flow::Join join = flow::Join::all) {
    rig.add("flow", [this, join](flow::Context& c) {
      c.branches({[this](flow::Context& b) {
                    std::string got = b.step("slow", Effect::non_idempotent, [this](const flow::EffectInfo&) {
                      ++inside;
                      (void)test::holds_within(60s, [this] { return release.load(); });
                      if (die) throw test::Died{};
                      return std::string("1");
                    });
                    if (swallow) {
                      try {
                        b.step("more", Effect::pure,
                               [this](const flow::EffectInfo&) { return std::to_string(++begun); });
                      } catch (...) {
                        ++begun_refused;
                      }
                    }
                    b.step("never", Effect::pure, [this](const flow::EffectInfo&) { return std::to_string(++begun); });
                    return got;
                  },
                  [this](flow::Context& b) {
                    b.approval("go on?");
                    b.step("never", Effect::pure, [this](const flow::EffectInfo&) { return std::to_string(++begun); });
                    return std::string("2");
                  },
                  [](flow::Context& b) {
                    flow::StepOptions options;
                    options.backoff = 3'600'000;
                    return b.step(
                        "again", Effect::pure,
                        [](const flow::EffectInfo&) -> std::string { throw std::runtime_error("not yet"); }, options);
                  },
                  [this](flow::Context& b) {
                    return b.step("late", Effect::idempotent, [this](const flow::EffectInfo&) -> std::string {
                      ++inside;
                      (void)test::holds_within(60s, [this] { return release.load(); });
                      throw std::runtime_error("late");
                    });
                  },
                  [this](flow::Context& b) {
                    (void)test::holds_within(60s, [this, &b] {
                      return inside == 2 && rig.waits(b.run()).size() == 1 &&
                             rig.number("SELECT count(*) FROM steps WHERE status = 'pending'") == 1;
                    });
                    return b.step("bad", Effect::pure,
                                  [](const flow::EffectInfo&) -> std::string { throw flow::Final("no such host"); });
                  }},
                 join);
      return std::string("\"end\"");
    });
  }
  Rig rig{Rig::Mode::threaded};
  std::atomic<int> inside{0};
  std::atomic<int> begun{0};
  std::atomic<int> begun_refused{0};
  std::atomic<bool> release{false};
  std::atomic<bool> die{false};
  bool swallow = false;
};

TEST_CASE("[N79] one of five branches fails: the others begin nothing more, what executes is recorded, the run fails") {
  Five t;
  t.swallow = true;
  const RunId run = t.rig.start("flow");
  t.rig.executor->start();
  eventually([&] { return t.rig.run(run).error.has_value(); }, "the end is written");
  CHECK(t.rig.run(run).status == RunStatus::running);  // two steps execute
  REQUIRE(t.rig.waits(run).size() == 1);
  CHECK(t.rig.waits(run)[0].status == WaitStatus::cancelled);
  CHECK(status_of(t.rig, run, "again") == StepStatus::cancelled);
  CHECK(status_of(t.rig, run, "slow") == StepStatus::started);
  CHECK(status_of(t.rig, run, "bad") == StepStatus::failed);
  CHECK(test::verdict(t.rig.resolve(t.rig.waits(run)[0].id, test::kApproved)) == "wait_cancelled");
  CHECK_FALSE(test::holds_within(100ms, [&] { return t.rig.run(run).status != RunStatus::running; }));
  t.release = true;
  eventually([&] { return t.rig.run(run).status == RunStatus::failed; }, "the run fails");
  CHECK(json::string_member(t.rig.run(run).error.value(), "message") == "no such host");
  CHECK(status_of(t.rig, run, "slow") == StepStatus::completed);
  CHECK(status_of(t.rig, run, "late") == StepStatus::cancelled);  // its failed attempt is an event
  CHECK(t.rig.number("SELECT count(*) FROM events WHERE kind = 'step.attempt_failed'") == 2);
  CHECK(t.rig.count_events(run, "run.failed") == 1);
  CHECK(t.begun == 0);
  CHECK(t.begun_refused == 1);
  CHECK_FALSE(has_step(t.rig, run, "never"));
  t.rig.restart();
  t.rig.sweep->pass();
  CHECK(t.rig.drive() == 0);
}

TEST_CASE(
    "[N79] the process dies while what executes is let finish: the code is not entered again, the run fails [E6]") {
  Five t;
  t.die = true;
  const RunId run = t.rig.start("flow");
  std::jthread opens([&] {
    (void)test::holds_within(60s, [&] { return t.rig.run(run).error.has_value(); });
    t.release = true;
  });
  CHECK_THROWS_AS(t.rig.drive(), test::Died);
  opens.join();
  CHECK(t.rig.run(run).status == RunStatus::running);
  t.die = false;
  t.rig.restart();
  t.rig.sweep->pass();
  t.rig.drive();
  CHECK(t.rig.run(run).status == RunStatus::failed);
  CHECK(json::string_member(t.rig.run(run).error.value(), "message") == "no such host");
  CHECK(status_of(t.rig, run, "slow") == StepStatus::needs_reconcile);  // listed as in doubt, nobody is asked
  CHECK(t.inside == 2);
  CHECK(t.begun == 0);
}

TEST_CASE("[N79] join settle: the others go on to their ends, then the failure is thrown [P1]") {
  Rig rig;
  int others = 0;
  rig.add("flow", [&](flow::Context& c) {
    std::string failed = "nothing";
    try {
      c.branches({[](flow::Context& b) {
                    return b.step("bad", Effect::pure,
                                  [](const flow::EffectInfo&) -> std::string { throw flow::Final("bad host"); });
                  },
                  [&](flow::Context& b) {
                    b.approval("go on?");
                    return b.step("other", Effect::pure,
                                  [&](const flow::EffectInfo&) { return std::to_string(++others); });
                  }},
                 flow::Join::settle);
    } catch (const flow::StepFailed& e) {
      failed = e.what();
    }
    return json::quote(failed);
  });
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::waiting);
  CHECK(test::verdict(rig.resolve(pending_wait(rig, run).id, test::kApproved)) == "resolved");
  rig.drive();
  CHECK(rig.run(run).result == "\"bad host\"");
  CHECK(others == 1);
}

// Thrown by an effect past everything that takes it for a failure: the step stays open, and code that swallows it ends.
struct Odd {};

TEST_CASE(
    "[J9] native code that ends with an open entry is run once more, and fails with OpenSteps if it does so again") {
  for (const bool heals : {true, false}) {
    for (const Effect effect : {Effect::pure, Effect::non_idempotent}) {
      Rig rig;
      int effects = 0;
      int entered = 0;
      rig.add("flow", [&](flow::Context& c) {
        ++entered;
        try {
          return c.step("odd", effect, [&](const flow::EffectInfo&) -> std::string {
            rig.store->flush_riders();
            if (++effects > 1 && heals) return "7";
            throw Odd{};
          });
        } catch (const Odd&) {
          return std::string("\"ended early\"");
        }
      });
      const RunId run = rig.start("flow");
      CHECK(rig.drive(1) == 1);
      CHECK(rig.run(run).status == RunStatus::queued);
      CHECK(rig.count_events(run, "run.open_steps") == 1);
      rig.drive();
      if (effect == Effect::non_idempotent) {  // E1: nobody knows whether it ran
        CHECK(rig.run(run).status == RunStatus::waiting);
        CHECK(effects == 1);
        CHECK(test::verdict(rig.resolve(pending_wait(rig, run).id, R"({"answer":"run"})")) == "resolved");
        rig.drive();
      }
      CHECK(effects == 2);
      CHECK(entered == (effect == Effect::pure ? 2 : 3));
      CHECK(rig.run(run).status == (heals ? RunStatus::completed : RunStatus::failed));
      if (heals) {
        CHECK(rig.run(run).result == "7");
      } else {
        CHECK(code_of(rig.run(run).error) == "OpenSteps");
      }
      rig.restart();
      (void)rig.sweep->pass();
      CHECK(rig.drive() == 0);
      if (heals) continue;
      // An operator's retry begins anew: once more, then OpenSteps.
      rig.store->write([&](db::Tx& tx) { (void)kernel::retry_run(tx, run, "ada", tx.now()); });
      CHECK(rig.drive(1) == 1);
      CHECK(rig.run(run).status == (effect == Effect::pure ? RunStatus::queued : RunStatus::waiting));
    }
  }
}

}  // namespace
}  // namespace bide
