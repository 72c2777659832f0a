// Effects of native code over crashes, abandonment, shutdown and stalls. A ledger outside of the run counts them.
#include <catch2/catch.hpp>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "agent/base/json.h"
#include "agent/work/explain.h"
#include "tests/support/eventually.h"
#include "tests/support/rig.h"

using namespace bide;
using namespace std::chrono_literals;
using kernel::Effect;
using kernel::RunStatus;
using kernel::StepStatus;

namespace {

// Effects append their idempotency key to a file outside of the store.
struct Ledger {
  explicit Ledger(test::Rig& rig) : path(rig.dir.str("ledger")) {}
  void append(const flow::EffectInfo& info) const {
    std::ofstream(path, std::ios::app) << info.idempotency_key << "\n";
  }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
  [[nodiscard]] std::size_t keys() const {
    const auto all = lines();
    return std::set<std::string>(all.begin(), all.end()).size();
  }
  std::string path;
};

void die_and_restart(test::Rig& rig) {
  CHECK_THROWS_AS(rig.drive(), test::Died);
  rig.restart();
  (void)rig.sweep->pass();
}

// A gate that an effect on a worker's thread waits at.
struct Gate {
  std::atomic<int> arrived{0};
  std::atomic<bool> open{false};
  void wait() {
    ++arrived;
    (void)test::holds_within(60s, [&] { return open.load(); });
  }
};

// The writer empties the WAL when nothing was queued for a second of its clock.
void empty_wal(test::Rig& rig) {
  test::eventually(
      [&] {
        rig.advance(limits::kIdleCheckpointMs);
        return rig.store->health().wal_bytes == 0;
      },
      "the WAL is empty");
}

}  // namespace

TEST_CASE("[N25] a pure step whose process dies between intent and outcome runs again under its key") {
  for (const Effect effect : {Effect::pure, Effect::idempotent}) {
    test::Rig rig;
    const Ledger ledger(rig);
    bool die = true;
    rig.add("flow", [&](flow::Context& c) {
      return c.step("fetch", effect, [&](const flow::EffectInfo& info) {
        rig.store->flush_riders();  // the intent is committed
        ledger.append(info);
        if (die) throw test::Died{};
        CHECK(info.execution == 2);
        return std::string("7");
      });
    });
    const RunId run = rig.start("flow");
    die_and_restart(rig);
    REQUIRE(rig.journal(run).size() == 1);
    CHECK(rig.journal(run)[0].status == StepStatus::started);
    die = false;
    rig.drive();
    CHECK(rig.run(run).result == "7");
    CHECK(rig.journal(run)[0].executions == 2);
    CHECK(ledger.lines().size() == 2);
    CHECK(ledger.keys() == 1);
    CHECK(rig.waits(run).empty());
  }
}

TEST_CASE("[N26] a non_idempotent step that died before or after its effect gives one question, and nothing runs") {
  for (const bool before : {true, false}) {
    test::Rig rig;
    const Ledger ledger(rig);
    rig.add("flow", [&](flow::Context& c) {
      return c.step("pay", Effect::non_idempotent, [&](const flow::EffectInfo& info) -> std::string {
        CHECK(rig.number("SELECT count(*) FROM steps WHERE status = 'started'") ==
              1);  // J1: the intent is durable first
        if (!before) ledger.append(info);
        throw test::Died{};
      });
    });
    const RunId run = rig.start("flow");
    die_and_restart(rig);
    rig.drive();
    for (int i = 0; i < 3; ++i) {  // and after further restarts it is still the same question
      CHECK(rig.run(run).status == RunStatus::waiting);
      REQUIRE(rig.waits(run).size() == 1);
      CHECK(rig.waits(run)[0].kind == kernel::WaitKind::reconcile);
      CHECK_FALSE(rig.waits(run)[0].resolve_by);
      CHECK(rig.journal(run)[0].status == StepStatus::needs_reconcile);
      CHECK(rig.journal(run)[0].executions == 1);
      rig.restart();
      rig.advance(3'600'000);
      (void)rig.sweep->pass();
      rig.drive();
    }
    CHECK(ledger.lines().size() == (before ? 0 : 1));
    CHECK(rig.count_events(run, "step.needs_reconcile") == 1);
    const auto e = work::explain(*rig.store, *rig.executor, run);
    CHECK(e->reason == "in_doubt");
  }
}

