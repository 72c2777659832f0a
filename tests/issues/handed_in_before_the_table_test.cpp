// An agent started again while a step's holder handed in: the outcome was recorded under its nonce after the new
// attempt had loaded its journal and before it stood in the table of driven attempts. Then the holder was gone and its
// file too, so the attempt took the step for one that nobody could tell of, met its settled row, and threw a Bug at
// every try: the run hung. Found by a test of what a step leaves behind, on a loaded machine. Of a holder that is gone
// the file is asked once more: whatever it handed in is there.
#include <catch2/catch.hpp>

#include "agent/flow/attempt.h"
#include "tests/kernel/kernel_fixture.h"

using namespace bide;
using test::KernelFixture;

TEST_CASE("a holder hands in and ends before its new attempt stands in the table [K2]") {
  KernelFixture box;
  SystemRandom random;
  const auto effect = GENERATE(kernel::Effect::non_idempotent, kernel::Effect::pure);
  const RunId run = box.make_run(kernel::RunStatus::running);
  const StepId step = box.make_step(run, kernel::StepStatus::started, kernel::StepKind::step, effect);
  box.store->write([&](db::Tx& tx) {
    const std::string hash = flow::request_hash("null");
    db::Query(tx, "UPDATE steps SET nonce = 'n1', position = '/step/pay//1', request_hash = ?2 WHERE id = ?1")
        .bind(step, db::Blob{hash})
        .run();
    db::Query(tx,
              "INSERT INTO processes (run_id, step_id, nonce, epoch, pid, pid_start, boot_id, status, started_at) "
              "VALUES (?, ?, 'n1', 2, 99, 7, 'b', 'running', 0)")
        .bind(run, step)
        .run();
  });
  flow::AttemptOptions options;
  options.style = flow::Style::program;
  const auto attempt = std::make_shared<flow::Attempt>(*box.store, random, KernelFixture::fence(run), options);
  REQUIRE(attempt->executes(step.value, "n1"));
  kernel::HeldOutcome outcome;
  outcome.result = "\"paid\"";
  const auto taken = box.store->write([&](db::Tx& tx) {
    return kernel::hand_in(
        tx, "n1", outcome, [](std::int64_t) { return 0; }, tx.now());
  });
  REQUIRE(taken == kernel::Taken::recorded);
  attempt->holder_gone(step.value, "n1");
  flow::StepAsk ask;
  ask.name = "pay";
  ask.effect = effect;
  const auto said = attempt->begin_step(ask);
  REQUIRE(std::holds_alternative<flow::Settled>(said));
  CHECK(std::get<flow::Settled>(said).result == "\"paid\"");
}
