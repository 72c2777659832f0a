// Children: a run that a step started, and what the end of either does to the other [A11, P1, W3].
#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "tests/support/rig.h"
#include "tests/support/verdict.h"

namespace bide {
namespace {

using kernel::RunStatus;
using kernel::StepStatus;
using test::Rig;

// The runs of a parent's steps, by id.
std::vector<RunId> children_of(Rig& rig, RunId parent) {
  return rig.store->read([&](db::ReadTx& tx) {
    std::vector<RunId> children;
    db::Query q(tx, "SELECT c.id FROM runs c JOIN steps s ON s.id = c.parent_step_id WHERE s.run_id = ? ORDER BY c.id");
    q.bind(parent);
    while (q.next()) children.push_back(RunId(q.integer(0)));
    return children;
  });
}

std::vector<std::int64_t> order_of(Rig& rig, const std::string& kind) {
  return rig.store->read([&](db::ReadTx& tx) {
    std::vector<std::int64_t> runs;
    db::Query q(tx, "SELECT run_id FROM events WHERE kind = ? ORDER BY id");
    q.bind(kind);
    while (q.next()) runs.push_back(q.integer(0));
    return runs;
  });
}

TEST_CASE("[N20] the child's end, the parent's step and its wake are one commit") {
  Rig rig;
  int after = 0;
  int effects = 0;
  rig.add("child", [&](flow::Context& c) {
    c.step("work", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) { return std::to_string(++effects); });
    return c.input();
  });
  rig.add("parent", [&](flow::Context& c) {
    std::string got = c.call("child", R"({"n": 1.50})");
    c.step("after", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) { return std::to_string(++after); });
    return got;
  });
  const RunId parent = rig.start("parent");
  CHECK(rig.drive(1) == 1);
  CHECK(rig.run(parent).status == RunStatus::waiting);
  const auto children = children_of(rig, parent);
  REQUIRE(children.size() == 1);
  CHECK(rig.run(children[0]).created_by == "starter");
  CHECK(rig.drive(1) == 1);  // the child, and nothing after it
  CHECK(rig.run(children[0]).status == RunStatus::completed);
  CHECK(rig.run(parent).status == RunStatus::queued);
  CHECK(rig.journal(parent).front().status == StepStatus::completed);
  rig.restart();
  rig.sweep->pass();
  CHECK(rig.drive() == 1);
  CHECK(rig.run(parent).result == R"({"n": 1.50})");
  CHECK(effects == 1);
  CHECK(after == 1);
  CHECK(children_of(rig, parent).size() == 1);
  CHECK(rig.count_events(parent, "step.completed") == 2);
}

TEST_CASE("[N21] a child that has ended while its step is open is settled by the sweep, once") {
  Rig rig;
  rig.add("child", [](flow::Context& c) { return c.signal("never"); });
  rig.add("parent", [](flow::Context& c) { return c.call("child"); });
  const RunId parent = rig.start("parent");
  rig.drive();
  const auto children = children_of(rig, parent);
  REQUIRE(children.size() == 1);
  rig.exec("UPDATE runs SET status = 'completed', result = '\"by hand\"', finished_at = 1 WHERE id = " +
           std::to_string(children[0].value));
  CHECK(rig.drive() == 0);
  CHECK(rig.run(parent).status == RunStatus::waiting);
  rig.sweep->pass();
  CHECK(rig.run(parent).status == RunStatus::queued);
  CHECK(rig.journal(parent).front().result == "\"by hand\"");
  const auto events = rig.number("SELECT count(*) FROM events");
  rig.advance(limits::kOrphanScanMs + 1);
  rig.sweep->pass();
  CHECK(rig.number("SELECT count(*) FROM events") == events);
  CHECK(rig.drive() == 1);
  CHECK(rig.run(parent).result == "\"by hand\"");
}

