// Continue as new [X7], states that a run sets [J10], usage and budgets [J7].
#include <catch2/catch.hpp>

#include <map>
#include <set>

#include "agent/base/json.h"
#include "agent/kernel/continue.h"
#include "agent/kernel/events.h"
#include "agent/kernel/usage.h"
#include "tests/support/verdict.h"
#include "tests/support/vfs_shim.h"

namespace bide {
namespace {

using kernel::Effect;
using kernel::RunStatus;
using test::Rig;
using test::verdict;

std::int64_t number(Rig& rig, db::Sql sql) {
  return rig.store->read([&](db::ReadTx& tx) { return db::Query(tx, sql).one().integer(0); });
}

std::optional<RunId> next_of(Rig& rig, RunId run) {
  return rig.store->read([&](db::ReadTx& tx) { return kernel::continued_as(tx, run); });
}

TEST_CASE("[N133] 1000 rounds by continue-as-new, killed at random, signals all the while") {
  constexpr int kRounds = 1000;
  test::VfsShim disk("n133");  // in memory: thousands of commits
  Rig rig;
  rig.vfs = disk.name();
  SeededRandom chance(133);
  std::map<int, std::set<std::string>> keys;  // of each round's effect: what a receiver would see
  std::vector<std::string> read;              // payloads, by round
  int deaths = 0;
  rig.add("loop", [&](flow::Context& c) {
    const int round = static_cast<int>(json::int_member(c.input(), "round").value());
    const std::string tick = c.signal("tick");
    c.step("work", Effect::idempotent, [&](const flow::EffectInfo& info) {
      if (chance.next() % 40 == 0) {
        ++deaths;
        throw test::Died{};
      }
      keys[round].insert(info.idempotency_key);
      return json::member(tick, "payload").value();
    });
    if (round == kRounds) return std::string("\"over\"");
    c.continue_as_new(json::Writer().begin_object().member("round", round + 1).end_object().take());
  });
  RunId run = rig.start("loop", R"({"round":1})");
  const RunId first = run;
  int sent = 0;
  const auto follow = [&] {
    while (const auto next = next_of(rig, run)) run = *next;
  };
  const auto send = [&] {
    const std::string payload = std::to_string(sent + 1);
    auto outcome = rig.signal(run, "tick", payload);
    if (const auto* refused = std::get_if<Problem>(&outcome)) {
      CHECK(refused->code == "run_ended");
      CHECK(refused->extra.find("continued_as") != std::string::npos);  // the sender is told where to
      follow();
      outcome = rig.signal(run, "tick", payload);
    }
    if (verdict(outcome) == "sent") ++sent;
  };
  while (rig.run(run).status != RunStatus::completed || next_of(rig, run)) {
    if (sent < kRounds) send();
    if (sent < kRounds && chance.next() % 3 == 0) send();
    try {
      rig.drive(1 + static_cast<int>(chance.next() % 3));
    } catch (const test::Died&) {
      rig.restart();
      rig.sweep->pass();
    }
    if (chance.next() % 2 == 0) follow();
    if (rig.run(run).status == RunStatus::completed) follow();
  }
  CHECK(rig.run(run).result == "\"over\"");
  CHECK(deaths > 5);
  CHECK(keys.size() == kRounds);
  for (const auto& [round, seen] : keys) CHECK(seen.size() == 1);
  CHECK(number(rig, "SELECT count(*) FROM runs") == kRounds);
  CHECK(number(rig, "SELECT count(*) FROM signals WHERE consumed_by IS NULL") == 0);
  CHECK(number(rig, "SELECT count(DISTINCT consumed_by) FROM signals") == kRounds);
  CHECK(number(rig, "SELECT max(n) FROM (SELECT count(*) AS n FROM steps GROUP BY run_id)") == 2);
  // First in, first out over all of them.
  CHECK(number(rig,
               "SELECT count(*) FROM signals s JOIN steps t ON t.id = s.consumed_by JOIN runs r ON r.id = t.run_id "
               "WHERE json_extract(r.input, '$.round') <> CAST(s.payload AS INTEGER)") == 0);
  CHECK(json::int_member(rig.run(first).result.value(), "continued_as") == first.value + 1);
}

TEST_CASE(
    "[X7] what comes ahead of its question goes along, a cancel ends the loop, a child's parent waits for the last") {
  Rig rig;
  rig.add("child", [](flow::Context& c) {
    if (c.input() == "1") {
      c.signal("go");
      c.continue_as_new("2");
    }
    return c.approval("?", {.name = "later"});
  });
  rig.add("parent", [](flow::Context& c) { return c.call("child", "1"); });
  const RunId parent = rig.start("parent");
  rig.drive();
  const RunId child(rig.number("SELECT max(id) FROM runs"));
  CHECK(verdict(test::resolve_named(rig, child, "later", test::kApproved)) == "kept");
  (void)rig.signal(child, "go");
  rig.drive();
  CHECK(rig.run(child).status == RunStatus::completed);
  CHECK(next_of(rig, child).has_value());
  CHECK(rig.run(parent).status == RunStatus::completed);
  CHECK(json::string_member(rig.run(parent).result.value(), "decision") == "approved");

  const RunId second = rig.start("parent");
  rig.drive();
  const RunId open(rig.number("SELECT max(id) FROM runs"));
  (void)rig.signal(open, "go");
  rig.drive();
  CHECK(verdict(rig.cancel(second)) == "ended");
  CHECK(rig.number("SELECT count(*) FROM runs WHERE status = 'cancelled'") == 2);
}

TEST_CASE("[J9] an entry that the code has not asked for forbids continue-as-new too") {
  Rig rig;
  rig.add("flow", [](flow::Context& c) -> std::string {
    c.value("v", [] { return std::string("1"); });
    c.signal("go");
    return "1";
  });
  const RunId run = rig.start("flow");
  rig.drive();
  rig.replace("flow", [](flow::Context& c) -> std::string { c.continue_as_new("{}"); });
  rig.restart();
  (void)rig.signal(run, "go");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::failed);
  CHECK(json::string_member(rig.run(run).error.value(), "code") == "NonDeterminism");
  CHECK(rig.number("SELECT count(*) FROM runs") == 1);
}

TEST_CASE(
    "[N132] a state that is set twice, with a kill between: each change once and in order, the run reads its own") {
  Rig rig;
  bool die = true;
  std::vector<std::string> own;
  rig.add("flow", [&](flow::Context& c) {
    CHECK_FALSE(c.state("phase").has_value());
    c.set_state("phase", "\"copying\"");
    own.push_back(c.state("phase").value());
    c.step("s", Effect::pure, [&](const flow::EffectInfo&) {
      if (die) throw test::Died{};
      return std::string("1");
    });
    c.set_state("phase", R"({"done": 1.0})");
    own.push_back(c.state("phase").value());
    c.branches({[](flow::Context& b) {
                  b.set_state("eu", "1");
                  return std::string("1");
                },
                [](flow::Context& b) {
                  CHECK_FALSE(b.state("eu").has_value());
                  return b.state("phase").value();
                }});
    CHECK(c.state("eu") == "1");
    return c.state("phase").value();
  });
  const RunId run = rig.start("flow");
  CHECK_THROWS_AS(rig.drive(), test::Died);
  die = false;
  rig.restart();
  rig.sweep->pass();
  rig.drive();
  CHECK(rig.run(run).result == R"({"done": 1.0})");
  CHECK(own == std::vector<std::string>{"\"copying\"", "\"copying\"", R"({"done": 1.0})"});
  std::vector<std::string> seen;
  rig.store->read([&](db::ReadTx& tx) {
    for (const auto& event : kernel::events_after(tx, EventId(), run, 1000)) {
      if (event.kind == "run.state") seen.push_back(event.payload);
    }
    const auto latest = kernel::run_state(tx, run);
    CHECK(latest == std::vector<std::pair<std::string, std::string>>{{"eu", "1"}, {"phase", R"({"done": 1.0})"}});
    return 0;
  });
  CHECK(seen == std::vector<std::string>{R"({"name":"phase","value":"copying"})",
                                         R"({"name":"phase","value":{"done": 1.0}})", R"({"name":"eu","value":1})"});
}

TEST_CASE("[N130] usage of a run with retries, replays and a child is summed once, also by mission") {
  Rig rig;
  int fails = 2;
  rig.add("child", [](flow::Context& c) {
    return c.step("c", Effect::non_idempotent, [](const flow::EffectInfo& info) {
      info.report("tokens", 5);
      return std::string("1");
    });
  });
  rig.add("flow", [&](flow::Context& c) {
    flow::StepOptions options;
    options.backoff = 10'000;
    c.step(
        "tries", Effect::pure,
        [&](const flow::EffectInfo& info) {
          info.report("tokens", 10);
          info.report("cost", 0.25);
          if (fails-- > 0) throw std::runtime_error("again");
          return std::string("1");
        },
        options);
    c.call("child");
    return c.approval("?");
  });
  const RunId run = rig.start("flow");
  rig.exec("UPDATE runs SET mission = 'm' WHERE id = " + std::to_string(run.value));
  for (int i = 0; i < 5; ++i) {
    rig.advance(10'000);
    rig.drive();
    rig.restart();
    rig.sweep->pass();
  }
  CHECK(verdict(rig.resolve(test::pending_wait(rig, run).id, test::kApproved)) == "resolved");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::completed);
  rig.store->read([&](db::ReadTx& tx) {
    CHECK(kernel::to_json(kernel::run_usage(tx, run)) == R"({"cost":0.25,"tokens":15})");
    CHECK(kernel::to_json(kernel::mission_usage(tx, "m")) == R"({"cost":0.25,"tokens":15})");
    return 0;
  });
}

TEST_CASE("[N130] a budget ends the run at the same entry in every attempt, with nothing run twice") {
  for (const int kill_at : {0, 1, 2, 3}) {
    INFO(kill_at);
    Rig rig;
    int effects = 0;
    int entered = 0;
    flow::NativeWorkflow workflow;
    workflow.name = "flow";
    workflow.version = "1";
    workflow.budget = {{"tokens", 25}};
    workflow.run = [&](flow::Context& c) {
      ++entered;
      for (int i = 1; i <= 5; ++i) {
        c.step("spend", Effect::non_idempotent, [&](const flow::EffectInfo& info) {
          ++effects;
          info.report("tokens", 10);
          return std::to_string(i);
        });
        if (i == kill_at && entered == 1) throw test::Died{};
      }
      return std::string("\"all\"");
    };
    rig.add(workflow);
    const RunId run = rig.start("flow");
    try {
      rig.drive();
    } catch (const test::Died&) {
      rig.restart();
      rig.sweep->pass();
      rig.drive();
    }
    CHECK(rig.run(run).status == RunStatus::failed);
    const std::string error = rig.run(run).error.value();
    CHECK(json::string_member(error, "code") == "BudgetExceeded");
    CHECK(json::at_pointer(error, "/spent/tokens") == "30");
    CHECK(rig.journal(run).size() == 3);
    CHECK(effects == 3);
  }
}

}  // namespace
}  // namespace bide
