// What a holder hands in under its nonce, and which rows of processes keep a run from being claimed [K2, K7].
#include "agent/kernel/holders.h"

#include <catch2/catch.hpp>

#include "tests/kernel/kernel_fixture.h"

using namespace bide;
using namespace bide::kernel;
using bide::test::KernelFixture;

namespace {

struct Holding : KernelFixture {
  explicit Holding(RunStatus status, int retries = 0) : id(make_run(status)), pay(make_step(id, StepStatus::started)) {
    store->write([&](db::Tx& tx) {
      db::Query(tx, "UPDATE steps SET nonce = 'n1', retries = ? WHERE id = ?").bind(retries, pay).run();
    });
    row("n1");
  }
  void row(const std::string& nonce) {
    store->write([&](db::Tx& tx) {
      db::Query(tx,
                "INSERT INTO processes (run_id, step_id, nonce, epoch, pid, pid_start, boot_id, status, started_at) "
                "VALUES (?, ?, ?, 3, 99, 7, 'b', 'running', ?)")
          .bind(id, pay, nonce, tx.now())
          .run();
    });
  }
  // The next execution begins, under another nonce.
  void again(const std::string& nonce) {
    store->write([&](db::Tx& tx) {
      db::Query(tx, "UPDATE steps SET status = 'started', not_before = NULL, nonce = ? WHERE id = ?")
          .bind(nonce, pay)
          .run();
    });
    row(nonce);
  }
  Taken give(const std::string& nonce, const HeldOutcome& outcome) {
    return store->write([&](db::Tx& tx) {
      return kernel::hand_in(
          tx, nonce, outcome, [](std::int64_t failures) { return 100 * failures; }, tx.now());
    });
  }
  [[nodiscard]] std::string process(const std::string& nonce) {
    return store->read([&](db::ReadTx& tx) {
      db::Query q(tx, "SELECT status FROM processes WHERE nonce = ?");
      return q.bind(nonce).one().text(0);
    });
  }
  [[nodiscard]] std::int64_t count(const std::string& kind) {
    return store->read([&](db::ReadTx& tx) {
      db::Query q(tx, "SELECT count(*) FROM events WHERE kind = ?");
      return q.bind(kind).one().integer(0);
    });
  }
  bool claims() {
    return store->write([&](db::Tx& tx) { return std::holds_alternative<Claimed>(claim_next(tx, rules(), tx.now())); });
  }
  RunId id;
  StepId pay;
};

HeldOutcome ran(const std::string& result) {
  HeldOutcome outcome;
  outcome.result = result;
  return outcome;
}
HeldOutcome failed() {
  HeldOutcome outcome;
  outcome.error = R"({"code":"CommandFailed","message":"m"})";
  return outcome;
}

TEST_CASE(
    "[K2] a holder's outcome is recorded under its nonce, whoever drives the run, and wakes one that nobody does") {
  const RunStatus status = GENERATE(RunStatus::queued, RunStatus::running, RunStatus::waiting);
  Holding box(status);
  const std::int64_t epoch = box.run(box.id).epoch;
  CHECK(box.give("n1", ran("\"paid\"")) == Taken::recorded);
  CHECK(box.step(box.pay).status == StepStatus::completed);
  CHECK(box.step(box.pay).result == "\"paid\"");
  CHECK(box.process("n1") == "stopped");
  CHECK(box.count("step.completed") == 1);
  CHECK(box.run(box.id).epoch == epoch);
  CHECK(box.run(box.id).status == (status == RunStatus::waiting ? RunStatus::queued : status));
}

TEST_CASE(
    "[N121] a nonce handed in twice, the second time while the next execution runs: acknowledged, nothing changed") {
  Holding box(RunStatus::running, 2);
  CHECK(box.give("n1", failed()) == Taken::recorded);
  CHECK(box.step(box.pay).status == StepStatus::pending);
  CHECK(box.step(box.pay).failures == 1);
  CHECK(box.step(box.pay).not_before == box.store->now() + 100);
  CHECK(box.count("step.attempt_failed") == 1);
  box.again("n2");
  const auto before = box.events();
  CHECK(box.give("n1", failed()) == Taken::again);
  CHECK(box.give("n1", ran("\"other\"")) == Taken::again);
  CHECK(box.step(box.pay).status == StepStatus::started);
  CHECK(box.step(box.pay).nonce == "n2");
  CHECK(box.step(box.pay).failures == 1);
  CHECK(box.events() == before);
  CHECK(box.process("n2") == "running");
  CHECK(box.give("n2", ran("1")) == Taken::recorded);
  CHECK(box.give("n2", ran("1")) == Taken::again);
  CHECK(box.step(box.pay).status == StepStatus::completed);
}

TEST_CASE("[K2] any other nonce is a late outcome, kept once, or nobody's") {
  Holding box(RunStatus::running);
  CHECK(box.give("n9", ran("1")) == Taken::stranger);
  SECTION("of an execution before") {
    box.again("n2");
    CHECK(box.give("n1", ran("1")) == Taken::late);
    CHECK(box.give("n1", ran("1")) == Taken::again);
    CHECK(box.step(box.pay).status == StepStatus::started);
  }
  SECTION("of a step in doubt") {
    box.store->write([&](db::Tx& tx) {
      db::Query(tx, "UPDATE steps SET status = 'needs_reconcile' WHERE id = ?").bind(box.pay).run();
    });
    CHECK(box.give("n1", ran("1")) == Taken::late);
    CHECK(box.step(box.pay).status == StepStatus::needs_reconcile);
  }
  SECTION("of a run that has ended") {
    box.store->write([&](db::Tx& tx) {
      db::Query(tx, "UPDATE runs SET status = 'failed', owner = NULL, error = '{}', finished_at = 1 WHERE id = ?")
          .bind(box.id)
          .run();
    });
    CHECK(box.give("n1", ran("1")) == Taken::late);
  }
  CHECK(box.count("step.late_outcome") == 1);
  CHECK(box.count("step.completed") == 0);
}

TEST_CASE("[E7] a command that a signal ended, or that never began, is no failure") {
  Holding box(RunStatus::queued, 0);
  HeldOutcome outcome = failed();
  SECTION("ended by a signal: as after a crash") {
    outcome.unknown = true;
    CHECK(box.give("n1", outcome) == Taken::recorded);
    CHECK(box.step(box.pay).status == StepStatus::started);
  }
  SECTION("never began: as before") {
    outcome.begun = false;
    CHECK(box.give("n1", outcome) == Taken::recorded);
    CHECK(box.step(box.pay).status == StepStatus::pending);
    CHECK(box.step(box.pay).not_before == box.store->now());
  }
  CHECK(box.step(box.pay).failures == 0);
  CHECK(box.process("n1") == "stopped");
  CHECK(box.give("n1", outcome) == Taken::again);
}

TEST_CASE("[K7] a holder of a started step keeps no attempt from beginning, one that is to end does [W7]") {
  Holding box(RunStatus::queued, 1);
  const auto live = [&] { return box.store->read([&](db::ReadTx& tx) { return live_holders(tx, box.id); }); };
  REQUIRE(live().size() == 1);
  CHECK(live()[0].holds);
  SECTION("it lives") { CHECK(box.claims()); }
  SECTION("it left processes behind") {
    HeldOutcome outcome = ran("1");
    outcome.left = true;
    CHECK(box.give("n1", outcome) == Taken::recorded);
    CHECK(box.process("n1") == "stopping");
    REQUIRE(live().size() == 1);
    CHECK_FALSE(live()[0].holds);
    CHECK_FALSE(box.claims());
    box.store->write([&](db::Tx& tx) { CHECK(mark_stopped(tx, live()[0].id, std::nullopt, tx.now())); });
    CHECK(live().empty());
    CHECK(box.claims());
    CHECK(box.give("n1", outcome) == Taken::again);
  }
  SECTION("its step was settled otherwise") {
    box.store->write([&](db::Tx& tx) {
      db::Query(tx, "UPDATE steps SET status = 'pending', not_before = 0 WHERE id = ?").bind(box.pay).run();
      retire_holders(tx, box.id);
    });
    CHECK(box.process("n1") == "stopping");
    CHECK_FALSE(box.claims());
  }
}

}  // namespace
