#include <catch2/catch.hpp>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/kernel/explain.h"
#include "agent/kernel/outbox.h"
#include "agent/kernel/task_push.h"
#include "tests/kernel/kernel_fixture.h"

using namespace bide;
using namespace bide::kernel;
using bide::test::KernelFixture;

namespace {

Explanation explained(KernelFixture& f, RunId run, const ExplainFacts& facts = {}) {
  auto e = f.store->read([&](db::ReadTx& tx) { return explain_run(tx, run, facts, f.store->now()); });
  REQUIRE(e);
  CHECK(e->text.size() > 10);
  CHECK(e->command.starts_with("bide "));
  const std::string text = to_json(*e);
  CHECK_FALSE(json::check(text).has_value());
  for (const char* member : {"run", "state", "reason", "waiting_on", "wakes_at", "held_by", "text", "command"}) {
    CAPTURE(member, text);
    CHECK(json::member(text, member).has_value());
  }
  return *e;
}

RunId waiting_for(KernelFixture& f, WaitKind kind, std::optional<TimeMs> until = std::nullopt) {
  const RunId run = f.make_run(RunStatus::waiting);
  const StepKind step_kind = kind == WaitKind::reconcile ? StepKind::step : StepKind::approval;
  const StepId step =
      f.make_step(run, kind == WaitKind::reconcile ? StepStatus::needs_reconcile : StepStatus::started, step_kind);
  (void)f.make_wait(run, step, WaitStatus::pending, kind, until);
  return run;
}

void set(KernelFixture& f, const std::function<void(db::Tx&)>& job) { f.store->write(job); }

}  // namespace

TEST_CASE("explain names what is asked, and the command that answers it") {
  KernelFixture f;
  const TimeMs until = f.store->now() + 60'000;
  const auto approval = explained(f, waiting_for(f, WaitKind::approval, until));
  REQUIRE(approval.waiting_on.size() == 1);
  CHECK(approval.reason == "needs_answer");
  CHECK(approval.waiting_on[0].asks == "go on?");
  CHECK(approval.waiting_on[0].until == until);
  CHECK(approval.wakes_at == until);  // its deadline moves it
  CHECK(approval.command == "bide approve " + std::to_string(approval.waiting_on[0].id.value));
  CHECK(approval.text.find("go on?") != std::string::npos);

  const auto question = explained(f, waiting_for(f, WaitKind::question));
  CHECK(question.command == "bide answer " + std::to_string(question.waiting_on[0].id.value) + " VALUE");
  CHECK_FALSE(question.wakes_at);

  const auto doubt = explained(f, waiting_for(f, WaitKind::reconcile));
  CHECK(doubt.reason == "in_doubt");
  CHECK(doubt.command == "bide answer " + std::to_string(doubt.waiting_on[0].id.value) + " ran|run|abort");

  const auto signal = explained(f, waiting_for(f, WaitKind::signal));
  CHECK(signal.reason == "waits_for_signal");
  CHECK(signal.command == "bide signal " + std::to_string(signal.run.value) + " gate");
}

TEST_CASE("explain of a run that waits for several things speaks of the one that a person can settle") {
  KernelFixture f;
  const RunId run = f.make_run(RunStatus::queued);
  const TimeMs wakes = f.store->now() + 5'000;
  const StepId timer = f.make_step(run, StepStatus::started, StepKind::timer, Effect::pure);
  (void)f.make_wait(run, timer, WaitStatus::pending, WaitKind::timer, wakes);
  set(f, [&](db::Tx& tx) { db::Query(tx, "UPDATE runs SET run_at = ?2 WHERE id = ?1").bind(run, wakes).run(); });
  auto e = explained(f, run);
  CHECK(e.reason == "sleeping");
  CHECK(e.wakes_at == wakes);
  const StepId gate = f.make_step(run, StepStatus::started, StepKind::approval, Effect::pure);
  (void)f.make_wait(run, gate, WaitStatus::pending);
  e = explained(f, run);
  CHECK(e.reason == "needs_answer");
  CHECK(e.waiting_on.size() == 2);
  CHECK(e.wakes_at == wakes);
}

