// The gate of an attempt: who holds the lease, when a run is suspended, and that no answer is lost between the two.
#include <catch2/catch.hpp>

#include <thread>

#include "agent/base/json.h"
#include "tests/db/gate.h"
#include "tests/support/eventually.h"
#include "tests/support/verdict.h"
#include "tests/support/vfs_shim.h"

namespace bide {
namespace {

using kernel::RunStatus;
using kernel::StepStatus;
using test::eventually;
using test::holds_within;
using test::kApproved;
using test::pending_wait;
using test::Rig;
using test::verdict;

constexpr DurationMs kMinute = 60'000;
const auto kPatience = std::chrono::seconds(20);

// For effects: a check of Catch belongs to the test's own thread. Missed, it fails the step and so the run.
void wait_for(const std::atomic<bool>& flag) {
  if (!holds_within(kPatience, [&] { return flag.load(); })) throw flow::Final("the test's other side did not come");
}

// Sees the first pending wait of a run from another thread, as soon as its commit is there.
std::optional<WaitId> see_wait(Rig& rig, RunId run) {
  for (std::uint64_t seen = rig.feed->seen();; seen = rig.feed->wait(seen, 20'000)) {
    for (const auto& wait : rig.waits(run)) {
      if (wait.status == kernel::WaitStatus::pending) return wait.id;
    }
    if (rig.feed->closed()) return std::nullopt;
  }
}

TEST_CASE("[N49] an answer exactly between 'seen pending' and 'run waiting', 1000 times") {
  constexpr int kRounds = 1'000;
  test::VfsShim disk("n49");
  Rig rig(Rig::Mode::threaded);
  rig.vfs = disk.name();
  rig.add("flow", [](flow::Context& c) { return c.approval("?"); });
  int suspended_first = 0;
  int delay = 0;  // sought: the one at which answer and suspension meet
  for (int round = 0; round < kRounds; ++round) {
    const RunId run = rig.start("flow");
    std::string told;
    {
      std::jthread person([&] {
        const auto wait = see_wait(rig, run);
        for (volatile int i = 0; i < delay;) i = i + 1;
        told = verdict(rig.resolve(*wait, kApproved));
      });
      REQUIRE(rig.drive(1) == 1);
    }
    REQUIRE(told == "resolved");
    const bool suspended = rig.count_events(run, "run.suspended") == 1;
    suspended_first += suspended ? 1 : 0;
    delay = suspended ? delay - 50 : delay + 50;
    if (delay < 0) delay = 0;
    rig.drive();  // no sweep: the answer alone lets it go on
    REQUIRE(rig.run(run).status == RunStatus::completed);
    REQUIRE(rig.count_events(run, "wait.resolved") == 1);
    REQUIRE(rig.count_events(run, "wait.created") == 1);
    REQUIRE(rig.count_events(run, "run.suspended") <= 1);
  }
  // The floor: both orders were met, many times.
  CHECK(suspended_first > kRounds / 20);
  CHECK(suspended_first < kRounds - kRounds / 20);
}

TEST_CASE("[N49] an answer and the suspension in one batch, in both orders") {
  for (const bool answer_first : {true, false}) {
    INFO(answer_first);
    test::VfsShim disk("n49b");
    Rig rig(Rig::Mode::threaded);
    rig.vfs = disk.name();
    std::atomic<bool> asked{false};
    rig.add("flow", [&](flow::Context& c) {
      const auto both = c.branches({
          [](flow::Context& b) { return b.approval("?"); },
          [&](flow::Context& b) {
            return b.step("hold", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) {
              wait_for(asked);
              return std::string("1");
            });
          },
      });
      return both[0];
    });
    const RunId run = rig.start("flow");
    std::jthread worker([&] { rig.drive(1); });
    const auto wait = see_wait(rig, run).value();
    eventually([&] { return rig.journal(run).size() == 2 && rig.store->health().queued_jobs == 0; },
               "both branches are there");
    db::Gate gate(*rig.store);
    std::jthread person;
    const auto decide = [&] { CHECK(verdict(rig.resolve(wait, kApproved)) == "resolved"); };
    if (answer_first) {
      person = std::jthread(decide);
      eventually([&] { return rig.store->health().queued_jobs == 1; }, "the answer is queued");
    }
    asked = true;  // the step ends; its outcome is behind the gate, the suspension comes after it
    if (!answer_first) person = std::jthread(decide);
    gate.open();
    person.join();
    worker.join();
    rig.drive();
    CHECK(rig.run(run).status == RunStatus::completed);
  }
}

TEST_CASE("[N65] a branch that waits holds back no other, and its answer is read while the other executes") {
  constexpr int kRounds = 200;
  test::VfsShim disk("n65");
  Rig rig(Rig::Mode::threaded);
  rig.vfs = disk.name();
  std::atomic<bool> read{false};
  std::atomic<bool> started{false};
  std::atomic<int> lost{0};
  rig.add("flow", [&](flow::Context& c) {
    c.branches({
        [&](flow::Context& b) {
          b.approval("?");
          read = true;
          return std::string("1");
        },
        [&](flow::Context& b) {
          return b.step("long", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) {
            started = true;
            if (!holds_within(kPatience, [&] { return read.load(); })) ++lost;
            return std::string("1");
          });
        },
    });
    return std::string("1");
  });
  for (int round = 0; round < kRounds; ++round) {
    read = false;
    started = false;
    const RunId run = rig.start("flow");
    std::jthread person([&] {
      const auto wait = see_wait(rig, run);
      for (volatile int i = 0; i < round * 20;) i = i + 1;
      (void)rig.resolve(*wait, kApproved);
    });
    rig.drive(1);
    person.join();
    REQUIRE(lost == 0);
    REQUIRE(rig.run(run).status == RunStatus::completed);
  }
}

TEST_CASE("[N65] branch A waits for a day, B has ten steps: all ten run under one lease, then the run is suspended") {
  Rig rig;
  RunId run;
  std::atomic<int> steps{0};
  std::atomic<int> held{0};
  rig.add("flow", [&](flow::Context& c) {
    flow::ApprovalOptions day;
    day.timeout = 24 * 60 * kMinute;
    c.branches({
        [&](flow::Context& b) { return b.approval("?", day); },
        [&](flow::Context& b) {
          for (int i = 0; i < 10; ++i) {
            b.step("s", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) {
              ++steps;
              if (rig.run(run).status == RunStatus::running && rig.run(run).epoch == 1) ++held;
              return std::string("1");
            });
          }
          return std::string("1");
        },
    });
    return std::string("1");
  });
  run = rig.start("flow");
  CHECK(rig.drive() == 1);
  CHECK(steps == 10);
  CHECK(held == 10);
  CHECK(rig.run(run).status == RunStatus::waiting);
  CHECK(rig.count_events(run, "run.claimed") == 1);
  CHECK(rig.count_events(run, "run.suspended") == 1);
  CHECK(verdict(rig.resolve(pending_wait(rig, run).id, kApproved)) == "resolved");
  CHECK(rig.drive() == 1);
  CHECK(steps == 10);
  CHECK(rig.run(run).status == RunStatus::completed);
}