TEST_CASE("[N27] a probe decides: ran, did not run, cannot tell, fails") {
  enum class Says { ran, did_not_run, cannot_tell, throws };
  for (const Says says : {Says::ran, Says::did_not_run, Says::cannot_tell, Says::throws}) {
    CAPTURE(static_cast<int>(says));
    test::Rig rig;
    const Ledger ledger(rig);
    bool die = true;
    int probes = 0;
    rig.add("flow", [&](flow::Context& c) {
      flow::StepOptions options;
      options.probe = [&](const flow::EffectInfo& info) -> flow::ProbeAnswer {
        ++probes;
        CHECK(info.idempotency_key == ledger.lines().at(0));
        if (says == Says::throws) throw std::runtime_error("no network");
        if (says == Says::ran) return {flow::ProbeVerdict::ran, "\"receipt 9\""};
        if (says == Says::did_not_run) return {flow::ProbeVerdict::did_not_run, ""};
        return {flow::ProbeVerdict::cannot_tell, ""};
      };
      return c.step(
          "pay", Effect::non_idempotent,
          [&](const flow::EffectInfo& info) {
            ledger.append(info);
            if (die) throw test::Died{};
            return std::string("\"paid\"");
          },
          options);
    });
    const RunId run = rig.start("flow");
    die_and_restart(rig);
    die = false;
    rig.drive();
    CHECK(probes == 1);
    if (says == Says::ran) {
      CHECK(rig.run(run).result == "\"receipt 9\"");
      CHECK(ledger.lines().size() == 1);
      CHECK(rig.waits(run).empty());
    } else if (says == Says::did_not_run) {
      CHECK(rig.run(run).result == "\"paid\"");
      CHECK(ledger.lines().size() == 2);
      CHECK(ledger.keys() == 1);
      CHECK(rig.waits(run).empty());
    } else {
      CHECK(rig.run(run).status == RunStatus::waiting);
      REQUIRE(rig.waits(run).size() == 1);
      CHECK(rig.waits(run)[0].kind == kernel::WaitKind::reconcile);
      CHECK(ledger.lines().size() == 1);
    }
  }
}

