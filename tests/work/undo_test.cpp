// Compensations of native code: first the end is written, then what was done is taken back, last first, none twice.
#include <catch2/catch.hpp>

#include <set>

#include "agent/base/json.h"
#include "tests/support/verdict.h"
#include "tests/support/vfs_shim.h"

namespace bide {
namespace {

using kernel::Effect;
using kernel::RunStatus;
using kernel::StepStatus;
using test::Rig;
using test::verdict;

// Three bookings that can be taken back, then `end`. What happens outside is in `ledger`.
struct Trip {
  std::vector<std::string> ledger;
  std::set<std::string> undo_keys;
  int entered = 0;
  std::string die_at;  // an undo of this name ends the process before its effect
  std::function<std::string(flow::Context&)> end = [](flow::Context&) -> std::string {
    throw std::runtime_error("no more");
  };
  Effect undo_effect = Effect::idempotent;

  flow::NativeWorkflow workflow(const std::string& version = "1") {
    flow::NativeWorkflow w;
    w.name = "trip";
    w.version = version;
    w.run = [this](flow::Context& c) {
      ++entered;
      for (const std::string what : {"hotel", "flight", "car"}) {
        flow::StepOptions options;
        options.compensate = "cancel booking";
        options.compensate_argument = json::quote(what);
        c.step(
            "book " + what, Effect::non_idempotent,
            [&](const flow::EffectInfo&) {
              ledger.push_back(what);
              return json::quote(what + " no. 7");
            },
            options);
      }
      return end(c);
    };
    w.compensations["cancel booking"] = {[this](const flow::UndoInfo& info) {
                                           const std::string what = json::as_string(info.argument).value();
                                           if (die_at == what) throw test::Died{};
                                           CHECK(json::as_string(info.result) == what + " no. 7");
                                           undo_keys.insert(info.effect.idempotency_key);
                                           ledger.push_back("-" + what);
                                           return std::string("true");
                                         },
                                         undo_effect, 5};
    return w;
  }
};

const std::vector<std::string> kAll = {"hotel", "flight", "car", "-car", "-flight", "-hotel"};

TEST_CASE("[N44] what was done is taken back in reverse order, once, and the run ends with its first error") {
  Rig rig;
  Trip trip;
  rig.add(trip.workflow());
  const RunId run = rig.start("trip");
  CHECK(rig.drive() == 1);
  CHECK(trip.ledger == kAll);
  CHECK(trip.undo_keys.size() == 3);
  CHECK(rig.run(run).status == RunStatus::failed);
  CHECK(json::string_member(rig.run(run).error.value(), "message") == "no more");
  const auto journal = rig.journal(run);
  REQUIRE(journal.size() == 6);
  CHECK(journal[3].position == "~undo/3");
  CHECK(journal[5].position == "~undo/1");
  CHECK(rig.count_events(run, "run.ending") == 1);
  CHECK(rig.count_events(run, "run.failed") == 1);
  CHECK(rig.drive() == 0);
}

TEST_CASE("[N120] killed after the code's end and before the first compensation, and between two") {
  for (const std::string at : {"car", "flight", "hotel"}) {
    INFO(at);
    Rig rig;
    Trip trip;
    trip.die_at = at;
    rig.add(trip.workflow());
    const RunId run = rig.start("trip");
    CHECK_THROWS_AS(rig.drive(), test::Died);
    CHECK(rig.run(run).status == RunStatus::running);
    CHECK(rig.run(run).error.has_value());  // the end is written before anything acts on it
    trip.die_at = "";
    rig.restart();
    rig.sweep->pass();
    rig.drive();
    CHECK(trip.entered == 1);
    CHECK(trip.ledger == kAll);
    CHECK(rig.run(run).status == RunStatus::failed);
    CHECK(json::string_member(rig.run(run).error.value(), "message") == "no more");
  }
}

TEST_CASE("[N44] killed at every sync from the start to the run's end, with what was written and without") {
  int deaths = 0;
  for (const test::Loss loss : {test::Loss::none, test::Loss::all}) {
    for (std::uint64_t nth = 1;; ++nth) {
      REQUIRE(nth < 100);
      CAPTURE(nth);
      test::VfsShim disk("n44");
      Rig rig;
      rig.vfs = disk.name();
      rig.on_fatal = [](const std::string&) {};
      Trip trip;
      rig.add(trip.workflow());
      const RunId run = rig.start("trip");
      disk.fail({.op = test::DiskOp::sync, .nth = nth, .for_ever = true});
      try {
        rig.drive();
      } catch (const StorageFault&) {  // it may also be met by the claim, whose caller is the dispatcher
      }
      const bool died = disk.faults_given() > 0;
      disk.heal();
      if (!died) {
        CHECK(trip.ledger == kAll);
        break;
      }
      ++deaths;
      disk.crash(loss);
      rig.restart();
      rig.sweep->pass();
      rig.drive();
      // A kill between a booking's effect and its outcome leaves a question: not the subject here.
      if (rig.run(run).status == RunStatus::waiting) continue;
      CHECK(rig.run(run).status == RunStatus::failed);
      const std::multiset<std::string> seen(trip.ledger.begin(), trip.ledger.end());
      for (const std::string what : {"hotel", "flight", "car"}) {
        CHECK(seen.count(what) == 1);
        CHECK(seen.count("-" + what) >= 1);
        CHECK(seen.count("-" + what) <= 2);  // idempotent: killed before its outcome it runs again under its key
      }
      CHECK(trip.undo_keys.size() == 3);
      const auto journal = rig.journal(run);
      CHECK(journal.size() == 6);
    }
  }
  CHECK(deaths > 12);
}

TEST_CASE("[E6] a compensation that fails is noted, the next one runs, the first error stays") {
  Rig rig;
  Trip trip;
  auto workflow = trip.workflow();
  workflow.compensations["cancel booking"].run = [&](const flow::UndoInfo& info) -> std::string {
    const std::string what = json::as_string(info.argument).value();
    if (what == "flight") throw flow::Final("not refundable");
    trip.ledger.push_back("-" + what);
    return "1";
  };
  rig.add(workflow);
  const RunId run = rig.start("trip");
  rig.drive();
  CHECK(trip.ledger == std::vector<std::string>{"hotel", "flight", "car", "-car", "-hotel"});
  CHECK(json::string_member(rig.run(run).error.value(), "message") == "no more");
  CHECK(rig.journal(run)[4].status == StepStatus::failed);
}

TEST_CASE("[E6] a compensation is retried, over a restart, while its run waits for it") {
  Rig rig;
  Trip trip;
  auto workflow = trip.workflow();
  int tries = 0;
  const auto good = workflow.compensations["cancel booking"].run;
  workflow.compensations["cancel booking"].run = [&, good](const flow::UndoInfo& info) {
    if (json::as_string(info.argument) == "car" && ++tries < 4) throw std::runtime_error("busy");
    return good(info);
  };
  rig.add(workflow);
  const RunId run = rig.start("trip");
  for (int i = 0; i < 10 && rig.run(run).status != RunStatus::failed; ++i) {
    rig.drive();
    rig.restart();
    rig.sweep->pass();
    rig.advance(20'000);
  }
  CHECK(tries == 4);
  CHECK(trip.entered == 1);
  CHECK(trip.ledger == kAll);
  CHECK(rig.run(run).status == RunStatus::failed);
}

TEST_CASE("[E6] a compensation that is declared non_idempotent and is killed asks, and the run waits") {
  Rig rig;
  Trip trip;
  trip.undo_effect = Effect::non_idempotent;
  trip.die_at = "flight";
  rig.add(trip.workflow());
  const RunId run = rig.start("trip");
  CHECK_THROWS_AS(rig.drive(), test::Died);
  trip.die_at = "";
  rig.restart();
  rig.sweep->pass();
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::waiting);
  const auto question = test::pending_wait(rig, run);
  CHECK(question.kind == kernel::WaitKind::reconcile);
  rig.restart();
  rig.sweep->pass();
  CHECK(rig.drive() == 0);
  CHECK(verdict(rig.resolve(question.id, R"({"answer":"run"})")) == "resolved");
  rig.drive();
  CHECK(trip.ledger == kAll);
  CHECK(rig.run(run).status == RunStatus::failed);
}

TEST_CASE("[X1] cancel of a waiting run takes back what it did, without its code") {
  Rig rig;
  Trip trip;
  trip.end = [](flow::Context& c) { return c.approval("keep it?"); };
  rig.add(trip.workflow());
  const RunId run = rig.start("trip");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::waiting);
  CHECK(verdict(rig.cancel(run)) == "compensates");
  CHECK(rig.run(run).status == RunStatus::queued);
  CHECK(rig.waits(run).at(0).status == kernel::WaitStatus::cancelled);
  rig.restart();
  rig.drive();
  CHECK(trip.entered == 1);
  CHECK(trip.ledger == kAll);
  CHECK(rig.run(run).status == RunStatus::cancelled);
}

TEST_CASE("[X1] cancel while the code runs: it sees Cancelled, then what it did is taken back") {
  Rig rig;
  Trip trip;
  RunId run;
  int cleaned = 0;
  trip.end = [&](flow::Context& c) -> std::string {
    CHECK(verdict(rig.cancel(run)) == "told");
    try {
      return c.approval("keep it?");
    } catch (...) {
      ++cleaned;
      throw;
    }
  };
  rig.add(trip.workflow());
  run = rig.start("trip");
  rig.drive();
  CHECK(cleaned == 1);
  CHECK(trip.ledger == kAll);
  CHECK(rig.run(run).status == RunStatus::cancelled);
}

TEST_CASE("[X1] one whose version is missing waits, and ends --without-compensation with a list") {
  Rig rig;
  Trip trip;
  trip.end = [](flow::Context& c) { return c.approval("keep it?"); };
  rig.add(trip.workflow());
  const RunId run = rig.start("trip");
  rig.drive();
  rig.replace(
      "trip", [](flow::Context&) { return std::string("1"); }, "2");
  rig.restart();
  CHECK(verdict(rig.cancel(run)) == "compensates");
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::queued);
  CHECK(rig.run(run).reason == "version_missing");
  const auto outcome = rig.cancel(run, true);
  REQUIRE(std::holds_alternative<kernel::CancelEnded>(outcome));
  const auto& left = std::get<kernel::CancelEnded>(outcome).left;
  REQUIRE(left.size() == 3);
  CHECK(left[0].step == "book car");
  CHECK(rig.run(run).status == RunStatus::cancelled);
  CHECK(trip.ledger.size() == 3);
}