TEST_CASE("[N63] cancel cuts an inline sleep short") {
  Rig rig(Rig::Mode::threaded);
  int after = 0;
  rig.add("flow", [&](flow::Context& c) {
    c.sleep(900);
    c.step("after", kernel::Effect::pure, [&](const flow::EffectInfo&) {
      ++after;
      return std::string("1");
    });
    return std::string("1");
  });
  const RunId run = rig.start("flow");
  std::atomic<bool> over{false};
  std::jthread worker([&] {
    rig.drive(1);
    over = true;
  });
  const auto sleeps = [&] {
    const auto attempt = rig.executor->attempt(run);
    return attempt && attempt->open_calls().size() == 1;
  };
  eventually(sleeps, "the attempt is inside its sleep");
  CHECK_FALSE(over);
  CHECK(verdict(rig.cancel(run)) == "told");
  // The clock stands still: nothing but the cancel can end the sleep.
  eventually([&] { return over.load(); }, "the sleep is cut short");
  CHECK(rig.run(run).status == RunStatus::cancelled);
  CHECK(rig.waits(run).front().status == kernel::WaitStatus::cancelled);
  CHECK(after == 0);
}

TEST_CASE("[N63] cancel and an answer both there: cancelled, in either order and in one batch") {
  for (const bool cancel_first : {true, false}) {
    INFO(cancel_first);
    test::VfsShim disk("n63");
    Rig rig(Rig::Mode::threaded);
    rig.vfs = disk.name();
    std::atomic<int> after{0};
    std::atomic<bool> release{false};
    std::atomic<bool> swallowed{false};
    rig.add("flow", [&](flow::Context& c) {
      c.branches({
          [&](flow::Context& b) {
            b.approval("?");
            swallowed = true;
            return b.step("after", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) {
              ++after;
              return std::string("1");
            });
          },
          [&](flow::Context& b) {
            return b.step("hold", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) {
              wait_for(release);
              return std::string("\"held\"");
            });
          },
      });
      return std::string("1");
    });
    const RunId run = rig.start("flow");
    std::jthread worker([&] { rig.drive(1); });
    const auto wait = see_wait(rig, run).value();
    eventually([&] { return rig.journal(run).size() == 2 && rig.store->health().queued_jobs == 0; },
               "both branches are there");
    std::string answered;
    {
      db::Gate gate(*rig.store);
      std::jthread first, second;
      const auto answer = [&] { answered = verdict(rig.resolve(wait, kApproved)); };
      const auto cancel = [&] { CHECK(verdict(rig.cancel(run)) == "told"); };
      first = cancel_first ? std::jthread(cancel) : std::jthread(answer);
      eventually([&] { return rig.store->health().queued_jobs == 1; }, "the first is queued");
      second = cancel_first ? std::jthread(answer) : std::jthread(cancel);
      eventually([&] { return rig.store->health().queued_jobs == 2; }, "both are queued");
      gate.open();
    }
    CHECK(answered == (cancel_first ? "wait_cancelled" : "resolved"));
    release = true;
    worker.join();
    CHECK(rig.run(run).status == RunStatus::cancelled);
    CHECK(after == 0);
    CHECK_FALSE(swallowed);
    // What was in flight is recorded all the same [X2].
    for (const auto& step : rig.journal(run)) {
      if (step.name == "hold") CHECK(step.result == "\"held\"");
      if (step.kind == kernel::StepKind::approval) CHECK(step.status == StepStatus::cancelled);
    }
  }
}