TEST_CASE("explain of a queued run says why nobody claims it") {
  KernelFixture f;
  const RunId run = f.make_run(RunStatus::queued);
  CHECK(explained(f, run).reason == "due");
  ExplainFacts facts;
  facts.workers_busy = true;
  CHECK(explained(f, run, facts).reason == "workers_busy");
  facts.at_capacity = true;
  CHECK(explained(f, run, facts).reason == "at_capacity");
  facts.draining = true;
  CHECK(explained(f, run, facts).reason == "draining");
  CHECK(explained(f, run, facts).command == "bide drain --off");
  facts.clock_held = true;
  CHECK(explained(f, run, facts).command == "bide clock accept");
  const StepId step = f.make_step(run, StepStatus::pending);
  set(f, [&](db::Tx& tx) {
    db::Query(tx,
              "UPDATE steps SET not_before = ?2, failures = 2, retries = 5, error = "
              "'{\"code\":\"HTTP503\",\"message\":\"no\"}' WHERE id = ?1")
        .bind(step, tx.now() + 9'000)
        .run();
    db::Query(tx, "UPDATE runs SET run_at = ?2 WHERE id = ?1").bind(run, tx.now() + 9'000).run();
  });
  const auto retry = explained(f, run);
  CHECK(retry.reason == "retry_later");
  CHECK(retry.wakes_at == f.store->now() + 9'000);
  CHECK(retry.text.find("attempt 2 of 6") != std::string::npos);
  CHECK(retry.text.find("HTTP503: no") != std::string::npos);
  for (const char* reason : {"version_missing", "workflow_missing", "agent_fault"}) {
    set(f, [&](db::Tx& tx) { set_reason(tx, run, reason); });
    CHECK(explained(f, run).reason == reason);
  }
  set(f, [&](db::Tx& tx) {
    set_reason(tx, run, "previous_attempt_alive");
    db::Query(tx,
              "INSERT INTO processes (run_id, nonce, epoch, pid, pid_start, boot_id, status, started_at) VALUES (?, "
              "'n', 2, 812, 1, 'b', 'running', 0)")
        .bind(run)
        .run();
  });
  const auto alive = explained(f, run);
  CHECK(alive.text.find("pid 812") != std::string::npos);  // K7
  REQUIRE(alive.held_by.size() == 1);
  CHECK(alive.held_by[0].pid == 812);
  set(f, [&](db::Tx& tx) { db::Query(tx, "UPDATE runs SET paused_at = 1 WHERE id = ?").bind(run).run(); });
  CHECK(explained(f, run).command == "bide resume " + std::to_string(run.value));
}

TEST_CASE("explain names the request to an app that was not taken, and the command when it was given up") {
  KernelFixture f;
  const VersionId far = f.store->write([](db::Tx& tx) {
    return ensure_version(tx, ensure_workflow(tx, "far"), "1", WorkflowKind::remote,
                          R"({"url":"https://app.example/w"})", tx.now());
  });
  const RunId run = f.make_run(RunStatus::queued, far);
  CHECK(explained(f, run).reason == "waits_for_app");
  CHECK(explained(f, run).text.find("no worker") != std::string::npos);
  set(f, [&](db::Tx& tx) { CHECK(write_wake(tx, run, tx.now())); });
  auto e = explained(f, run);
  CHECK(e.reason == "waits_for_app");
  CHECK(e.text.find("The request to https://app.example has not been taken yet.") != std::string::npos);
  CHECK(e.command == "bide outbox");
  const auto wake = [&] { return f.store->read([](db::ReadTx& tx) { return list_deliveries(tx, {}).back().id; }); };
  const auto fail = [&](DeliveryId id, bool never) {
    set(f, [&](db::Tx& tx) {
      (void)record_failed(tx, {id, 503, 5, "the receiver answered 503"}, {0, 1'000'000, 0, 0, never}, tx.now());
    });
  };
  fail(wake(), false);
  e = explained(f, run);
  CHECK(e.reason == "waits_for_app");
  CHECK(e.text.find("tried 1 time, again at " + format_time(f.store->now() + 5'000)) != std::string::npos);
  CHECK(e.text.find("the receiver answered 503") != std::string::npos);
  fail(wake(), true);
  e = explained(f, run);
  CHECK(e.reason == "delivery_parked");
  CHECK(e.text.find("given up after 2 tries: the receiver answered 503") != std::string::npos);
  CHECK(e.command == "bide outbox retry " + std::to_string(wake().value));
}

TEST_CASE("explain of a pushed task says whether its app was asked") {
  KernelFixture f;
  const RunId run = f.make_run(RunStatus::waiting);
  const StepId task = f.make_step(run, StepStatus::pending, StepKind::task);
  CHECK(explained(f, run).text.find("a worker that is to do \"pay\"") != std::string::npos);
  set(f, [&](db::Tx& tx) {
    (void)set_task_function(tx, {"pay", "https://app.example/pay"}, "ada", tx.now());
    CHECK(push_tasks(tx, 10, tx.now()) == 1);
  });
  auto e = explained(f, run);
  CHECK(e.reason == "waits_for_task");
  CHECK(e.text.find("has begun") == std::string::npos);  // nobody was asked yet
  CHECK(e.text.find("The request to https://app.example has not been taken yet") != std::string::npos);
  const DeliveryId row = f.store->read([](db::ReadTx& tx) { return list_deliveries(tx, {}).at(0).id; });
  set(f, [&](db::Tx& tx) {
    (void)record_failed(tx, {row, 0, 5, "the address is not allowed"}, {0, 0, 0, 0, true}, tx.now());
  });
  e = explained(f, run);
  CHECK(e.reason == "delivery_parked");
  CHECK(e.text.find("given up after 1 try: the address is not allowed") != std::string::npos);
  CHECK(e.command == "bide outbox retry " + std::to_string(row.value));
  set(f, [&](db::Tx& tx) { db::Query(tx, "DELETE FROM outbox WHERE id = ?").bind(row).run(); });
  CHECK(explained(f, run).text.find("a worker that has begun \"pay\"") != std::string::npos);
  CHECK(f.store->read([&](db::ReadTx& tx) { return read_step(tx, task)->status; }) == StepStatus::started);
}

TEST_CASE("explain of a running run says what it does, how it ends, or who holds it") {
  KernelFixture f;
  const RunId run = f.make_run(RunStatus::running);
  CHECK(explained(f, run).reason == "replaying");
  ExplainFacts lost;
  lost.driven = false;
  CHECK(explained(f, run, lost).reason == "not_driven");
  const StepId gate = f.make_step(run, StepStatus::started, StepKind::approval, Effect::pure);
  (void)f.make_wait(run, gate, WaitStatus::pending);
  CHECK(explained(f, run).reason == "needs_answer");
  ExplainFacts held;
  held.held_by = {{812, "tar"}};
  const auto by = explained(f, run, held);
  CHECK(by.reason == "held");
  CHECK(by.text.find("held by pid 812 tar") != std::string::npos);
  (void)f.make_step(run, StepStatus::started);
  f.clock.advance(3'500);
  const auto executing = explained(f, run);
  CHECK(executing.reason == "executing");
  CHECK(executing.text.find("\"pay\" for 3s") != std::string::npos);
  set(f, [&](db::Tx& tx) {
    (void)record_error(tx, f.fence(run), R"({"code":"Denied","message":"ada said no"})", tx.now());
  });
  const auto ending = explained(f, run);
  CHECK(ending.reason == "ending");
  CHECK(ending.text.find("Denied: ada said no") != std::string::npos);
  set(f, [&](db::Tx& tx) { (void)cancel_run(tx, run, "ada", "", tx.now()); });
  CHECK(explained(f, run).reason == "cancelling");
}

TEST_CASE("explain of an ended run says how, and an unknown run has none") {
  KernelFixture f;
  CHECK(explained(f, f.make_run(RunStatus::completed)).reason == "completed");
  const auto failed = explained(f, f.make_run(RunStatus::failed));
  CHECK(failed.command == "bide retry " + std::to_string(failed.run.value));
  CHECK(failed.text.find("E: m") != std::string::npos);
  CHECK(explained(f, f.make_run(RunStatus::cancelled)).reason == "cancelled");
  CHECK_FALSE(f.store->read([&](db::ReadTx& tx) { return explain_run(tx, RunId(999), {}, 0).has_value(); }));
}

TEST_CASE("[W11] the check finds the live runs that nothing would wake, and no other") {
  KernelFixture f;
  const RunId waits = waiting_for(f, WaitKind::approval);
  const RunId expires = waiting_for(f, WaitKind::signal, f.store->now() + 1'000);
  const RunId lost = f.make_run(RunStatus::waiting);
  // A timer moves a queued run only: a waiting one with nothing else is lost [A12].
  const RunId timer = waiting_for(f, WaitKind::timer, f.store->now() + 1'000);
  const RunId settled = f.make_run(RunStatus::waiting);
  (void)f.make_wait(settled, f.make_step(settled, StepStatus::started, StepKind::approval), WaitStatus::resolved);
  (void)f.make_run(RunStatus::running);
  for (const RunStatus ended : {RunStatus::completed, RunStatus::failed, RunStatus::cancelled}) (void)f.make_run(ended);
  const RunId queued = f.make_run(RunStatus::queued);
  const RunId paused = f.make_run(RunStatus::queued);
  const RunId later = f.make_run(RunStatus::queued);
  const RunId guarded = f.make_run(RunStatus::queued);
  set(f, [&](db::Tx& tx) {
    db::Query(tx, "UPDATE runs SET paused_at = 1 WHERE id = ?").bind(paused).run();
    db::Query(tx, "UPDATE runs SET run_at = run_at + 1 WHERE id = ?").bind(later).run();
    db::Query(tx,
              "INSERT INTO processes (run_id, nonce, epoch, pid, pid_start, boot_id, status, started_at) VALUES (?, "
              "'n', 2, 812, 1, 'b', 'running', 0)")
        .bind(guarded)
        .run();
  });
  CHECK(explained(f, lost).reason == "stalled");
  const auto found = [&](bool idle, int limit = 100) {
    std::vector<RunId> all;
    RunId after;
    do {
      const auto page = f.store->read(
          [&](db::ReadTx& tx) { return find_stalled(tx, f.rules(), after, limit, idle, f.store->now()); });
      all.insert(all.end(), page.found.begin(), page.found.end());
      after = page.last;
    } while (after.valid());
    return all;
  };
  CHECK(found(true) == std::vector{lost, timer, settled});
  f.clock.advance(limits::kStalledMs);
  CHECK(found(false) == std::vector{lost, timer, settled});
  CHECK(found(true) == std::vector{lost, timer, settled, queued});
  CHECK(found(true, 2) == found(true));  // pages leave nothing out
  (void)waits;
  (void)expires;
}

TEST_CASE("explain: a run that an app drives waits for its worker, or says who has it and until when") {
  KernelFixture f;
  const VersionId remote = f.store->write([](db::Tx& tx) {
    return ensure_version(tx, ensure_workflow(tx, "far"), "1", WorkflowKind::remote, "{}", tx.now());
  });
  const RunId queued = f.make_run(RunStatus::queued, remote);
  CHECK(explained(f, queued).reason == "waits_for_app");
  const RunId running = f.make_run(RunStatus::running, remote);
  set(f, [&](db::Tx& tx) {
    db::Query(tx, "UPDATE runs SET owner = 'remote:ada/w1', lease_until = ?2 WHERE id = ?1")
        .bind(running, tx.now() + 30'000)
        .run();
  });
  ExplainFacts facts;
  facts.driven = false;
  const Explanation e = explained(f, running, facts);
  CHECK(e.reason == "driven_by_app");
  CHECK(e.text.find("ada/w1") != std::string::npos);
}
