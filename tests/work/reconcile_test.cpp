// A step in doubt: what a person may answer, and what each answer does.
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "tests/support/verdict.h"

namespace bide {
namespace {

using kernel::RunStatus;
using kernel::StepStatus;
using kernel::WaitStatus;
using test::pending_wait;
using test::Rig;
using test::verdict;

// A run whose payment was under way when the process died; `after` counts the effects of the step behind it.
struct Doubt {
  explicit Doubt(std::optional<std::string> assume = std::nullopt) {
    rig.add("flow", [this, assume](flow::Context& c) {
      flow::StepOptions options;
      options.request = R"({"amount":7})";
      options.assume = assume;
      std::string paid = c.step(
          "pay", kernel::Effect::non_idempotent,
          [this](const flow::EffectInfo& info) {
            ++paid_;
            keys_.push_back(info.idempotency_key);
            if (die) throw test::Died{};
            return std::string("\"receipt\"");
          },
          options);
      c.step("after", kernel::Effect::non_idempotent, [this](const flow::EffectInfo&) {
        ++after_;
        return std::string("1");
      });
      return paid;
    });
    run = rig.start("flow");
    CHECK_THROWS_AS(rig.drive(), test::Died);
    die = false;
    comes_back();
  }
  void comes_back() {
    rig.restart();
    rig.sweep->pass();
    rig.drive();
  }
  std::string answer(const std::string& words, const std::string& more = "") {
    return verdict(rig.resolve(pending_wait(rig, run).id, R"({"answer":)" + json::quote(words) + more + "}"));
  }
  Rig rig;
  RunId run;
  bool die = true;
  int paid_ = 0;
  int after_ = 0;
  std::vector<std::string> keys_;
};

TEST_CASE("[N68] ran: the assumed result, else a marker, else what the answer brings, and the ledger stays") {
  struct Case {
    std::optional<std::string> assume;
    std::string more;
    std::string result;
  };
  const std::vector<Case> cases = {
      {std::nullopt, "", R"({"assumed":true})"},
      {"\"as usual\"", "", "\"as usual\""},
      {"\"as usual\"", R"(,"result":{"id": 12345678901234567890})", R"({"id": 12345678901234567890})"},
      {std::nullopt, R"(,"result":null)", "null"},
  };
  for (const Case& one : cases) {
    INFO(one.result);
    Doubt t(one.assume);
    CHECK(t.rig.run(t.run).status == RunStatus::waiting);
    CHECK(t.answer("ran", one.more) == "resolved");
    t.rig.drive();
    CHECK(t.paid_ == 1);
    CHECK(t.after_ == 1);
    CHECK(t.rig.run(t.run).status == RunStatus::completed);
    CHECK(t.rig.run(t.run).result == one.result);
    CHECK(t.rig.journal(t.run).front().result == one.result);
    t.comes_back();
    CHECK(t.paid_ == 1);
  }
}

TEST_CASE("[N68] what the question shows") {
  Doubt t;
  const auto wait = pending_wait(t.rig, t.run);
  CHECK(wait.kind == kernel::WaitKind::reconcile);
  CHECK_FALSE(wait.resolve_by);
  CHECK(json::string_member(wait.payload, "step") == "pay");
  CHECK(json::member(wait.payload, "request") == R"({"amount":7})");
  CHECK(json::string_member(wait.payload, "arguments_hash").value_or("").size() == 64);
  CHECK(json::string_member(wait.payload, "started_at") == "2027-01-01T00:00:00.000Z");
  CHECK(json::int_member(wait.payload, "executions") == 1);
  CHECK(t.rig.journal(t.run).front().status == StepStatus::needs_reconcile);
  CHECK(t.rig.count_events(t.run, "step.needs_reconcile") == 1);
  CHECK(t.rig.count_events(t.run, "wait.created") == 1);
  CHECK(t.paid_ == 1);
  CHECK(t.after_ == 0);
}

TEST_CASE("[N69] run: it runs once more under its key") {
  Doubt t;
  CHECK(t.answer("It didn't.") == "resolved");
  t.rig.drive();
  CHECK(t.paid_ == 2);
  CHECK(t.keys_[0] == t.keys_[1]);
  CHECK(t.rig.journal(t.run).front().executions == 2);
  CHECK(t.rig.run(t.run).result == "\"receipt\"");
  t.comes_back();
  CHECK(t.paid_ == 2);
}

TEST_CASE("[N69] run, and it dies again: asked anew, one pending question, the old one stays resolved") {
  Doubt t;
  const auto first = pending_wait(t.rig, t.run);
  CHECK(t.answer("run") == "resolved");
  t.die = true;
  CHECK_THROWS_AS(t.rig.drive(), test::Died);
  t.die = false;
  t.comes_back();
  CHECK(t.paid_ == 2);
  const auto second = pending_wait(t.rig, t.run);
  CHECK(second.id != first.id);
  CHECK(second.step == first.step);
  CHECK(json::int_member(second.payload, "executions") == 2);
  CHECK(t.rig.waits(t.run).size() == 2);
  CHECK(t.rig.waits(t.run).front().status == WaitStatus::resolved);
  CHECK(t.rig.run(t.run).status == RunStatus::waiting);
  CHECK(t.answer("ran") == "resolved");
  t.rig.drive();
  CHECK(t.paid_ == 2);
  CHECK(t.rig.run(t.run).status == RunStatus::completed);
}

TEST_CASE("[N69] run, and the process dies before it is read: run once, not asked again") {
  Doubt t;
  CHECK(t.answer("run") == "resolved");
  t.comes_back();
  CHECK(t.paid_ == 2);
  CHECK(t.rig.waits(t.run).size() == 1);
  CHECK(t.rig.run(t.run).status == RunStatus::completed);
}

TEST_CASE("[N70] abort: the step has failed, the run is cancelled, in the answer's transaction") {
  Doubt t;
  CHECK(t.answer("abort") == "resolved");
  CHECK(t.rig.run(t.run).status == RunStatus::cancelled);
  const auto step = t.rig.journal(t.run).front();
  CHECK(step.status == StepStatus::failed);
  CHECK(json::string_member(step.error.value_or("{}"), "code") == "ReconcileAborted");
  CHECK(t.rig.count_events(t.run, "step.failed") == 1);
  CHECK(t.rig.count_events(t.run, "control.cancel") == 1);
  CHECK(t.rig.count_events(t.run, "run.cancelled") == 1);
  CHECK(t.rig.drive() == 0);
  t.comes_back();
  CHECK(t.paid_ == 1);
  CHECK(t.after_ == 0);
}

TEST_CASE("[N71] words that do not mean one of the three as a whole are not understood") {
  Doubt t;
  const auto wait = pending_wait(t.rig, t.run);
  for (const std::string words :
       {"maybe", "it ran into trouble", "abortive", "", "ran ran", "run abort", "yes", "..", "ran!"}) {
    INFO(words);
    const auto outcome = t.rig.resolve(wait.id, R"({"answer":)" + json::quote(words) + "}");
    REQUIRE(verdict(outcome) == "not_understood");
    for (const std::string known : {"it ran", "continue", "it did not", "it didn't", "run it", "abort"}) {
      CHECK(std::get<Problem>(outcome).detail.find(known) != std::string::npos);
    }
  }
  CHECK(verdict(t.rig.resolve(wait.id, R"({"answer":true})")) == "not_understood");
  CHECK(verdict(t.rig.resolve(wait.id, R"({"answer":{"ran":true}})")) == "not_understood");
  CHECK(pending_wait(t.rig, t.run).id == wait.id);
  CHECK(t.rig.drive() == 0);
  CHECK(t.paid_ == 1);
  CHECK(t.rig.number("SELECT count(*) FROM approvals_audit WHERE verdict = 'refused' AND why = 'not_understood'") ==
        11);
  CHECK(t.answer("  IT DIDN'T  ") == "resolved");
  t.rig.drive();
  CHECK(t.paid_ == 2);
}

TEST_CASE("[N71] each of the words that are understood") {
  struct Case {
    std::string words;
    int paid;
  };
  for (const Case& one : std::vector<Case>{{"ran", 1},
                                           {"It ran", 1},
                                           {"continue.", 1},
                                           {"RUN", 2},
                                           {"it did not", 2},
                                           {"it did not run", 2},
                                           {"run it", 2}}) {
    INFO(one.words);
    Doubt t;
    CHECK(t.answer(one.words) == "resolved");
    t.rig.drive();
    CHECK(t.paid_ == one.paid);
    CHECK(t.rig.run(t.run).status == RunStatus::completed);
  }
}

TEST_CASE("[N72] the process dies after the question was committed: one pending question after each restart") {
  Doubt t;
  const auto wait = pending_wait(t.rig, t.run);
  for (int i = 0; i < 3; ++i) {
    t.comes_back();
    (void)t.rig.store->write([&](db::Tx& tx) { return kernel::wake_run(tx, t.run, tx.now()); });
    t.rig.drive();
    CHECK(pending_wait(t.rig, t.run).id == wait.id);
    CHECK(t.rig.waits(t.run).size() == 1);
    CHECK(t.rig.run(t.run).status == RunStatus::waiting);
  }
  CHECK(t.paid_ == 1);
  CHECK(t.rig.count_events(t.run, "wait.created") == 1);
  CHECK(t.rig.count_events(t.run, "step.needs_reconcile") == 1);
}

TEST_CASE("[N73] cancel while the question is open: run and question are cancelled, the step stays in doubt") {
  Doubt t;
  const auto wait = pending_wait(t.rig, t.run);
  CHECK(verdict(t.rig.cancel(t.run)) == "ended");
  CHECK(t.rig.run(t.run).status == RunStatus::cancelled);
  CHECK(t.rig.waits(t.run).front().status == WaitStatus::cancelled);
  CHECK(t.rig.journal(t.run).front().status == StepStatus::needs_reconcile);  // nobody knows, and it says so
  CHECK(verdict(t.rig.resolve(wait.id, R"({"answer":"run"})")) == "wait_cancelled");
  t.comes_back();
  CHECK(t.paid_ == 1);
}

}  // namespace
}  // namespace bide