TEST_CASE("[N27] a native probe is not asked before settle_after has passed") {
  auto options = test::Rig::default_options();
  options.settle_after = 10'000;
  options.inline_sleep = 0;
  test::Rig rig(test::Rig::Mode::threaded, options);
  std::atomic<int> probes{0};
  std::atomic<bool> first{true};
  rig.add("flow", [&](flow::Context& c) {
    flow::StepOptions step;
    step.probe = [&](const flow::EffectInfo&) -> flow::ProbeAnswer {
      ++probes;
      return {flow::ProbeVerdict::ran, "1"};
    };
    return c.step(
        "pay", Effect::non_idempotent,
        [&](const flow::EffectInfo&) -> std::string {
          if (first.exchange(false)) throw test::Died{};
          return "2";
        },
        step);
  });
  const RunId run = rig.start("flow");
  CHECK_THROWS_AS(rig.drive(), test::Died);
  rig.restart();
  (void)rig.sweep->pass();
  rig.executor->start();
  test::eventually([&] { return rig.executor->attempt(run) != nullptr; }, "the attempt");
  rig.advance(9'999);
  CHECK_FALSE(test::holds_within(300ms, [&] { return probes > 0; }));
  rig.advance(1);
  test::eventually([&] { return rig.run(run).status == RunStatus::completed; }, "the probe's answer");
  CHECK(probes == 1);
  CHECK(rig.run(run).result == "1");
}

TEST_CASE("[N28] a native step that hangs past its timeout is abandoned, its late outcome changes nothing") {
  for (const Effect effect : {Effect::idempotent, Effect::non_idempotent}) {
    test::Rig rig;
    const Ledger ledger(rig);
    int entered = 0;
    rig.add("flow", [&](flow::Context& c) {
      flow::StepOptions options;
      options.timeout = 5'000;
      options.backoff = 60'000;
      std::string result = c.step(
          "slow", effect,
          [&](const flow::EffectInfo& info) {
            ledger.append(info);
            if (++entered > 1) return std::string("\"second\"");
            rig.advance(34'999);
            (void)rig.sweep->pass();
            CHECK(rig.run(c.run()).status == RunStatus::running);
            CHECK(rig.run(c.run()).epoch == 1);
            rig.advance(1);
            (void)rig.sweep->pass();
            CHECK(rig.run(c.run()).status == RunStatus::queued);  // fenced off
            rig.advance(60'000);                                  // it has failed once [E5]
            CHECK(rig.drive() == 1);                              // goes on elsewhere while this one still hangs
            return std::string("\"first\"");
          },
          options);
      c.step("after", Effect::pure, [&](const flow::EffectInfo&) { return result; });
      return result;
    });
    const RunId run = rig.start("flow");
    rig.drive();
    CHECK(rig.count_events(run, "run.abandoned") == 1);
    CHECK(rig.count_events(run, "step.late_outcome") == 1);
    if (effect == Effect::idempotent) {
      CHECK(rig.run(run).result == "\"second\"");
      CHECK(ledger.lines().size() == 2);
      CHECK(ledger.keys() == 1);
      CHECK(rig.journal(run).size() == 2);
      CHECK(rig.journal(run)[0].failures == 1);
    } else {
      CHECK(rig.run(run).status == RunStatus::waiting);
      REQUIRE(rig.waits(run).size() == 1);
      CHECK(rig.waits(run)[0].kind == kernel::WaitKind::reconcile);
      CHECK(ledger.lines().size() == 1);
      CHECK(rig.journal(run).size() == 1);
    }
  }
}

TEST_CASE("[N30] shutdown in an effect: its outcome is recorded, the run is handed back and not settled") {
  test::Rig rig(test::Rig::Mode::threaded);
  Gate gate;
  std::atomic<int> effects{0};
  std::atomic<int> later{0};
  rig.add("flow", [&](flow::Context& c) {
    std::string result = c.step("pay", Effect::non_idempotent, [&](const flow::EffectInfo&) {
      ++effects;
      gate.wait();
      return std::string("1");
    });
    try {
      c.step("next", Effect::pure, [&](const flow::EffectInfo&) { return std::to_string(++later); });
    } catch (...) {
      return std::string("\"swallowed\"");  // A13: what code returns after the end is ignored
    }
    return result;
  });
  const RunId run = rig.start("flow");
  rig.executor->start();
  test::eventually([&] { return gate.arrived == 1; }, "the effect");
  bool clean = false;
  std::jthread stopping([&] { clean = rig.executor->stop(); });
  test::eventually([&] { return rig.executor->attempt(run)->closing() == flow::Closing::shutdown; },
                   "the attempt is told");
  gate.open = true;
  stopping.join();
  CHECK(clean);
  CHECK(rig.run(run).status == RunStatus::queued);
  CHECK_FALSE(rig.run(run).owner);
  CHECK(rig.run(run).recoveries == 0);
  CHECK(rig.journal(run)[0].status == StepStatus::completed);
  CHECK(later == 0);
  rig.restart();
  (void)rig.sweep->pass();
  rig.drive();
  CHECK(rig.run(run).result == "1");
  CHECK(effects == 1);
  CHECK(later == 1);
  CHECK(rig.count_events(run, "run.recovered") == 0);
}

TEST_CASE("[N30] an effect that ignores the stop is abandoned after the grace, and fenced") {
  auto options = test::Rig::default_options();
  options.shutdown_grace = 200;
  test::Rig rig(test::Rig::Mode::threaded, options);
  Gate gate;
  std::atomic<int> effects{0};
  rig.add("flow", [&](flow::Context& c) {
    return c.step("fetch", Effect::idempotent, [&](const flow::EffectInfo&) {
      if (++effects == 1) gate.wait();
      return std::to_string(effects.load());
    });
  });
  const RunId run = rig.start("flow");
  rig.executor->start();
  test::eventually([&] { return gate.arrived == 1; }, "the effect");
  CHECK_FALSE(rig.executor->stop());
  CHECK(rig.run(run).status == RunStatus::queued);
  CHECK(rig.run(run).epoch == 2);
  gate.open = true;
  test::eventually([&] { return rig.count_events(run, "step.late_outcome") == 1; }, "the late outcome is kept");
  CHECK(rig.run(run).status == RunStatus::queued);
  rig.restart();
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(rig.run(run).result == "2");
}

TEST_CASE("[N86] the store stalls for 40 s under a running attempt: it is not taken over") {
  test::Rig rig(test::Rig::Mode::threaded);
  Gate gate;
  std::atomic<int> effects{0};
  rig.add("flow", [&](flow::Context& c) {
    return c.step("pay", Effect::non_idempotent, [&](const flow::EffectInfo&) {
      ++effects;
      gate.wait();
      return std::string("1");
    });
  });
  const RunId run = rig.start("flow");
  rig.executor->start();
  rig.sweep->start();
  test::eventually([&] { return gate.arrived == 1; }, "the effect");
  Gate disk;
  rig.store->submit([&](db::Tx&) { disk.wait(); }, [](const std::optional<std::string>&) {});
  test::eventually([&] { return disk.arrived == 1; }, "the writer stands");
  gate.open = true;  // its outcome waits for the writer
  for (int i = 0; i < 8; ++i) {
    rig.advance(10'000);
    const auto report = rig.sweep->pass();
    CHECK(report.first_error.empty());
    CHECK(rig.run(run).status == RunStatus::running);
    CHECK(rig.run(run).epoch == 1);
  }
  disk.open = true;
  test::eventually([&] { return rig.run(run).status == RunStatus::completed; }, "the outcome is recorded");
  CHECK(effects == 1);
  CHECK(rig.waits(run).empty());
  CHECK(rig.count_events(run, "run.recovered") == 0);
  CHECK(rig.run(run).epoch == 1);
}

TEST_CASE("[N88] a riding intent that is refused stops the attempt, its outcome is kept as late") {
  for (const bool flushed : {true, false}) {
    test::Rig rig;
    int after = 0;
    rig.add("flow", [&](flow::Context& c) {
      c.step("fetch", Effect::pure, [&](const flow::EffectInfo&) {
        if (rig.run(c.run()).epoch > 1) return std::string("2");
        rig.exec("UPDATE runs SET epoch = epoch + 1, status = 'queued', owner = NULL");
        if (flushed) rig.store->flush_riders();
        return std::string("1");
      });
      return c.step("after", Effect::pure, [&](const flow::EffectInfo&) { return std::to_string(++after); });
    });
    const RunId run = rig.start("flow");
    CHECK(rig.drive(1) == 1);
    CHECK(after == 0);
    CHECK(rig.journal(run).empty());
    CHECK(rig.count_events(run, "step.late_outcome") == 1);
    CHECK(rig.run(run).status == RunStatus::queued);
    rig.drive();
    CHECK(rig.run(run).status == RunStatus::completed);
    CHECK(after == 1);
  }
}

TEST_CASE("[N88] a riding intent that the file refuses for its size stops the attempt, its outcome is kept as late") {
  test::Rig rig;
  int effects = 0;
  int after = 0;
  rig.add("flow", [&](flow::Context& c) {
    flow::StepOptions options;
    options.request = json::quote(std::string(2'000, 'x'));
    c.step(
        "fetch", Effect::pure, [&](const flow::EffectInfo&) { return std::to_string(++effects); }, options);
    return c.step("after", Effect::pure, [&](const flow::EffectInfo&) { return std::to_string(++after); });
  });
  const RunId run = rig.start("flow");
  rig.exec(
      "CREATE TRIGGER too_large BEFORE INSERT ON steps WHEN length(NEW.request) > 1000 BEGIN SELECT RAISE(ABORT, 'too "
      "large'); END");
  CHECK(rig.drive(1) == 1);
  CHECK(effects == 1);
  CHECK(after == 0);
  CHECK(rig.journal(run).empty());
  CHECK(rig.count_events(run, "step.late_outcome") == 1);
  CHECK(rig.number("SELECT count(*) FROM events WHERE kind = 'step.late_outcome' AND payload->>'result' = 1") == 1);
  CHECK(rig.run(run).status == RunStatus::queued);
  CHECK(rig.run(run).reason == "agent_fault");
  rig.exec("DROP TRIGGER too_large");
  rig.advance(limits::kUnclaimedSpawnBackoffMs);
  rig.drive();
  CHECK(rig.run(run).status == RunStatus::completed);
  CHECK(after == 1);
}

TEST_CASE("[N88] what is too large at the door is no intent: its effect does not begin [D5]") {
  test::Rig rig;
  int effects = 0;
  rig.add("flow", [&](flow::Context& c) {
    flow::StepOptions options;
    options.request = json::quote(std::string(limits::kDocumentBytes, 'x'));
    return c.step(
        "fetch", Effect::pure, [&](const flow::EffectInfo&) { return std::to_string(++effects); }, options);
  });
  const RunId run = rig.start("flow");
  rig.drive();
  CHECK(effects == 0);
  CHECK(rig.journal(run).empty());
  CHECK(rig.run(run).status == RunStatus::failed);
}

TEST_CASE("[N126] an attempt held for an hour, idle: no byte written") {
  test::Rig rig(test::Rig::Mode::threaded);
  Gate gate;
  rig.add("flow", [&](flow::Context& c) {
    return c.step("hold", Effect::idempotent, [&](const flow::EffectInfo&) {
      gate.wait();
      return std::string("1");
    });
  });
  const RunId run = rig.start("flow");
  rig.executor->start();
  rig.sweep->start();
  test::eventually([&] { return gate.arrived == 1; }, "the effect");
  rig.store->flush_riders();
  empty_wal(rig);
  const auto before = rig.store->health();
  // Looked at without opening it: a closed descriptor would drop SQLite's locks [C5].
  const std::filesystem::path path = rig.dir.str("data") + "/bide.db";
  const auto written = std::filesystem::last_write_time(path);
  for (int minute = 0; minute < 60; ++minute) {
    rig.advance(60'000);
    rig.executor->ring();
    rig.sweep->ring();
    (void)rig.sweep->pass();
  }
  CHECK(rig.store->health().commits == before.commits);
  CHECK(rig.store->health().wal_bytes == 0);
  CHECK(std::filesystem::last_write_time(path) == written);
  CHECK(rig.run(run).status == RunStatus::running);
  CHECK(work::explain(*rig.store, *rig.executor, run)->reason == "executing");
  gate.open = true;
  test::eventually([&] { return rig.run(run).status == RunStatus::completed; }, "the run ends");
  CHECK(rig.run(run).epoch == 1);
}
