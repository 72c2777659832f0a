// The process dies between any two writes of the file: the disk takes nothing more from the n-th operation on, then
// it is opened again, with what was synced or with all that was written.
#include <catch2/catch.hpp>

#include <latch>
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
using test::DiskOp;
using test::eventually;
using test::Loss;
using test::pending_wait;
using test::Rig;
using test::verdict;
using test::VfsShim;

// A rig on a disk in memory, and the death of its process.
struct Mortal {
  explicit Mortal(Rig::Mode mode = Rig::Mode::inlined) : disk("mortal"), rig(mode) {
    rig.vfs = disk.name();
    rig.on_fatal = [this](const std::string&) { ++fatal; };
  }
  // True: the disk gave out and the process is gone. False: it lived to the end of what it had to do.
  bool drive_until(DiskOp op, std::uint64_t nth) {
    const std::uint64_t before = disk.faults_given();
    disk.fail({.op = op, .nth = nth, .for_ever = true});
    try {
      rig.drive();
    } catch (const StorageFault&) {  // it may also be met by the claim, whose caller is the dispatcher
    }
    disk.heal();
    return disk.faults_given() > before;
  }
  void comes_back(Loss loss, std::uint64_t seed = 1) {
    disk.crash(loss, seed);
    rig.restart();
    rig.sweep->pass();
    rig.drive();
  }
  VfsShim disk;
  Rig rig;
  std::atomic<int> fatal{0};
};

struct Verdict {
  bool question = false;
  int effects = 0;
  bool operator==(const Verdict&) const = default;
};

// One life of F01's run: killed at the n-th operation, restarted, answered. nullopt: it was not killed any more.
std::optional<Verdict> killed_at(DiskOp op, std::uint64_t nth, Loss loss, const std::string& answer) {
  Mortal t;
  int a = 0;
  int b = 0;
  int c_effects = 0;
  t.rig.add("flow", [&](flow::Context& c) {
    c.step("a", kernel::Effect::pure, [&](const flow::EffectInfo&) { return ++a, std::string("true"); });
    flow::StepOptions options;
    options.request = R"({"to":"b"})";
    c.step(
        "b", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) { return ++b, std::string("\"b\""); },
        options);
    c.step("c", kernel::Effect::pure, [&](const flow::EffectInfo&) { return ++c_effects, std::string("true"); });
    return std::string("\"end\"");
  });
  const RunId run = t.rig.start("flow");
  if (!t.drive_until(op, nth)) {
    CHECK(b == 1);
    CHECK(t.rig.run(run).status == RunStatus::completed);
    return std::nullopt;
  }
  CHECK(t.fatal == 1);
  const int before = b;
  CHECK(before <= 1);
  // What the file says before anybody touches it: the verdict is a function of the journal alone.
  t.disk.crash(loss, nth);
  t.rig.restart();
  bool intent = false;
  bool outcome = false;
  for (const auto& step : t.rig.journal(run)) {
    if (step.name != "b") continue;
    intent = true;
    outcome = step.status == StepStatus::completed;
  }
  if (before == 1) CHECK(intent);  // durable before the effect [J1]
  t.rig.sweep->pass();
  t.rig.drive();
  const bool question = t.rig.run(run).status == RunStatus::waiting;
  CHECK(question == (intent && !outcome));
  if (question) {
    CHECK(b == before);  // nothing was run to find out
    CHECK(c_effects == 0);
    const auto wait = pending_wait(t.rig, run);
    CHECK(wait.kind == kernel::WaitKind::reconcile);
    CHECK(json::string_member(wait.payload, "step") == "b");
    CHECK(json::string_member(wait.payload, "arguments_hash").value_or("").size() == 64);
    CHECK(json::string_member(wait.payload, "started_at") == format_time(t.rig.clock.wall_ms()));
    CHECK(verdict(t.rig.resolve(wait.id, R"({"answer":)" + json::quote(answer) + "}")) == "resolved");
    t.rig.drive();
    CHECK(b == before + (answer == "run" ? 1 : 0));
  } else {
    CHECK(b == 1);
  }
  CHECK(t.rig.run(run).status == RunStatus::completed);
  CHECK(t.rig.run(run).result == "\"end\"");
  CHECK(c_effects >= 1);
  CHECK(t.rig.count_events(run, "run.completed") == 1);
  CHECK(t.rig.count_events(run, "step.needs_reconcile") == (question ? 1 : 0));
  return Verdict{question, before};
}

