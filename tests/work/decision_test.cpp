// Decisions: who may, what fits, which of two counts, and what comes ahead of its question.
#include <catch2/catch.hpp>

#include <latch>
#include <thread>

#include "agent/base/json.h"
#include "tests/support/verdict.h"

namespace bide {
namespace {

using test::kApproved;
using test::kDenied;
using test::pending_wait;
using test::resolve_named;
using test::Rig;
using test::verdict;

std::string decision_of(const std::string& resolution) {
  return json::string_member(resolution, "decision").value_or("");
}

// One approval, then one effect with what was decided.
struct Gated {
  explicit Gated(flow::ApprovalOptions options = {}, Rig::Mode mode = Rig::Mode::inlined) : rig(mode) {
    rig.add("flow", [this, options](flow::Context& c) {
      std::string answer = c.approval("ship it?", options);
      return c.step("ship", kernel::Effect::non_idempotent, [this, answer](const flow::EffectInfo&) {
        ++effects;
        return answer;
      });
    });
    run = rig.start("flow");
    rig.drive();
  }
  int audit(const std::string& verdict, const std::string& by) {
    return static_cast<int>(rig.number("SELECT count(*) FROM approvals_audit WHERE verdict = '" + verdict +
                                       "' AND decided_by = '" + by + "'"));
  }
  Rig rig;
  std::atomic<int> effects{0};
  RunId run;
};

TEST_CASE("[N53] two decisions: the first counts, the second is told who decided what and when") {
  Gated t;
  const auto wait = pending_wait(t.rig, t.run);
  CHECK(verdict(t.rig.resolve(wait.id, kApproved, Rig::person("ada"))) == "resolved");
  t.rig.advance(5'000);
  const auto second = t.rig.resolve(wait.id, kDenied, Rig::person("bob"));
  REQUIRE(verdict(second) == "wait_decided");
  const std::string told = std::get<Problem>(second).detail + std::get<Problem>(second).extra;
  CHECK(told.find("ada") != std::string::npos);
  CHECK(told.find("approved") != std::string::npos);
  CHECK(told.find("2027-01-01T00:00:00") != std::string::npos);
  CHECK(verdict(t.rig.resolve(wait.id, kApproved, Rig::person("ada"))) == "same");
  t.rig.drive();
  CHECK(decision_of(t.rig.run(t.run).result.value()) == "approved");
  CHECK(verdict(t.rig.resolve(wait.id, kApproved, Rig::person("ada"))) == "same");  // and after the run's end
  CHECK(t.effects == 1);
  CHECK(t.rig.count_events(t.run, "wait.resolved") == 1);
  CHECK(t.audit("accepted", "ada") == 3);  // each answer leaves its trace [A7]
  CHECK(t.rig.number("SELECT count(*) FROM approvals_audit WHERE why = 'same_again' AND decided_by = 'ada'") == 2);
  CHECK(t.audit("refused", "bob") == 1);
}

TEST_CASE("[N53] two decisions at once, from two threads") {
  constexpr int kRounds = 100;
  Rig rig(Rig::Mode::threaded);
  std::atomic<int> effects{0};
  rig.add("flow", [&](flow::Context& c) {
    std::string answer = c.approval("?");
    return c.step("act", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) {
      ++effects;
      return answer;
    });
  });
  for (int round = 0; round < kRounds; ++round) {
    const RunId run = rig.start("flow");
    rig.drive();
    const auto wait = pending_wait(rig, run);
    std::latch both(2);
    std::string told[2];
    {
      std::vector<std::jthread> people;
      for (int i = 0; i < 2; ++i) {
        people.emplace_back([&, i] {
          both.arrive_and_wait();
          told[i] = verdict(rig.resolve(wait.id, i == 0 ? kApproved : kDenied, Rig::person(i == 0 ? "ada" : "bob")));
        });
      }
    }
    const int first = told[0] == "resolved" ? 0 : 1;
    CHECK(told[first] == "resolved");
    CHECK(told[1 - first] == "wait_decided");
    rig.drive();
    CHECK(decision_of(rig.run(run).result.value()) == (first == 0 ? "approved" : "denied"));
    CHECK(rig.count_events(run, "wait.resolved") == 1);
  }
  CHECK(effects == kRounds);
}

TEST_CASE("[N54] an answer that does not fit the schema is refused with its pointer, a good one then lands") {
  Rig rig;
  rig.add("flow", [](flow::Context& c) {
    flow::QuestionOptions options;
    options.schema = R"({"type":"object","properties":{"port":{"type":"integer","minimum":1}},"required":["port"]})";
    return c.question("which port?", options);
  });
  const RunId run = rig.start("flow");
  rig.drive();
  const auto wait = pending_wait(rig, run);
  const auto refused = rig.resolve(wait.id, R"({"answer":{"port":"eighty"}})");
  REQUIRE(verdict(refused) == "answer_invalid");
  REQUIRE_FALSE(std::get<Problem>(refused).errors.empty());
  CHECK(std::get<Problem>(refused).errors.front().pointer == "/port");
  CHECK(pending_wait(rig, run).id == wait.id);
  CHECK(rig.drive() == 0);
  CHECK(verdict(rig.resolve(wait.id, kApproved)) == "bad_decision");
  CHECK(verdict(rig.resolve(wait.id, R"({"answer":{"port":80}})")) == "resolved");
  rig.drive();
  CHECK(json::member(rig.run(run).result.value(), "answer") == R"({"port":80})");
  CHECK(rig.number("SELECT count(*) FROM approvals_audit WHERE verdict = 'refused' AND why = 'answer_invalid'") == 1);
}

TEST_CASE("[N54] a question with options takes one of them") {
  Rig rig;
  rig.add("flow", [](flow::Context& c) {
    flow::QuestionOptions options;
    options.options = {"red", "green"};
    return c.question("which?", options);
  });
  const RunId run = rig.start("flow");
  rig.drive();
  const auto wait = pending_wait(rig, run);
  CHECK(verdict(rig.resolve(wait.id, R"({"answer":"blue"})")) == "answer_invalid");
  CHECK(verdict(rig.resolve(wait.id, R"({"answer":"green"})")) == "resolved");
}

TEST_CASE("[N55] not_initiator: the initiator is refused and audited, another is named") {
  flow::ApprovalOptions options;
  options.policy = "not_initiator";
  Gated t(options);
  const auto wait = pending_wait(t.rig, t.run);
  CHECK(verdict(t.rig.resolve(wait.id, kApproved, Rig::person("starter"))) == "not_initiator");
  const kernel::Principal reader{"eve", kernel::scopes_from("read start work"), RunId()};
  CHECK(verdict(t.rig.resolve(wait.id, kApproved, reader)) == "forbidden");
  CHECK(pending_wait(t.rig, t.run).id == wait.id);
  CHECK(t.rig.drive() == 0);
  CHECK(verdict(t.rig.resolve(wait.id, kApproved, Rig::person("ada"))) == "resolved");
  t.rig.drive();
  CHECK(json::string_member(t.rig.run(t.run).result.value(), "by") == "ada");
  CHECK(t.rig.waits(t.run).front().resolved_by == "ada");
  // The audit outlives its run [A7, W9].
  t.rig.exec("DELETE FROM waits; DELETE FROM steps; DELETE FROM events; DELETE FROM runs");
  CHECK(t.audit("refused", "starter") == 1);
  CHECK(t.audit("refused", "eve") == 1);
  CHECK(t.audit("accepted", "ada") == 1);
  CHECK(t.rig.number("SELECT count(*) FROM approvals_audit WHERE run_uid = '' OR workflow <> 'flow'") == 0);
}

TEST_CASE("[N55] initiator: only who started the run may decide") {
  flow::ApprovalOptions options;
  options.policy = "initiator";
  Gated t(options);
  const auto wait = pending_wait(t.rig, t.run);
  CHECK(verdict(t.rig.resolve(wait.id, kApproved, Rig::person("ada"))) == "not_initiator");
  CHECK(verdict(t.rig.resolve(wait.id, kApproved, Rig::person("starter"))) == "resolved");
}

TEST_CASE("[N56] quorum 2: one person counts once, a second person resolves") {
  flow::ApprovalOptions options;
  options.quorum = 2;
  Gated t(options);
  const auto wait = pending_wait(t.rig, t.run);
  CHECK(verdict(t.rig.resolve(wait.id, kApproved, Rig::person("ada"))) == "vote");
  const auto again = t.rig.resolve(wait.id, kApproved, Rig::person("ada"));
  REQUIRE(verdict(again) == "vote");
  CHECK(std::get<kernel::VoteCounted>(again).votes == 1);
  CHECK(std::get<kernel::VoteCounted>(again).quorum == 2);
  CHECK(t.rig.drive() == 0);
  CHECK(t.rig.run(t.run).status == kernel::RunStatus::waiting);
  t.rig.restart();
  CHECK(verdict(t.rig.resolve(wait.id, kApproved, Rig::person("bob"))) == "resolved");
  t.rig.drive();
  CHECK(t.effects == 1);
  const std::string result = t.rig.run(t.run).result.value();
  CHECK(result.find("ada") != std::string::npos);
  CHECK(result.find("bob") != std::string::npos);
  CHECK(t.rig.count_events(t.run, "wait.resolved") == 1);
}

TEST_CASE("[N56] quorum 2: a denial denies, also by who had approved") {
  for (const std::string person : {"ada", "bob"}) {
    flow::ApprovalOptions options;
    options.quorum = 2;
    Gated t(options);
    const auto wait = pending_wait(t.rig, t.run);
    CHECK(verdict(t.rig.resolve(wait.id, kApproved, Rig::person("ada"))) == "vote");
    CHECK(verdict(t.rig.resolve(wait.id, kDenied, Rig::person(person))) == "resolved");
    t.rig.drive();
    CHECK(decision_of(t.rig.run(t.run).result.value()) == "denied");
    CHECK(verdict(t.rig.resolve(wait.id, kApproved, Rig::person("cleo"))) == "wait_decided");
  }
}

TEST_CASE("[N57] a decision ahead of its question is used when it comes") {
  Rig rig;
  RunId run;
  bool early = true;
  rig.add("flow", [&](flow::Context& c) {
    c.step("before", kernel::Effect::pure, [&](const flow::EffectInfo&) {
      if (early) CHECK(verdict(resolve_named(rig, run, "gate", kApproved)) == "kept");
      return std::string("1");
    });
    flow::ApprovalOptions options;
    options.name = "gate";
    return c.approval("?", options);
  });
  run = rig.start("flow");
  CHECK(rig.drive() == 1);  // never suspended
  CHECK(rig.run(run).status == kernel::RunStatus::completed);
  CHECK(decision_of(rig.run(run).result.value()) == "approved");
  CHECK(json::string_member(rig.run(run).result.value(), "by") == "ada");
  CHECK(rig.count_events(run, "run.suspended") == 0);
  CHECK(rig.count_events(run, "wait.created") == 1);
  CHECK(rig.count_events(run, "wait.resolved") == 1);
  CHECK(rig.number("SELECT count(*) FROM early_decisions") == 0);
}

TEST_CASE("[N57] an early decision that is not allowed or does not fit is dropped, audited, and the question opens") {
  Rig rig;
  rig.add("flow", [&](flow::Context& c) {
    flow::ApprovalOptions gate;
    gate.name = "gate";
    gate.policy = "not_initiator";
    c.approval("?", gate);
    flow::QuestionOptions port;
    port.name = "port";
    port.schema = R"({"type":"integer"})";
    return c.question("?", port);
  });
  const RunId run = rig.start("flow");
  const kernel::Principal step{"attempt:1", kernel::scopes_from("attempt"), run};
  CHECK(verdict(resolve_named(rig, run, "gate", kApproved, step)) == "forbidden");  // at the door
  CHECK(verdict(resolve_named(rig, run, "gate", kApproved, Rig::person("starter"))) == "kept");
  CHECK(verdict(resolve_named(rig, run, "port", R"({"answer":"eighty"})")) == "kept");
  rig.drive();
  CHECK(pending_wait(rig, run).name == "gate");
  CHECK(rig.number("SELECT count(*) FROM approvals_audit WHERE verdict = 'dropped' AND why = 'not_initiator'") == 1);
  CHECK(verdict(resolve_named(rig, run, "gate", kApproved)) == "resolved");
  rig.drive();
  CHECK(pending_wait(rig, run).name == "port");
  CHECK(rig.number("SELECT count(*) FROM approvals_audit WHERE verdict = 'dropped' AND why = 'answer_invalid'") == 1);
  CHECK(verdict(resolve_named(rig, run, "port", R"({"answer":80})")) == "resolved");
  rig.drive();
  CHECK(rig.run(run).status == kernel::RunStatus::completed);
}

TEST_CASE("[N58] one name in a loop of three: three waits, each with its own id and answer") {
  Rig rig;
  std::vector<std::string> heard;
  rig.add("flow", [&](flow::Context& c) {
    heard.clear();
    for (int i = 0; i < 3; ++i) heard.push_back(c.question("again?"));
    return std::string("null");
  });
  const RunId run = rig.start("flow");
  std::vector<WaitId> ids;
  for (int i = 0; i < 3; ++i) {
    rig.drive();
    const auto wait = pending_wait(rig, run);
    ids.push_back(wait.id);
    CHECK(wait.name == "question");
    CHECK(verdict(rig.resolve(wait.id, R"({"answer":)" + std::to_string(i) + "}")) == "resolved");
    if (i == 1) rig.restart();
  }
  rig.drive();
  CHECK(rig.run(run).status == kernel::RunStatus::completed);
  CHECK(ids[0] != ids[1]);
  CHECK(ids[1] != ids[2]);
  REQUIRE(heard.size() == 3);
  for (int i = 0; i < 3; ++i) CHECK(json::member(heard[i], "answer") == std::to_string(i));
  // The answer of one round is not the answer of another [A6].
  CHECK(verdict(rig.resolve(ids[0], R"({"answer":2})")) == "wait_decided");
  CHECK(rig.count_events(run, "wait.created") == 3);
}

TEST_CASE("[N93] a double click on an early decision does not open the next round's gate") {
  Rig rig;
  rig.add("flow", [&](flow::Context& c) {
    flow::ApprovalOptions gate;
    gate.name = "gate";
    std::string rounds;
    for (int i = 0; i < 2; ++i) rounds += decision_of(c.approval("round " + std::to_string(i), gate)) + " ";
    return json::quote(rounds);
  });
  const RunId run = rig.start("flow");
  CHECK(verdict(resolve_named(rig, run, "gate", kApproved)) == "kept");
  CHECK(verdict(resolve_named(rig, run, "gate", kApproved)) == "kept");  // the double click: one a person
  CHECK(rig.number("SELECT count(*) FROM early_decisions") == 1);
  rig.drive();
  CHECK(rig.waits(run).size() == 2);
  CHECK(pending_wait(rig, run).payload.find("round 1") != std::string::npos);
}

TEST_CASE("[N93] a click that comes between two rounds is told the outcome of the first and kept for nothing") {
  Rig rig;
  RunId run;
  std::string told;
  rig.add("flow", [&](flow::Context& c) {
    flow::ApprovalOptions gate;
    gate.name = "gate";
    c.approval("round 0", gate);
    c.step("between", kernel::Effect::pure, [&](const flow::EffectInfo&) {
      told = verdict(resolve_named(rig, run, "gate", kDenied, Rig::person("bob")));
      return std::string("1");
    });
    return c.approval("round 1", gate);
  });
  run = rig.start("flow");
  rig.drive();
  CHECK(verdict(resolve_named(rig, run, "gate", kApproved)) == "resolved");
  rig.drive();
  CHECK(told == "wait_decided");
  CHECK(rig.number("SELECT count(*) FROM early_decisions") == 0);
  CHECK(pending_wait(rig, run).payload.find("round 1") != std::string::npos);
  CHECK(rig.run(run).status == kernel::RunStatus::waiting);
}

TEST_CASE("[N102] the attempt's own credential opens no gate of its run, and the try is audited") {
  Gated t;
  const auto wait = pending_wait(t.rig, t.run);
  const kernel::Principal step{"attempt:" + std::to_string(t.run.value), kernel::scopes_from("attempt"), t.run};
  CHECK(verdict(t.rig.resolve(wait.id, kApproved, step)) == "forbidden");
  CHECK(verdict(resolve_named(t.rig, t.run, "approval", kApproved, step)) == "forbidden");
  CHECK(pending_wait(t.rig, t.run).status == kernel::WaitStatus::pending);
  CHECK(t.rig.drive() == 0);
  CHECK(t.effects == 0);
  CHECK(t.audit("refused", step.name) == 2);
  CHECK(t.audit("accepted", step.name) == 0);
}

}  // namespace
}  // namespace bide
