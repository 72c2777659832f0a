// Commands: idempotency of requests, workflows that are gone, drivers that fail.
#include <catch2/catch.hpp>

#include <atomic>
#include <set>
#include <thread>

#include "agent/work/explain.h"
#include "tests/support/eventually.h"
#include "tests/support/rig.h"

using namespace bide;
using kernel::RunStatus;

namespace {

std::string done(flow::Context&) { return "null"; }

work::Answer rendered(const kernel::StartOutcome& outcome) {
  if (const auto* started = std::get_if<kernel::RunStarted>(&outcome))
    return {201, std::to_string(started->run.value), "", false};
  if (const auto* exists = std::get_if<kernel::RunExists>(&outcome))
    return {200, std::to_string(exists->run.value), "", false};
  return {422, "taken", "", false};
}

struct Request {
  std::string workflow = "flow";
  std::string principal = "ada";
  std::string idempotency_key;  // empty: none
  std::string fingerprint = std::string(32, 'f');
  std::optional<std::string> start_key;
  std::string input = "{}";
};

std::variant<work::Answer, Problem> start(test::Rig& rig, const Request& request) {
  work::StartRequest start;
  start.workflow = request.workflow;
  start.input = request.input;
  start.key = request.start_key;
  work::Commands::Once once;
  if (!request.idempotency_key.empty())
    once = kernel::CommandKey{request.principal, request.idempotency_key, request.fingerprint};
  return rig.commands->start_run(start, test::Rig::person(request.principal), once, rendered);
}

// Drives a program's run by failing, until it is told to end it.
class FailingDriver final : public work::Driver {
 public:
  flow::AttemptOptions options(const kernel::VersionRow&) const override { return {}; }
  int max_running(WorkflowId) const override { return 0; }
  void drive(const std::shared_ptr<flow::Attempt>& attempt, const kernel::VersionRow&) override {
    ++drives;
    if (failing) throw std::runtime_error("spawn: Resource temporarily unavailable");
    (void)attempt->finish({"1", std::nullopt});
  }
  int drives = 0;
  bool failing = true;
};

RunId start_program(test::Rig& rig) {
  return rig.store->write([](db::Tx& tx) {
    kernel::StartRun start;
    start.workflow = kernel::ensure_workflow(tx, "script");
    start.version = kernel::ensure_version(tx, start.workflow, "hash", kernel::WorkflowKind::program, "{}", tx.now());
    start.uid = "u";
    start.created_by = "ada";
    return std::get<kernel::RunStarted>(kernel::start_run(tx, start, tx.now())).run;
  });
}

}  // namespace

TEST_CASE("[N74] one key and one body, twice and 20 at once: one run, one answer, and another body is refused") {
  test::Rig rig(test::Rig::Mode::threaded);
  rig.add("flow", done);
  rig.start("flow");
  Request request;
  request.idempotency_key = "k1";
  const auto first = std::get<work::Answer>(start(rig, request));
  CHECK(first.status == 201);
  CHECK_FALSE(first.replayed);
  const auto again = std::get<work::Answer>(start(rig, request));
  CHECK(again.status == first.status);
  CHECK(again.body == first.body);
  CHECK(again.replayed);

  request.idempotency_key = "k2";
  constexpr int kAtOnce = 20;
  std::vector<std::string> bodies(kAtOnce);
  std::atomic<int> fresh{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kAtOnce; ++i) {
      threads.emplace_back([&, i] {
        const auto answer = start(rig, request);
        const auto* got = std::get_if<work::Answer>(&answer);
        if (got == nullptr) return;
        bodies[i] = got->body;
        if (!got->replayed) ++fresh;
      });
    }
  }
  CHECK(fresh == 1);
  CHECK(std::set<std::string>(bodies.begin(), bodies.end()).size() == 1);
  CHECK(rig.number("SELECT count(*) FROM runs") == 3);

  request.fingerprint = std::string(32, 'g');
  CHECK(std::holds_alternative<Problem>(start(rig, request)));
  CHECK(rig.number("SELECT count(*) FROM runs") == 3);
  // The answer outlives the process, and the workflow.
  request.fingerprint = std::string(32, 'f');
  rig.remove("flow");
  rig.restart();
  const auto later = start(rig, request);
  REQUIRE(std::holds_alternative<work::Answer>(later));
  CHECK(std::get<work::Answer>(later).body == bodies[0]);
  CHECK(std::get<work::Answer>(later).replayed);
}

TEST_CASE("[N101] a start key of two workflows, an Idempotency-Key of two principals: two runs, two answers") {
  test::Rig rig;
  rig.add("flow", done);
  rig.add("other", done);
  rig.start("flow");
  Request request;
  request.start_key = "nightly";
  const auto body = [&](const Request& r) { return std::get<work::Answer>(start(rig, r)).body; };
  const std::string flow = body(request);
  request.workflow = "other";
  const std::string other = body(request);
  CHECK(flow != other);
  CHECK(body(request) == other);  // the same again: that run
  request.input = R"({"a":1})";
  CHECK(std::get<work::Answer>(start(rig, request)).status == 422);

  Request ada;
  ada.idempotency_key = "k";
  Request bob = ada;
  bob.principal = "bob";
  CHECK(body(ada) != body(bob));
  CHECK(body(ada) == body(ada));
  // Both at once: the start key decides about the run, the Idempotency-Key about the answer.
  Request both;
  both.start_key = "s";
  both.idempotency_key = "k3";
  const auto one = std::get<work::Answer>(start(rig, both));
  both.idempotency_key = "k4";
  const auto two = std::get<work::Answer>(start(rig, both));
  CHECK(one.body == two.body);
  CHECK(one.status == 201);
  CHECK(two.status == 200);
}

