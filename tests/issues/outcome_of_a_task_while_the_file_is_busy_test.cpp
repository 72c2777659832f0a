// A task's outcome was written once: with the disk full, or the file locked by a shell, just then, it was only logged.
// The lease lapsed; the function ran again, or a person was asked what this process knew. An outcome is always recorded
// [E9]. Its siblings: a stop that waited for a task for ever [K5], and tasks that were claimed while the clock was held
// [C6].
#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/rig.h"
#include "tests/support/verdict.h"
#include "tests/support/vfs_shim.h"

using namespace bide;
using kernel::Effect;
using kernel::RunStatus;
using test::Rig;

TEST_CASE("a task ends while the disk is full: its outcome is recorded as soon as there is room") {
  test::VfsShim disk("task-full");
  Rig rig(Rig::Mode::threaded);
  rig.vfs = disk.name();
  std::atomic<int> executions{0};
  rig.add_task("pay", [&](const std::string&, const flow::EffectInfo&) {
    ++executions;
    disk.limit(1, rig.dir.str("data/bide.reserve"));
    return std::string("7");
  });
  rig.add("flow", [](flow::Context& c) { return c.task("pay", "null", {.effect = Effect::non_idempotent}); });
  const RunId run = rig.start("flow");
  rig.drive();
  std::atomic<bool> done{false};
  std::jthread worker([&] { done = rig.tasks->run_one(); });
  test::eventually([&] { return rig.store->health().storage_full; }, "the outcome is refused");
  disk.limit(0);
  test::eventually(
      [&] {
        rig.advance(limits::kDiskProbeMs);
        return done.load();
      },
      "the outcome is recorded");
  rig.drive();
  CHECK(executions == 1);
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(rig.run(run).result == "7");
  CHECK(rig.waits(run).empty());
}

TEST_CASE("a stop does not wait for a task for ever, and claims none meanwhile") {
  Rig rig(Rig::Mode::threaded);
  std::atomic<bool> begun{false}, go{false};
  std::atomic<int> more{0};
  rig.add_task("long", [&](const std::string&, const flow::EffectInfo&) {
    begun = true;
    test::eventually([&] { return go.load(); }, "it may end");
    return std::string("1");
  });
  rig.add_task("more", [&](const std::string&, const flow::EffectInfo&) {
    ++more;
    return std::string("1");
  });
  rig.add("flow", [](flow::Context& c) { return c.task("long"); });
  rig.add("other", [](flow::Context& c) { return c.task("more"); });
  (void)rig.start("flow");
  rig.drive();
  rig.tasks->start(2);
  test::eventually([&] { return begun.load(); }, "the task executes");
  rig.tasks->close();
  (void)rig.start("other");
  rig.drive();
  CHECK_FALSE(rig.tasks->stop(200));
  CHECK(more == 0);
  go = true;
  CHECK(rig.tasks->stop(10'000));
  CHECK(rig.number("SELECT count(*) FROM steps WHERE status = 'completed'") == 1);
}

TEST_CASE("no task is claimed while the clock is held") {
  Rig rig;
  int executions = 0;
  rig.add_task("work", [&](const std::string&, const flow::EffectInfo&) {
    ++executions;
    return std::string("1");
  });
  rig.add("flow", [](flow::Context& c) { return c.task("work"); });
  const RunId run = rig.start("flow");
  rig.drive();
  rig.clock.step_wall(-24 * 3'600'000);
  rig.restart();
  REQUIRE(rig.store->clock().held());
  rig.advance(31'000);
  rig.sweep->pass();
  CHECK_FALSE(rig.tasks->run_one());
  CHECK_FALSE(rig.tasks->run(rig.journal(run).at(0).id));
  CHECK(executions == 0);
  (void)rig.commands->accept_clock(Rig::person());
  rig.advance(31'000);
  rig.sweep->pass();
  CHECK(rig.tasks->run_one());
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::completed);
}