TEST_CASE("[N22] a loop starts a child a round, and each round gets its own child's result") {
  Rig rig;
  rig.add("child", [](flow::Context& c) { return c.input(); });
  rig.add("parent", [](flow::Context& c) {
    std::string all;
    for (int round = 0; round < 5; ++round) all += c.call("child", std::to_string(round));
    return json::quote(all);
  });
  const RunId parent = rig.start("parent");
  int driven = 0;
  while (rig.drive(1) == 1) {
    ++driven;
    rig.advance(limits::kOrphanScanMs + 1);
    rig.sweep->pass();  // between the child's end and the next start too
    if (driven % 3 == 0) rig.restart();
  }
  CHECK(rig.run(parent).result == "\"01234\"");
  CHECK(children_of(rig, parent).size() == 5);
  CHECK(driven == 11);  // five children, and the parent before, between and after
}

TEST_CASE("[N22] equal calls in a loop are children of their own") {
  Rig rig;
  int runs = 0;
  rig.add("child", [&](flow::Context& c) {
    return c.step("s", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) { return std::to_string(++runs); });
  });
  rig.add("parent", [](flow::Context& c) {
    const std::string first = c.call("child");
    return first + c.call("child");
  });
  const RunId parent = rig.start("parent");
  rig.drive();
  CHECK(rig.run(parent).result == "12");
  CHECK(rig.number("SELECT count(DISTINCT uid) FROM runs") == 3);
}

TEST_CASE("[N23] a child that failed gives the parent its code, caught or not") {
  Rig rig;
  std::string seen;
  bool caught = true;
  rig.add("child", [](flow::Context& c) -> std::string {
    flow::StepOptions once;
    once.retries = 0;
    return c.step(
        "s", kernel::Effect::pure, [](const flow::EffectInfo&) -> std::string { throw flow::Final("no stock"); }, once);
  });
  rig.add("parent", [&](flow::Context& c) -> std::string {
    if (!caught) return c.call("child");
    try {
      return c.call("child");
    } catch (const flow::StepFailed& failed) {
      seen = failed.error;
      return "\"went on\"";
    }
  });
  const RunId first = rig.start("parent");
  rig.drive();
  CHECK(rig.run(first).result == "\"went on\"");
  CHECK(json::string_member(seen, "code") == "StepError");
  CHECK(json::string_member(seen, "message") == "no stock");
  CHECK(json::int_member(seen, "child") == children_of(rig, first).at(0).value);
  caught = false;
  const RunId second = rig.start("parent");
  rig.drive();
  CHECK(rig.run(second).status == RunStatus::failed);
  CHECK(json::string_member(rig.run(second).error.value(), "code") == "StepError");
}

TEST_CASE("[N23] a child that was cancelled fails its step with Cancelled") {
  Rig rig;
  std::string seen;
  rig.add("child", [](flow::Context& c) { return c.approval("?"); });
  rig.add("parent", [&](flow::Context& c) -> std::string {
    try {
      return c.call("child");
    } catch (const flow::StepFailed& failed) {
      seen = failed.error;
      return "1";
    }
  });
  const RunId parent = rig.start("parent");
  rig.drive();
  CHECK(test::verdict(rig.cancel(children_of(rig, parent).at(0))) == "ended");
  CHECK(rig.run(parent).status == RunStatus::queued);
  rig.drive();
  CHECK(json::string_member(seen, "code") == "Cancelled");
  CHECK(rig.run(parent).status == RunStatus::completed);
}

TEST_CASE("[N23] cancelling a grandparent cancels deepest first, each once, and nobody is woken for it") {
  Rig rig;
  int entered = 0;
  rig.add("leaf", [](flow::Context& c) { return c.approval("?"); });
  rig.add("middle", [&](flow::Context& c) {
    ++entered;
    return c.call("leaf");
  });
  rig.add("top", [&](flow::Context& c) {
    ++entered;
    return c.call("middle");
  });
  const RunId top = rig.start("top");
  rig.drive();
  const RunId middle = children_of(rig, top).at(0);
  const RunId leaf = children_of(rig, middle).at(0);
  CHECK(test::verdict(rig.cancel(top)) == "ended");
  CHECK(order_of(rig, "run.cancelled") == std::vector<std::int64_t>{leaf.value, middle.value, top.value});
  for (const RunId run : {top, middle}) {
    CHECK(rig.run(run).status == RunStatus::cancelled);
    CHECK(rig.journal(run).front().status == StepStatus::cancelled);
  }
  CHECK(rig.drive() == 0);
  CHECK(entered == 2);
  CHECK(rig.number("SELECT count(*) FROM waits WHERE status = 'pending'") == 0);
}

