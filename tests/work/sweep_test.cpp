// The sweep's passes: order, isolation, orphans, stalled runs, idleness.
#include <catch2/catch.hpp>

#include <atomic>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/rig.h"

using namespace bide;
using namespace std::chrono_literals;

namespace {

std::string done(flow::Context&) { return "null"; }

// Running rows that nobody drives, as a process that died leaves them.
void make_orphans(test::Rig& rig, int count) {
  for (int i = 0; i < count; ++i) rig.start("flow");
  rig.exec("UPDATE runs SET status = 'running', epoch = 1, owner = 'local:gone' WHERE status = 'queued'");
}

std::int64_t done_by(const work::SweepReport& report, const std::string& duty) {
  for (const auto& one : report.duties) {
    if (one.name == duty) return one.done;
  }
  FAIL("no duty " << duty);
  return 0;
}

// Another writer's row, as the tests below need it.
std::int64_t running(test::Rig& rig) { return rig.number("SELECT count(*) FROM runs WHERE status = 'running'"); }
std::int64_t queued(test::Rig& rig) { return rig.number("SELECT count(*) FROM runs WHERE status = 'queued'"); }

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

TEST_CASE("[N13] two duties throw, the others run, the first error is reported once") {
  test::Rig rig;
  rig.add("flow", done);
  make_orphans(rig, 1);
  int ran = 0;
  rig.sweep->add("children", [](TimeMs) -> std::int64_t { throw std::runtime_error("first"); });
  rig.sweep->add("schedules", [&](TimeMs) -> std::int64_t { return ++ran; });
  rig.sweep->add("hooks", [](TimeMs) -> std::int64_t { throw Bug("second"); });
  const auto report = rig.sweep->pass();
  CHECK(report.first_error == "children: first");
  CHECK(ran == 1);
  CHECK(done_by(report, "orphans") == 1);  // after the one that threw
  std::vector<std::string> failed;
  std::vector<std::string> order;
  for (const auto& duty : report.duties) {
    order.push_back(duty.name);
    if (!duty.error.empty()) failed.push_back(duty.name + ": " + duty.error);
  }
  CHECK(failed == std::vector<std::string>{"children: first", "hooks: second"});
  CHECK(order == std::vector<std::string>{"timers", "children", "children", "overdue", "orphans", "stalled",
                                          "schedules", "hooks"});
  CHECK(rig.sweep->last_report().first_error == report.first_error);
  CHECK_FALSE(report.cut_short);
}

TEST_CASE("[N14] closing begins during a duty: later ones do not run, no error") {
  test::Rig rig;
  rig.add("flow", done);
  make_orphans(rig, 1);
  bool later = false;
  rig.sweep->add("children", [&](TimeMs) -> std::int64_t {
    rig.sweep->stop();
    return 1;
  });
  rig.sweep->add("hooks", [&](TimeMs) -> std::int64_t {
    later = true;
    return 0;
  });
  const auto report = rig.sweep->pass();
  CHECK(report.cut_short);
  CHECK(report.first_error.empty());
  CHECK(report.duties.back().name == "children");
  CHECK_FALSE(later);
  CHECK(running(rig) == 1);
}

TEST_CASE("[N15] 250 orphans under a budget: whole pages, the next pass goes on, then none for 60 s") {
  test::Rig rig;
  rig.add("flow", done);
  make_orphans(rig, 250);
  rig.sweep->set_orphan_budget(120);
  CHECK(done_by(rig.sweep->pass(), "orphans") == 200);
  CHECK(queued(rig) == 200);
  CHECK(rig.number("SELECT min(id) FROM runs WHERE status = 'running'") == 201);
  CHECK(done_by(rig.sweep->pass(), "orphans") == 50);
  CHECK(running(rig) == 0);
  CHECK(rig.number("SELECT count(*) FROM events WHERE kind = 'run.recovered'") == 250);
  rig.exec("UPDATE runs SET status = 'running', owner = 'local:gone', epoch = 2 WHERE id = 7");
  rig.advance(59'999);
  CHECK(done_by(rig.sweep->pass(), "orphans") == 0);
  rig.advance(1);
  CHECK(done_by(rig.sweep->pass(), "orphans") == 1);
  CHECK(rig.run(RunId(7)).epoch == 2);
  CHECK(rig.run(RunId(7)).recoveries == 2);
}

TEST_CASE("[N16] waiting, ended, driven and leased runs are no orphans, a lease that ends now is") {
  test::Rig rig;
  RunId driven;
  rig.add("flow", [&](flow::Context& c) {
    if (c.run() == driven) {
      c.step("hold", kernel::Effect::pure, [&](const flow::EffectInfo&) {
        CHECK(done_by(rig.sweep->pass(), "orphans") == 1);  // the lease that ended, below
        return std::string("1");
      });
    } else {
      (void)c.approval("go on?");
    }
    return std::string("null");
  });
  const RunId waiting = rig.start("flow");
  const RunId leased = rig.start("flow");
  const RunId lapsed = rig.start("flow");
  const RunId cancelled = rig.start("flow");
  rig.cancel(cancelled);
  while (rig.drive() > 0) {
  }
  CHECK(rig.run(waiting).status == kernel::RunStatus::waiting);
  driven = rig.start("flow");
  const std::string until = std::to_string(rig.store->now());
  rig.exec("UPDATE runs SET status = 'running', owner = 'far', lease_until = " + until +
           " + 1 WHERE id = " + std::to_string(leased.value));
  rig.exec("UPDATE runs SET status = 'running', owner = 'far', lease_until = " + until +
           " WHERE id = " + std::to_string(lapsed.value));
  CHECK(rig.drive(1) == 1);
  CHECK(rig.run(driven).status == kernel::RunStatus::completed);
  CHECK(rig.run(driven).epoch == 1);
  CHECK(rig.run(waiting).status == kernel::RunStatus::waiting);
  CHECK(rig.run(cancelled).status == kernel::RunStatus::cancelled);
  CHECK(rig.run(leased).status == kernel::RunStatus::running);
  CHECK(rig.run(lapsed).status == kernel::RunStatus::queued);
}

TEST_CASE("[N18] the next pass begins an interval after the end of the last, and never two at once") {
  test::Rig rig(test::Rig::Mode::threaded);
  rig.add("flow", done);
  rig.start("flow");
  constexpr auto kInterval = 300ms;
  work::Sweep sweep(*rig.store, *rig.executor, kInterval.count());
  std::atomic<int> inside{0}, most{0}, begun{0}, released{0};
  std::atomic<std::int64_t> begun_at{0};
  SystemClock clock;
  sweep.add("hooks", [&](TimeMs) -> std::int64_t {
    most = std::max(most.load(), ++inside);
    begun_at = clock.boot_ms();
    const int mine = ++begun;
    (void)test::holds_within(20s, [&] { return released >= mine; });
    --inside;
    throw std::runtime_error("something is still due");  // so that the next pass comes after the interval
  });
  sweep.start();
  std::jthread by_hand([&] { (void)sweep.pass(); });  // bide sweep, meanwhile
  int passes = 0;
  while (passes < 4) {
    test::eventually([&] { return begun > passes; }, "the next pass");
    ++passes;
    CHECK_FALSE(
        test::holds_within(kInterval * 2, [&] { return begun > passes; }));  // a long pass holds the next one back
    const std::int64_t ended = clock.boot_ms();
    released = passes;
    if (passes < 3) continue;  // the pass by hand stands between the first ones
    test::eventually([&] { return begun > passes; }, "a pass after the interval");
    CHECK(begun_at - ended >= kInterval.count() - 1);
  }
  released = 1'000;
  by_hand.join();
  sweep.stop();
  CHECK(most == 1);
}

TEST_CASE("[N19] nothing due for ten minutes: no write, and no pass") {
  test::Rig rig(test::Rig::Mode::threaded);
  rig.add("flow", done);
  const RunId run = rig.start("flow");
  std::atomic<int> passes{0};
  rig.sweep->add("hooks", [&](TimeMs) -> std::int64_t { return ++passes, 0; });
  rig.executor->start();
  rig.sweep->start();
  test::eventually([&] { return rig.run(run).status == kernel::RunStatus::completed; }, "the run ends");
  empty_wal(rig);
  const auto commits = rig.store->health().commits;
  const auto wakes = rig.store->health().wakes;
  const int before = passes;
  CHECK_FALSE(test::holds_within(1'500ms, [&] { return passes > before || rig.store->health().commits > commits; }));
  CHECK(rig.store->health().wakes == wakes);
  for (int minute = 0; minute < 10; ++minute) {  // and if passes were asked for
    rig.advance(60'000);
    (void)rig.sweep->pass();
  }
  CHECK(rig.store->health().commits == commits);
  CHECK(rig.store->health().wal_bytes == 0);
}

TEST_CASE("[N39] a waiting run without a wait is queued by the next check, and no healthy one ever") {
  test::Rig rig;
  rig.add("asks", [](flow::Context& c) { return c.approval("go on?"); });
  rig.add("sleeps", [](flow::Context& c) {
    c.sleep(86'400'000);
    return std::string("null");
  });
  rig.add("ends", done);
  rig.add("lost", [](flow::Context& c) {
    (void)c.approval("lost?");
    return std::string("null");
  });
  const RunId asks = rig.start("asks");
  const RunId sleeps = rig.start("sleeps");
  const RunId ends = rig.start("ends");
  const RunId lost = rig.start("lost");
  rig.drive();
  const RunId far = rig.start("ends");
  rig.exec("UPDATE runs SET status = 'running', epoch = 1, owner = 'far', lease_until = 9000000000000 WHERE id = " +
           std::to_string(far.value));
  const auto lose = [&] {
    rig.exec(
        "UPDATE waits SET status = 'resolved', resolution = '{\"decision\":\"approved\"}', resolved_at = 1 "
        "WHERE status = 'pending' AND run_id = " +
        std::to_string(lost.value));
  };
  CHECK(done_by(rig.sweep->pass(), "stalled") == 0);  // the first check
  lose();
  rig.advance(limits::kCheckMs - 1);
  CHECK(done_by(rig.sweep->pass(), "stalled") == 0);
  rig.advance(1);
  CHECK(done_by(rig.sweep->pass(), "stalled") == 1);
  rig.drive();
  CHECK(rig.run(lost).status == kernel::RunStatus::completed);
  CHECK(rig.count_events(lost, "run.redriven") == 1);
  for (int i = 0; i < 20; ++i) {
    rig.advance(limits::kCheckMs);
    CHECK(done_by(rig.sweep->pass(), "stalled") == 0);
  }
  CHECK(rig.number("SELECT count(*) FROM runs WHERE redrive_at IS NOT NULL") == 0);
  CHECK(rig.run(asks).status == kernel::RunStatus::waiting);
  CHECK(rig.run(sleeps).status == kernel::RunStatus::queued);
  CHECK(rig.run(ends).status == kernel::RunStatus::completed);
  CHECK(rig.run(far).status == kernel::RunStatus::running);
}

TEST_CASE("[W5] a run that its workflow's limit holds back is not stalled") {
  test::Rig rig;
  flow::NativeWorkflow one;
  one.name = "one";
  one.version = "1";
  one.max_running = 1;
  int inside = 0;
  RunId first;
  one.run = [&](flow::Context& c) {
    if (c.run() != first) return std::string("null");
    c.step("long", kernel::Effect::pure, [&](const flow::EffectInfo&) {
      ++inside;
      rig.advance(limits::kCheckMs);
      CHECK_FALSE(rig.executor->run_one());  // K1
      CHECK(done_by(rig.sweep->pass(), "stalled") == 0);
      return std::string("1");
    });
    return std::string("null");
  };
  rig.add(one);
  first = rig.start("one");
  const RunId second = rig.start("one");
  CHECK(rig.drive() == 2);
  CHECK(inside == 1);
  CHECK(rig.run(second).status == kernel::RunStatus::completed);
  CHECK(rig.count_events(second, "run.redriven") == 0);
}

TEST_CASE("[N40] seven runs stuck for an hour: at most 11 re-drives each, further and further apart") {
  test::Rig rig;
  rig.add("flow", [](flow::Context& c) { return c.approval("go on?"); });
  std::vector<RunId> runs;
  for (int i = 0; i < 7; ++i) runs.push_back(rig.start("flow"));
  rig.drive();
  rig.exec("UPDATE waits SET status = 'resolved', resolution = 'null', resolved_at = 1");
  const TimeMs began = rig.store->now();
  std::vector<TimeMs> first;  // of the first run
  for (DurationMs passed = 0; passed < 3'600'000; passed += limits::kSweepIntervalMs) {
    (void)rig.sweep->pass();
    if (rig.count_events(runs[0], "run.redriven") > static_cast<int>(first.size()))
      first.push_back(rig.store->now() - began);
    // Of four, each re-drive leads back to where it was, by whatever fault; three are queued and nobody takes them.
    rig.exec("UPDATE runs SET status = 'waiting' WHERE status = 'queued' AND id < 5");
    rig.advance(limits::kSweepIntervalMs);
  }
  CHECK(first ==
        std::vector<TimeMs>{0, 30'000, 90'000, 210'000, 450'000, 930'000, 1'530'000, 2'130'000, 2'730'000, 3'330'000});
  for (const RunId run : runs) {
    INFO("run " << run.value);
    CHECK(rig.count_events(run, "run.redriven") <= 11);
    CHECK(rig.count_events(run, "run.redriven") >= 5);
  }
}

TEST_CASE("[N41] one of three stalled runs throws: the others resume, and its backoff is noted") {
  for (const bool bug : {false, true}) {
    test::Rig rig;
    rig.add("asks", [](flow::Context& c) { return c.approval("go on?"); });
    const RunId first = rig.start("asks");
    const RunId second = rig.start("asks");
    const RunId third = rig.start("asks");
    rig.drive();
    rig.exec("UPDATE waits SET status = 'resolved', resolution = '{\"decision\":\"approved\"}', resolved_at = 1");
    rig.sweep->on_redrive([&](RunId run) {
      if (run != first) return;
      if (bug) throw Bug("hook");
      throw std::runtime_error("hook");
    });
    const auto report = rig.sweep->pass();
    CHECK(report.first_error == "stalled: hook");
    CHECK(rig.number("SELECT count(*) FROM runs WHERE redrive_delay = 30000") == 3);
    rig.drive();
    CHECK(rig.run(second).status == kernel::RunStatus::completed);
    CHECK(rig.run(third).status == kernel::RunStatus::completed);
    CHECK(rig.run(first).status == kernel::RunStatus::completed);
  }
}

TEST_CASE("[N42] a wake for an ended run does not enter its code, and leaves no event") {
  test::Rig rig;
  int entered = 0;
  rig.add("flow", [&](flow::Context&) {
    ++entered;
    return std::string("null");
  });
  const RunId run = rig.start("flow");
  rig.drive();
  const RunId cancelled = rig.start("flow");
  rig.cancel(cancelled);
  const auto events = rig.number("SELECT count(*) FROM events");
  for (const RunId ended : {run, cancelled}) {
    CHECK(rig.store->write([&](db::Tx& tx) { return kernel::wake_run(tx, ended, tx.now()); }) == kernel::Woke::ended);
    rig.executor->ring(ended);
  }
  CHECK(rig.drive() == 0);
  (void)rig.sweep->pass();
  CHECK(entered == 1);
  CHECK(rig.number("SELECT count(*) FROM events") == events);
}