TEST_CASE("[N81] a native workflow that is gone: its run waits with a reason, and goes on when it is back") {
  for (const bool other_version : {false, true}) {
    test::Rig rig;
    int effects = 0;
    const auto code = [&](flow::Context& c) {
      c.step("before", kernel::Effect::non_idempotent,
             [&](const flow::EffectInfo&) { return std::to_string(++effects); });
      return c.approval("go on?");
    };
    rig.add("flow", code);
    const RunId run = rig.start("flow");
    rig.drive();
    if (other_version) {
      rig.replace("flow", done, "2");
    } else {
      rig.remove("flow");
    }
    rig.restart();
    CHECK(
        std::holds_alternative<kernel::WaitResolved>(rig.resolve(rig.waits(run)[0].id, R"({"decision":"approved"})")));
    for (int hour = 0; hour < 24; ++hour) {
      CHECK(rig.drive() == 0);
      (void)rig.sweep->pass();
      rig.advance(3'600'000);
    }
    const std::string reason = other_version ? "version_missing" : "workflow_missing";
    CHECK(rig.run(run).status == RunStatus::queued);
    CHECK(rig.run(run).reason == reason);
    CHECK(work::explain(*rig.store, *rig.executor, run)->reason == reason);
    CHECK(rig.count_events(run, "run.redriven") == 0);
    if (!other_version) CHECK_THROWS(rig.start("flow"));  // workflow_unknown
    rig.replace("flow", code);
    rig.restart();
    CHECK(rig.drive() == 1);
    CHECK(rig.run(run).status == RunStatus::completed);
    CHECK_FALSE(rig.run(run).reason);
    CHECK(effects == 1);
  }
}

TEST_CASE("[N129] a driver that fails: the run is queued with a reason and a backoff, and not failed") {
  test::Rig rig;
  rig.add("flow", done);
  rig.start("flow");
  rig.drive();
  FailingDriver driver;
  rig.executor->set_program_driver(&driver);
  const RunId run = start_program(rig);
  for (int i = 1; i <= 15; ++i) {
    CHECK(rig.drive() == 1);  // and no hot loop: the next claim comes after the backoff
    CHECK(driver.drives == i);
    CHECK(rig.run(run).status == RunStatus::queued);
    CHECK(rig.run(run).reason == "agent_fault");
    CHECK(rig.run(run).run_at > rig.store->now());
    CHECK(rig.run(run).recoveries == 0);
    const auto e = work::explain(*rig.store, *rig.executor, run);
    CHECK(e->reason == "agent_fault");
    CHECK(e->wakes_at == rig.run(run).run_at);
    rig.advance(rig.run(run).run_at - rig.store->now());
  }
  driver.failing = false;
  CHECK(rig.drive() == 1);
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK_FALSE(rig.run(run).reason);
}

TEST_CASE("[N29] two claims of one run race a thousand times: one wins each time") {
  test::Rig rig(test::Rig::Mode::threaded);
  rig.add("flow", done);
  const RunId run = rig.start("flow");
  constexpr int kRounds = 1'000;
  kernel::ClaimRules rules = rig.executor->rules();
  std::atomic<int> wins{0};
  std::atomic<int> losses{0};
  const auto claim = [&](const std::string& owner) {
    kernel::ClaimRules mine = rules;
    mine.owner = owner;
    const auto outcome = rig.store->write([&](db::Tx& tx) { return kernel::claim_next(tx, mine, tx.now()); });
    std::holds_alternative<kernel::Claimed>(outcome) ? ++wins : ++losses;
  };
  std::atomic<int> round{0};
  std::atomic<int> finished{0};
  const auto contender = [&](const std::string& owner) {
    for (int i = 1; i <= kRounds; ++i) {
      while (round < i) std::this_thread::yield();
      claim(owner);
      ++finished;
    }
  };
  std::jthread one([&] { contender("local:one"); });
  std::jthread two([&] { contender("local:two"); });
  bool each_had_one = true;
  for (int i = 1; i <= kRounds; ++i) {
    round = i;
    while (finished < 2 * i) std::this_thread::yield();
    each_had_one = each_had_one && wins == i && losses == i;
    const auto row = rig.run(run);
    each_had_one = each_had_one && row.status == RunStatus::running && row.epoch == i;
    const bool back = rig.store->write([&](db::Tx& tx) {
      return kernel::hand_back(tx, {run, row.epoch, *row.owner}, tx.now(), "", tx.now());
    });
    each_had_one = each_had_one && back;
  }
  CHECK(each_had_one);
  CHECK(wins == kRounds);
  CHECK(losses == kRounds);
}
