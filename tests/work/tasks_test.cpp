// Tasks: any worker may do them, one does, and what is lost is offered again [K8, W6].
#include <catch2/catch.hpp>

#include <atomic>
#include <thread>

#include "agent/base/json.h"
#include "tests/support/eventually.h"
#include "tests/support/verdict.h"
#include "tests/support/vfs_shim.h"
#include "tests/work/wire.h"

namespace bide {
namespace {

using kernel::Effect;
using kernel::RunStatus;
using kernel::StepStatus;
using test::Rig;
using test::verdict;

std::int64_t offered(Rig& rig) {
  for (const auto& duty : rig.sweep->pass().duties) {
    if (duty.name == "undispatched") return duty.done;
  }
  return -1;
}

int do_tasks(Rig& rig) {
  int done = 0;
  while (rig.tasks->run_one()) ++done;
  return done;
}

TEST_CASE(
    "[K8] a task is done by a worker while its run waits, its result wakes the run, a replay does not do it again") {
  Rig rig;
  std::vector<std::string> requests;
  rig.add_task("render", [&](const std::string& request, const flow::EffectInfo& info) {
    CHECK(info.execution == 1);
    info.report("seconds", 3);
    requests.push_back(request);
    return std::string("\"image\"");
  });
  rig.add("flow", [](flow::Context& c) {
    std::string image = c.task("render", R"({"page": 1.0})");
    c.signal("go");
    return image;
  });
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::waiting);
  CHECK(rig.journal(run).at(0).status == StepStatus::pending);
  CHECK(do_tasks(rig) == 1);
  CHECK(rig.run(run).status == RunStatus::queued);
  rig.drive();
  rig.restart();
  (void)rig.signal(run, "go");
  rig.drive();
  CHECK(rig.run(run).result == "\"image\"");
  CHECK(requests == std::vector<std::string>{R"({"page": 1.0})"});
  CHECK(rig.journal(run).at(0).usage == R"({"seconds":3})");
}

TEST_CASE("[N32] two dispatches of one task at once, 100 times on two threads: one execution each") {
  test::VfsShim disk("n32");
  Rig rig(Rig::Mode::threaded);
  rig.vfs = disk.name();
  test::Effect effect;
  rig.add_task("work", [&](const std::string& request, const flow::EffectInfo& info) {
    effect(request, info);
    return std::string("1");
  });
  rig.add("flow", [](flow::Context& c) { return c.task("work"); });
  int both = 0;
  for (int i = 0; i < 100; ++i) {
    const RunId run = rig.start("flow");
    rig.drive();
    const StepId task = rig.journal(run).at(0).id;
    std::atomic<int> ready{0};
    std::atomic<int> won{0};
    const auto dispatch = [&] {
      ++ready;
      while (ready.load() < 2) std::this_thread::yield();
      if (rig.tasks->run(task)) ++won;
    };
    {
      std::jthread other(dispatch);
      dispatch();
    }
    both += won.load() == 1 ? 1 : 0;
    rig.drive();
    CHECK(rig.run(run).status == RunStatus::completed);
  }
  CHECK(both == 100);
  CHECK(effect.count() == 100);
  CHECK(effect.keys() == 100);
}

TEST_CASE("[N33] killed between the task's intent and its dispatch: offered again at 30 s, not at 29 s") {
  Rig rig;
  test::Effect effect;
  rig.add_task("work", [&](const std::string& request, const flow::EffectInfo& info) {
    effect(request, info);
    return std::to_string(effect.count());
  });
  rig.add("flow", [](flow::Context& c) { return c.task("work"); });
  const RunId run = rig.start("flow");
  rig.drive();
  rig.restart();  // the offer was in memory
  rig.sweep->pass();
  rig.drive();
  CHECK(do_tasks(rig) == 0);
  rig.advance(29'000);
  CHECK(offered(rig) == 0);
  CHECK(do_tasks(rig) == 0);
  rig.advance(1'000);
  CHECK(offered(rig) == 1);
  CHECK(do_tasks(rig) == 1);
  rig.drive();
  CHECK(rig.run(run).result == "1");
}

// Runs whose tasks nobody can do: this process does not know the function.
RunId stuck(Rig& rig, int tasks) {
  const RunId run = rig.start("many", std::to_string(tasks));
  rig.drive();
  CHECK(do_tasks(rig) == 0);
  return run;
}

void add_many(Rig& rig) {
  rig.add_task("known", [](const std::string&, const flow::EffectInfo&) { return std::string("1"); });
  rig.add("many", [](flow::Context& c) {
    const int n = std::stoi(c.input());
    std::vector<std::function<std::string(flow::Context&)>> branches;
    for (int i = 0; i < n; ++i) branches.emplace_back([](flow::Context& b) { return b.task("nobody's"); });
    c.branches(branches);
    return std::string("1");
  });
}

TEST_CASE("[N34] two stuck tasks in each of two runs: one re-drive a run and pass") {
  Rig rig;
  add_many(rig);
  const RunId a = stuck(rig, 2);
  const RunId b = stuck(rig, 2);
  rig.advance(30'000);
  CHECK(offered(rig) == 2);
  CHECK(rig.count_events(a, "step.offered_again") == 1);
  CHECK(rig.count_events(b, "step.offered_again") == 1);
  CHECK(offered(rig) == 0);
}

TEST_CASE(
    "[N35] still stuck: re-drives at about 0, 30, 90, 210, 450, 930, 1530 s, also over restarts, progress resets") {
  Rig rig;
  add_many(rig);
  const RunId run = stuck(rig, 2);
  rig.advance(30'000);
  std::vector<int> at;
  for (int second = 0; second <= 1'600; second += 10) {
    if (offered(rig) == 1) at.push_back(second);
    if (second % 200 == 0) rig.restart();
    rig.advance(10'000);
  }
  CHECK(at == std::vector<int>{0, 30, 90, 210, 450, 930, 1530});
  // Somebody does one of them: the next one is offered at once again.
  const auto claim = rig.store->write([&](db::Tx& tx) {
    return kernel::claim_task(
        tx, rig.journal(run).at(0).id, "other", [](const std::string&) { return true; }, tx.now());
  });
  REQUIRE(claim.has_value());
  CHECK(offered(rig) == 1);
}

TEST_CASE("[N36] 100 stuck tasks in a run that is backed off and one in another: the other is re-driven in the pass") {
  Rig rig;
  add_many(rig);
  const RunId many = stuck(rig, 100);
  rig.advance(30'000);
  CHECK(offered(rig) == 1);
  const RunId one = stuck(rig, 1);
  rig.exec("UPDATE steps SET not_before = not_before - 30000 WHERE run_id = " + std::to_string(one.value));
  CHECK(offered(rig) == 1);
  CHECK(rig.count_events(one, "step.offered_again") == 1);
  CHECK(rig.count_events(many, "step.offered_again") == 1);
}

TEST_CASE("[N37] a task's retry that is due in an hour: nothing for an hour, then it runs") {
  Rig rig;
  test::Effect effect;
  rig.add_task("work", [&](const std::string& request, const flow::EffectInfo& info) -> std::string {
    effect(request, info);
    if (effect.count() == 1) throw std::runtime_error("busy");
    return "2";
  });
  rig.add("flow", [](flow::Context& c) { return c.task("work"); });
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK(do_tasks(rig) == 1);
  rig.exec("UPDATE steps SET not_before = not_before + 3600000");
  rig.restart();
  for (int minute = 0; minute < 60; ++minute) {
    rig.sweep->pass();
    CHECK(do_tasks(rig) == 0);
    rig.advance(60'000);
  }
  rig.advance(60'000);
  rig.sweep->pass();
  CHECK(do_tasks(rig) == 1);
  rig.drive();
  CHECK(rig.run(run).result == "2");
  CHECK(rig.journal(run).at(0).executions == 2);
  CHECK(effect.count() == 2);
  CHECK(effect.keys() == 1);
}

TEST_CASE("[N95] a task's worker dies after the claim: its lease lapses and E1 decides") {
  for (const Effect effect : {Effect::idempotent, Effect::non_idempotent}) {
    INFO(to_text(effect));
    Rig rig;
    test::Effect receiver;
    bool die = true;
    rig.add_task("work", [&](const std::string& request, const flow::EffectInfo& info) {
      receiver(request, info);
      if (die) throw test::Died{};
      return std::to_string(receiver.count());
    });
    rig.add("flow", [&](flow::Context& c) { return c.task("work", "null", {.effect = effect, .retries = 0}); });
    const RunId run = rig.start("flow");
    rig.drive();
    CHECK_THROWS_AS(rig.tasks->run_one(), test::Died);
    die = false;
    rig.restart();
    rig.advance(29'999);
    rig.sweep->pass();
    rig.drive();
    CHECK(rig.journal(run).at(0).status == StepStatus::started);  // a whole lease from the start-up on
    rig.advance(1);
    rig.sweep->pass();
    rig.drive();
    if (effect == Effect::non_idempotent) {
      CHECK(do_tasks(rig) == 0);
      const auto question = test::pending_wait(rig, run);
      CHECK(question.kind == kernel::WaitKind::reconcile);
      CHECK(verdict(rig.resolve(question.id, R"({"answer":"run"})")) == "resolved");
      rig.drive();
    }
    CHECK(do_tasks(rig) == 1);
    rig.drive();
    CHECK(rig.run(run).result == "2");
    CHECK(receiver.count() == 2);
    CHECK(receiver.keys() == 1);
    CHECK(rig.journal(run).at(0).executions == 2);
  }
}

TEST_CASE("[K8] an outcome under an old epoch is late, a task of a run that was cancelled is not begun") {
  Rig rig;
  rig.add_task("work", [](const std::string&, const flow::EffectInfo&) { return std::string("1"); });
  rig.add("flow", [](flow::Context& c) { return c.task("work"); });
  const RunId run = rig.start("flow");
  rig.drive();
  const StepId task = rig.journal(run).at(0).id;
  const auto all = [](const std::string&) { return true; };
  const auto claim =
      rig.store->write([&](db::Tx& tx) { return kernel::claim_task(tx, task, "w1", all, tx.now()).value(); });
  rig.advance(limits::kTaskLeaseMs);
  rig.sweep->pass();
  CHECK(do_tasks(rig) == 1);  // by another one
  const auto late = rig.store->write([&](db::Tx& tx) {
    kernel::TaskOutcome outcome;
    outcome.result = "\"old\"";
    return kernel::finish_task(tx, claim, outcome, tx.now(), nullptr);
  });
  CHECK(late == kernel::TaskRecorded::late);
  CHECK(rig.count_events(run, "step.late_outcome") == 1);
  rig.drive();
  CHECK(rig.run(run).result == "1");
  const RunId other = rig.start("flow");
  rig.drive();
  CHECK(verdict(rig.cancel(other)) == "ended");
  CHECK(do_tasks(rig) == 0);
  CHECK(rig.journal(other).at(0).status == StepStatus::cancelled);
}

TEST_CASE("[K8] with threads: a hundred runs with tasks that fail now and then all end") {
  test::VfsShim disk("tasks");
  Rig rig(Rig::Mode::threaded);
  rig.vfs = disk.name();
  std::atomic<int> calls{0};
  rig.add_task("work", [&](const std::string& request, const flow::EffectInfo&) -> std::string {
    if (++calls % 7 == 0) throw flow::Final("now and then");
    return request;
  });
  rig.add("flow", [](flow::Context& c) -> std::string {
    try {
      return c.task("work", c.input());
    } catch (const flow::StepFailed&) {
      return "\"failed\"";
    }
  });
  std::vector<RunId> runs;
  for (int i = 0; i < 100; ++i) runs.push_back(rig.start("flow", std::to_string(i)));
  rig.tasks->start(4);
  rig.executor->start();
  const auto ended = [&] {
    return rig.store->read([](db::ReadTx& tx) {
      return db::Query(tx, "SELECT count(*) FROM runs WHERE status = 'completed'").one().integer(0);
    });
  };
  test::eventually([&] { return ended() == 100; }, "all runs end", std::chrono::seconds(60));
  rig.executor->stop();
  rig.tasks->stop();
  CHECK(calls == 100);
}

}  // namespace
}  // namespace bide