TEST_CASE("[N63] cancel and an answer both there, and the attempt looks before the bell of either") {
  Rig rig(Rig::Mode::threaded);
  std::atomic<int> after{0};
  std::atomic<bool> release{false};
  rig.add("flow", [&](flow::Context& c) {
    c.branches({
        [&](flow::Context& b) {
          b.approval("?");
          return b.step("after", kernel::Effect::pure,
                        [&](const flow::EffectInfo&) { return ++after, std::string("1"); });
        },
        [&](flow::Context& b) {
          b.step("hold", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) {
            wait_for(release);
            return std::string("1");
          });
          return b.step("next", kernel::Effect::non_idempotent,
                        [&](const flow::EffectInfo&) { return ++after, std::string("1"); });
        },
    });
    return std::string("1");
  });
  const RunId run = rig.start("flow");
  std::jthread worker([&] { rig.drive(1); });
  const auto both = [&] {
    const auto attempt = rig.executor->attempt(run);
    return attempt && attempt->open_calls().size() == 2;
  };
  eventually(both, "one branch waits, the other executes");
  const auto decision = std::get<kernel::Decision>(kernel::parse_decision(kApproved));
  const WaitId wait = rig.waits(run).front().id;
  (void)rig.store->write([&](db::Tx& tx) { return kernel::resolve_wait(tx, wait, decision, Rig::person(), tx.now()); });
  (void)rig.store->write([&](db::Tx& tx) { return kernel::cancel_run(tx, run, "ada", "", tx.now()); });
  release = true;  // the end of this step is what makes both branches look
  worker.join();
  CHECK(rig.run(run).status == RunStatus::cancelled);
  CHECK(after == 0);
  CHECK(rig.count_events(run, "step.completed") == 1);  // of the step that was in flight
}