TEST_CASE("[F01] killed between any two writes: the effect runs at most once, and in doubt a person is asked") {
  int questions = 0;
  int points = 0;
  for (const DiskOp op : {DiskOp::write, DiskOp::sync}) {
    for (const Loss loss : {Loss::all, Loss::some, Loss::none}) {
      for (std::uint64_t nth = 1; nth < 500; ++nth) {
        INFO("op " << static_cast<int>(op) << " loss " << static_cast<int>(loss) << " nth " << nth);
        const auto ran = killed_at(op, nth, loss, "ran");
        const auto run = killed_at(op, nth, loss, "run");
        CHECK(ran == run);  // the same point twice: the same verdict
        if (!ran) break;
        ++points;
        questions += ran->question ? 1 : 0;
      }
    }
  }
  CHECK(points > 20);
  CHECK(questions >= 3);
}

TEST_CASE("[N48] killed between intent, wait and event, and the suspension: one wait, one wait.created") {
  int waiting_before = 0;
  for (const DiskOp op : {DiskOp::write, DiskOp::sync}) {
    for (std::uint64_t nth = 1; nth < 500; ++nth) {
      INFO("op " << static_cast<int>(op) << " nth " << nth);
      Mortal t;
      t.rig.add("flow", [](flow::Context& c) { return c.approval("?"); });
      const RunId run = t.rig.start("flow");
      const bool killed = t.drive_until(op, nth);
      if (killed) {
        t.disk.crash(Loss::none);
        t.rig.restart();
        const auto there = t.rig.waits(run).size();
        CHECK(t.rig.journal(run).size() == there);  // intent and wait are one transaction
        CHECK(t.rig.count_events(run, "wait.created") == static_cast<int>(there));
        if (there == 1 && t.rig.run(run).status == RunStatus::running) ++waiting_before;
        t.rig.sweep->pass();
        t.rig.drive();
      }
      CHECK(t.rig.run(run).status == RunStatus::waiting);
      CHECK(t.rig.waits(run).size() == 1);
      CHECK(t.rig.count_events(run, "wait.created") == 1);
      CHECK(t.rig.journal(run).size() == 1);
      CHECK(verdict(t.rig.resolve(pending_wait(t.rig, run).id, test::kApproved)) == "resolved");
      t.rig.drive();
      CHECK(t.rig.run(run).status == RunStatus::completed);
      if (!killed) break;
    }
  }
  CHECK(waiting_before >= 2);  // the point of the scenario was met: the wait is there, the run not yet suspended
}

TEST_CASE("[E6] killed after the end was written: the code is not entered again, and the run ends with that error") {
  int ending = 0;
  for (const DiskOp op : {DiskOp::write, DiskOp::sync}) {
    for (std::uint64_t nth = 1; nth < 500; ++nth) {
      INFO("op " << static_cast<int>(op) << " nth " << nth);
      Mortal t;
      int entered = 0;
      bool other = false;
      t.rig.add("flow", [&](flow::Context& c) {
        ++entered;
        return c.approval(other ? "something else?" : "?");
      });
      const RunId run = t.rig.start("flow");
      t.rig.drive();
      other = true;  // the replay ends it: NonDeterminism
      (void)t.rig.store->write([&](db::Tx& tx) { return kernel::wake_run(tx, run, tx.now()); });
      const bool killed = t.drive_until(op, nth);
      other = false;  // and it would not be met a second time
      if (killed) {
        t.disk.crash(Loss::none);
        t.rig.restart();
        const bool written = t.rig.run(run).status == RunStatus::running && t.rig.run(run).error.has_value();
        const int before = entered;
        t.rig.sweep->pass();
        t.rig.drive();
        if (written) {
          ++ending;
          CHECK(entered == before);
          CHECK(t.rig.run(run).status == RunStatus::failed);
        }
      }
      if (t.rig.run(run).status == RunStatus::failed) {
        CHECK(json::string_member(t.rig.run(run).error.value_or("{}"), "code") == "NonDeterminism");
        CHECK(t.rig.count_events(run, "run.failed") == 1);
      } else {
        CHECK(t.rig.run(run).status == RunStatus::waiting);
      }
      if (!killed) break;
    }
  }
  CHECK(ending >= 2);
}