TEST_CASE("[K6] a run whose code kills the process fails with CrashLoop, and what it did is taken back") {
  Rig rig;
  Trip trip;
  bool dies = true;
  trip.end = [&](flow::Context&) -> std::string {
    if (dies) throw test::Died{};
    return "1";
  };
  rig.add(trip.workflow());
  const RunId run = rig.start("trip");
  for (int i = 0; i < 10; ++i) {
    CHECK_THROWS_AS(rig.drive(), test::Died);
    rig.restart();
    rig.sweep->pass();
  }
  rig.drive();
  CHECK(trip.entered == 10);
  CHECK(trip.ledger == kAll);
  CHECK(rig.run(run).status == RunStatus::failed);
  CHECK(json::string_member(rig.run(run).error.value(), "code") == "CrashLoop");
}

TEST_CASE("[A11] a child that is cancelled with its parent takes back what it did") {
  Rig rig;
  Trip trip;
  trip.end = [](flow::Context& c) { return c.approval("keep it?"); };
  rig.add(trip.workflow());
  rig.add("parent", [](flow::Context& c) { return c.call("trip"); });
  const RunId parent = rig.start("parent");
  rig.drive();
  CHECK(verdict(rig.cancel(parent)) == "ended");
  rig.drive();
  CHECK(trip.ledger == kAll);
  CHECK(rig.number("SELECT count(*) FROM runs WHERE status = 'cancelled'") == 2);
}

}  // namespace
}  // namespace bide