TEST_CASE("[N92] native code with catch (...) around a wait: nothing of it runs after the suspension") {
  Rig rig;
  int swallowed = 0;
  int effects = 0;
  rig.add("flow", [&](flow::Context& c) {
    try {
      c.approval("?");
    } catch (...) {
      ++swallowed;
    }
    const auto again = [&](const auto& call) {
      try {
        call();
      } catch (...) {
        ++swallowed;
      }
    };
    again([&] {
      c.step("after", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) {
        ++effects;
        return std::string("1");
      });
    });
    again([&] {
      c.step("pure", kernel::Effect::pure, [&](const flow::EffectInfo&) { return ++effects, std::string("1"); });
    });
    again([&] { c.approval("another?"); });
    again([&] { c.sleep(1); });
    again([&] { c.value("v", [&] { return ++effects, std::string("1"); }); });
    again([&] { c.branches({[&](flow::Context& b) { return b.approval("in a branch?"); }}); });
    return std::string("\"ignored\"");
  });
  const RunId run = rig.start("flow");
  CHECK(rig.drive() == 1);
  CHECK(swallowed == 7);
  CHECK(effects == 0);
  CHECK(rig.run(run).status == RunStatus::waiting);
  CHECK_FALSE(rig.run(run).result);
  CHECK(rig.journal(run).size() == 1);
  CHECK(rig.waits(run).size() == 1);
  CHECK(rig.count_events(run, "run.completed") == 0);
}

TEST_CASE("[N92] the same after a cancel and after a lost lease") {
  for (const bool cancel : {true, false}) {
    Rig rig;
    RunId run;
    int effects = 0;
    rig.add("flow", [&](flow::Context& c) {
      for (int i = 0; i < 3; ++i) {
        try {
          c.step("s", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) {
            ++effects;
            if (cancel) {
              (void)rig.cancel(run);
            } else {
              rig.executor->attempt(run)->abandon();
            }
            return std::string("1");
          });
        } catch (...) {  // goes on as if nothing had been
        }
      }
      return std::string("\"ignored\"");
    });
    run = rig.start("flow");
    rig.drive(1);
    CHECK(effects == 1);
    CHECK(rig.run(run).status == (cancel ? RunStatus::cancelled : RunStatus::queued));
    CHECK(rig.count_events(run, "step.late_outcome") == (cancel ? 0 : 1));
    CHECK(rig.count_events(run, "run.completed") == 0);
  }
}

TEST_CASE("[N94] a question in branch x while y executes: y's outcome is recorded, then the run is suspended") {
  Rig rig;
  RunId run;
  bool die = true;
  std::atomic<int> x{0};
  std::atomic<int> y{0};
  std::atomic<bool> held{true};
  rig.add("flow", [&](flow::Context& c) {
    c.branches({
        [&](flow::Context& b) {
          return b.step("x", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) -> std::string {
            ++x;
            if (die) throw test::Died{};
            return "1";
          });
        },
        [&](flow::Context& b) {
          return b.step("y", kernel::Effect::idempotent, [&](const flow::EffectInfo&) -> std::string {
            if (die) throw test::Died{};
            ++y;
            const auto asked = [&] { return rig.count_events(run, "wait.created") == 1; };
            if (!holds_within(kPatience, asked) || rig.run(run).status != RunStatus::running) held = false;
            return "\"y\"";
          });
        },
    });
    return std::string("1");
  });
  run = rig.start("flow");
  CHECK_THROWS_AS(rig.drive(), test::Died);
  die = false;
  rig.restart();
  rig.sweep->pass();
  CHECK(rig.drive() == 1);
  CHECK(held);
  CHECK(x == 1);
  CHECK(y == 1);
  CHECK(rig.run(run).status == RunStatus::waiting);
  for (const auto& step : rig.journal(run)) {
    if (step.name == "y") CHECK(step.result == "\"y\"");
    if (step.name == "x") CHECK(step.status == StepStatus::needs_reconcile);
  }
  CHECK(rig.count_events(run, "run.suspended") == 1);
}

}  // namespace
}  // namespace bide