TEST_CASE("[N72] killed anywhere around the question: one pending question after the restart") {
  int points = 0;
  for (const DiskOp op : {DiskOp::write, DiskOp::sync}) {
    for (std::uint64_t nth = 1; nth < 500; ++nth) {
      INFO("op " << static_cast<int>(op) << " nth " << nth);
      Mortal t;
      int effects = 0;
      bool die = true;
      t.rig.add("flow", [&](flow::Context& c) {
        return c.step("pay", kernel::Effect::non_idempotent, [&](const flow::EffectInfo&) -> std::string {
          ++effects;
          if (die) throw test::Died{};
          return "1";
        });
      });
      const RunId run = t.rig.start("flow");
      CHECK_THROWS_AS(t.rig.drive(), test::Died);
      die = false;
      t.rig.restart();
      t.rig.sweep->pass();
      const bool killed = t.drive_until(op, nth);  // while the question is put
      if (killed) t.comes_back(Loss::some, nth);
      CHECK(t.rig.run(run).status == RunStatus::waiting);
      CHECK(pending_wait(t.rig, run).kind == kernel::WaitKind::reconcile);
      CHECK(t.rig.waits(run).size() == 1);
      CHECK(t.rig.count_events(run, "wait.created") == 1);
      CHECK(t.rig.count_events(run, "step.needs_reconcile") == 1);
      CHECK(effects == 1);
      if (!killed) break;
      ++points;
    }
  }
  CHECK(points > 5);
}

TEST_CASE(
    "[N87] two opposite decisions in one batch whose COMMIT fails: nobody is answered, one truth after the restart") {
  int held_first = 0;
  int still_pending = 0;
  for (const Loss loss : {Loss::all, Loss::none}) {
    INFO(static_cast<int>(loss));
    Mortal t(Rig::Mode::threaded);
    std::atomic<int> effects{0};
    t.rig.add("flow", [&](flow::Context& c) {
      std::string answer = c.approval("?");
      c.step("act", kernel::Effect::non_idempotent,
             [&](const flow::EffectInfo&) { return ++effects, std::string("1"); });
      return answer;
    });
    const RunId run = t.rig.start("flow");
    t.rig.drive();
    const auto wait = pending_wait(t.rig, run);
    std::atomic<int> answered{0};
    std::atomic<int> faults{0};
    {
      db::Gate gate(*t.rig.store);
      std::vector<std::jthread> people;
      for (int i = 0; i < 2; ++i) {
        people.emplace_back([&, i] {
          try {
            (void)t.rig.resolve(wait.id, i == 0 ? test::kApproved : test::kDenied, Rig::person(i == 0 ? "ada" : "bob"));
            ++answered;
          } catch (const StorageFault&) {
            ++faults;
          }
        });
        eventually([&] { return t.rig.store->health().queued_jobs == static_cast<std::size_t>(i) + 1; },
                   "queued, ada first");
      }
      t.disk.fail({.op = DiskOp::sync, .suffix = "-wal"});
      gate.open();
    }
    CHECK(t.fatal == 1);
    CHECK(answered == 0);
    CHECK(faults == 2);
    CHECK_THROWS_AS(t.rig.resolve(wait.id, test::kApproved), StorageFault);  // nothing more is acknowledged
    t.disk.heal();
    t.disk.crash(loss);
    t.rig.restart();
    const auto after = t.rig.waits(run).front();
    if (after.status == kernel::WaitStatus::pending) {
      ++still_pending;
      CHECK(verdict(t.rig.resolve(wait.id, test::kApproved, Rig::person("ada"))) == "resolved");
    } else {
      ++held_first;
      CHECK(after.resolved_by == "ada");  // never the second, which saw the first
      CHECK(verdict(t.rig.resolve(wait.id, test::kApproved, Rig::person("ada"))) == "same");
    }
    CHECK(verdict(t.rig.resolve(wait.id, test::kDenied, Rig::person("bob"))) == "wait_decided");
    t.rig.sweep->pass();
    t.rig.drive();
    CHECK(effects == 1);
    CHECK(json::string_member(t.rig.run(run).result.value(), "decision") == "approved");
    CHECK(verdict(t.rig.resolve(wait.id, test::kDenied, Rig::person("bob"))) == "wait_decided");
  }
  CHECK(still_pending >= 1);
  INFO(held_first);
}

}  // namespace
}  // namespace bide
