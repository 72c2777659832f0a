// The end of a run × a task that somebody is at: a run that fails lets it finish, any other end does not wait [P1, X2].
#include <catch2/catch.hpp>

#include "agent/base/limits.h"
#include "agent/kernel/pause.h"
#include "agent/kernel/tasks.h"
#include "tests/kernel/kernel_fixture.h"

using namespace bide;
using namespace bide::kernel;
using bide::test::KernelFixture;

namespace {

constexpr const char* kError = R"({"code":"X","message":"m"})";

struct AtWork : KernelFixture {
  explicit AtWork(Effect effect, StepStatus status = StepStatus::started) {
    run_id = make_run(RunStatus::running);
    task = make_step(run_id, status, StepKind::task, effect);
    other = make_step(run_id, StepStatus::pending, StepKind::task, Effect::idempotent);
    if (status != StepStatus::started) return;
    store->write([&](db::Tx& tx) {
      db::Query(tx, "UPDATE steps SET owner = 'w1', lease_until = ?2 WHERE id = ?1")
          .bind(task, tx.now() + limits::kTaskLeaseMs)
          .run();
    });
  }
  std::string end(const std::function<std::string(db::Tx&, const Fence&)>& how) {
    const std::string said = store->write([&](db::Tx& tx) { return how(tx, fence(run_id)); });
    return said + ": run " + std::string(to_text(run(run_id).status)) + ", task " +
           std::string(to_text(step(task).status)) + ", other " + std::string(to_text(step(other).status));
  }
  RunId run_id;
  StepId task;
  StepId other;
};

std::string finish(db::Tx& tx, const Fence& fence, const Finish& wanted) {
  const auto how = finish_run(tx, fence, wanted, tx.now());
  return how == Finished::queued_again ? "lets finish" : how == Finished::failed ? "failed" : "ended";
}
std::string fails(db::Tx& tx, const Fence& fence) { return finish(tx, fence, {std::nullopt, kError, std::nullopt}); }

}  // namespace

TEST_CASE("[P1] a task at work × each end of its run") {
  const auto completes = [](db::Tx& tx, const Fence& fence) { return finish(tx, fence, {"1", std::nullopt, {}}); };
  const auto cancelled = [](db::Tx& tx, const Fence& fence) {
    (void)cancel_run(tx, fence.run, "ada", "", tx.now());
    return fails(tx, fence);
  };
  const auto late = [](db::Tx& tx, const Fence& fence) -> std::string {
    CHECK(hand_back(tx, fence, tx.now(), "", tx.now()));
    db::Query(tx, "UPDATE runs SET deadline_at = ?2 WHERE id = ?1").bind(fence.run, tx.now()).run();
    return std::to_string(enforce_deadlines(tx, 10, tx.now(), nullptr));
  };
  const auto crashes = [](db::Tx& tx, const Fence& fence) -> std::string {
    db::Query(tx, "UPDATE runs SET recoveries = ?2 WHERE id = ?1").bind(fence.run, limits::kCrashLoop - 1).run();
    return recover_run(tx, fence.run, fence.epoch, tx.now()) == Recovered::crash_loop ? "crash loop" : "queued";
  };
  CHECK(AtWork(Effect::idempotent).end(fails) == "lets finish: run waiting, task started, other cancelled");
  CHECK(AtWork(Effect::non_idempotent).end(fails) == "lets finish: run waiting, task started, other cancelled");
  CHECK(AtWork(Effect::idempotent, StepStatus::pending).end(fails) ==
        "failed: run failed, task cancelled, other cancelled");
  CHECK(AtWork(Effect::idempotent, StepStatus::completed).end(fails) ==
        "failed: run failed, task completed, other cancelled");
  CHECK(AtWork(Effect::idempotent, StepStatus::needs_reconcile).end(fails) ==
        "failed: run failed, task needs_reconcile, other cancelled");
  CHECK(AtWork(Effect::idempotent).end(completes) == "ended: run completed, task cancelled, other cancelled");
  CHECK(AtWork(Effect::idempotent).end(cancelled) == "ended: run cancelled, task cancelled, other cancelled");
  CHECK(AtWork(Effect::non_idempotent).end(cancelled) == "ended: run cancelled, task needs_reconcile, other cancelled");
  CHECK(AtWork(Effect::idempotent).end(late) == "1: run queued, task started, other cancelled");
  CHECK(AtWork(Effect::idempotent, StepStatus::pending).end(late) == "1: run failed, task cancelled, other cancelled");
  CHECK(AtWork(Effect::idempotent).end(crashes) == "crash loop: run queued, task started, other pending");
}

TEST_CASE("[W11] [A12] a run that lets its task finish is no stalled one, and the end of the lease wakes it") {
  const Effect effect = GENERATE(Effect::idempotent, Effect::non_idempotent);
  AtWork f(effect);
  REQUIRE(f.end(fails).starts_with("lets finish"));
  CHECK(f.store->read(
      [&](db::ReadTx& tx) { return find_stalled(tx, f.rules(), RunId(), 100, true, f.store->now()).found.empty(); }));
  const auto due = f.store->read([](db::ReadTx& tx) { return next_due(tx); });
  CHECK(due == f.store->now() + limits::kTaskLeaseMs);
  f.clock.advance(limits::kTaskLeaseMs);
  Ripples ripples;
  const auto again = f.store->write([&](db::Tx& tx) {
    return lapse_tasks(
        tx, [](StepId) { return false; }, 10, tx.now(), &ripples);
  });
  CHECK(again.empty());
  CHECK(ripples.queued);
  CHECK(f.run(f.run_id).status == RunStatus::queued);
  CHECK(f.step(f.task).status == (effect == Effect::idempotent ? StepStatus::cancelled : StepStatus::needs_reconcile));
  const auto claimed = f.store->write([&](db::Tx& tx) { return claim_next(tx, f.rules(), tx.now()); });
  REQUIRE(std::holds_alternative<Claimed>(claimed));
  const auto& one = std::get<Claimed>(claimed);
  CHECK(f.store->write([&](db::Tx& tx) {
    return finish_run(tx, {one.run, one.epoch, KernelFixture::kOwner}, {}, tx.now());
  }) == Finished::failed);
  CHECK(f.run(f.run_id).error == kError);
}