TEST_CASE("[N24] a child that waits for a person: the parent gets the child's own result") {
  Rig rig;
  rig.add("child", [](flow::Context& c) {
    return json::string_member(c.approval("ship it?"), "decision") == "approved" ? std::string("\"shipped\"")
                                                                                 : std::string("\"kept\"");
  });
  rig.add("parent", [](flow::Context& c) { return c.call("child"); });
  const RunId parent = rig.start("parent");
  rig.drive();
  const RunId child = children_of(rig, parent).at(0);
  CHECK(rig.run(parent).status == RunStatus::waiting);
  CHECK(rig.run(child).status == RunStatus::waiting);
  rig.advance(limits::kCheckMs + 1);
  rig.sweep->pass();
  CHECK(rig.drive() == 0);  // nobody takes the parent for stuck
  CHECK(std::holds_alternative<kernel::WaitResolved>(
      rig.resolve(rig.waits(child).at(0).id, R"({"decision":"approved"})")));
  rig.drive();
  CHECK(rig.run(parent).result == "\"shipped\"");
}

TEST_CASE("[P1] a run that fails ends its open children, also one that is driven") {
  Rig rig;
  RunId parent;
  int after = 0;
  rig.add("child", [&](flow::Context& c) {
    c.step("long", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) {
      CHECK(test::verdict(rig.cancel(parent)) == "ended");
      return std::string("1");
    });
    c.step("after", kernel::Effect::pure, [&](const flow::EffectInfo&) { return std::to_string(++after); });
    return std::string("1");
  });
  rig.add("parent", [](flow::Context& c) { return c.call("child"); });
  parent = rig.start("parent");
  rig.drive();
  const RunId child = children_of(rig, parent).at(0);
  CHECK(rig.run(parent).status == RunStatus::cancelled);
  CHECK(rig.run(child).status == RunStatus::cancelled);
  CHECK(rig.journal(child).size() == 1);
  CHECK(rig.journal(child).front().status == StepStatus::completed);  // X2: its outcome is recorded
  CHECK(after == 0);
}

TEST_CASE("[A11] a child ends while another branch of its parent executes: the branch goes on at once") {
  Rig rig;
  rig.add("child", [](flow::Context&) { return std::string("\"from child\""); });
  rig.add("parent", [&](flow::Context& c) {
    const auto both = c.branches({
        [](flow::Context& b) { return b.call("child"); },
        [&](flow::Context& b) {
          return b.step("drives", kernel::Effect::pure, [&](const flow::EffectInfo&) {
            int driven = 0;
            while (driven == 0) driven = rig.drive(1);
            return std::string("2");
          });
        },
    });
    return both[0];
  });
  const RunId parent = rig.start("parent");
  CHECK(rig.drive(1) == 1);
  CHECK(rig.run(parent).result == "\"from child\"");
  CHECK(rig.run(parent).epoch == 1);
}

TEST_CASE("[A11] a workflow that is not there is a recorded failure of the step") {
  Rig rig;
  int tries = 0;
  rig.add("parent", [&](flow::Context& c) -> std::string {
    ++tries;
    try {
      return c.call("nobody");
    } catch (const flow::StepFailed& failed) {
      c.signal("go");
      return json::quote(json::string_member(failed.error, "code").value_or(""));
    }
  });
  const RunId parent = rig.start("parent");
  rig.drive();
  (void)rig.signal(parent, "go");
  rig.drive();
  CHECK(tries == 2);
  CHECK(rig.run(parent).result == "\"workflow_unknown\"");
  CHECK(rig.journal(parent).front().failures == 1);
}

}  // namespace
}  // namespace bide
