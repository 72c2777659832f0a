// Retention: what goes, what stays, in which pieces, and what is left of it in the file and beside it [W9, D2].
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/work/keep_rig.h"

namespace bide {
namespace {

namespace fs = std::filesystem;
using kernel::Effect;
using kernel::RunStatus;
using test::put;
using test::Rig;
using test::rows_of;
using test::sql;
using test::sweep_all;
using test::sweep_later;
using test::there;

constexpr DurationMs kDay = 24LL * 3'600'000;

std::string done(flow::Context&) { return "null"; }

std::string remove_run(Rig& rig, RunId run) {
  std::string verdict;
  (void)rig.commands->delete_run(run, Rig::person(), std::nullopt, [&](const kernel::DeleteOutcome& outcome) {
    const auto* refused = std::get_if<Problem>(&outcome);
    verdict = refused == nullptr ? "deleted" : refused->code;
    return work::Answer{};
  });
  return verdict;
}

TEST_CASE("[N17] control events 59:59 and 60:01 old: only the second is pruned") {
  Rig rig;
  rig.keep.emplace();
  rig.add("flow", done);
  const RunId run = rig.start("flow");
  const TimeMs now = rig.store->now();
  const auto add = [&](std::int64_t id, const std::string& kind, DurationMs age) {
    rig.exec("INSERT INTO events (id, at, kind, run_id) VALUES (" + sql(id) + ", " + sql(now - age) + ", '" + kind +
             "', " + sql(run.value) + ")");
  };
  add(1'001, "control.cancel", 3'599'000);
  add(1'002, "control.retry", 3'601'000);
  add(1'003, "controller.said", 3'601'000);
  add(1'004, "run.claimed", 3'601'000);
  (void)rig.sweep->pass();
  const std::string left = "SELECT count(*) FROM events WHERE id > 1000";
  CHECK(rig.number(left) == 3);
  CHECK(rig.number(left + " AND id = 1002") == 0);
  rig.advance(limits::kRetentionSoonMs);
  (void)rig.sweep->pass();
  CHECK(rig.number(left) == 2);
  CHECK(rig.number(left + " AND id = 1001") == 0);
}

TEST_CASE("[N99] a deleted run leaves its audit and its undelivered rows, and no id is used again") {
  Rig rig;
  rig.keep.emplace();
  rig.add("flow", [](flow::Context& c) {
    (void)c.send("http://a.example/hook", R"({"n":1})");
    return c.approval("go on?");
  });
  const RunId run = rig.start("flow");
  rig.drive();
  rig.resolve(rig.waits(run).at(0).id, R"({"decision":"approved"})");
  rig.drive();
  REQUIRE(rig.run(run).status == RunStatus::completed);
  const std::int64_t step = rig.number("SELECT max(id) FROM steps");
  const std::int64_t wait = rig.number("SELECT max(id) FROM waits");
  const std::int64_t event = rig.number("SELECT max(id) FROM events");
  const std::int64_t delivery = rig.number("SELECT max(id) FROM outbox");
  rig.exec("UPDATE outbox SET parked_at = 1, tries = 10");

  rig.advance(limits::kKeepRunsMs + 1);
  (void)rig.sweep->pass();
  CHECK(there(rig, run));  // a delivery of it is not out
  rig.advance(limits::kKeepDeliveriesMs - 2);
  (void)rig.sweep->pass();
  CHECK(there(rig, run));
  rig.advance(limits::kCheckMs);
  sweep_all(rig);
  CHECK_FALSE(there(rig, run));
  CHECK(rows_of(rig, run) == 0);
  CHECK(rig.number("SELECT count(*) FROM approvals_audit WHERE verdict = 'accepted' AND run_id = " + sql(run.value)) ==
        1);
  CHECK(rig.number("SELECT count(*) FROM outbox WHERE parked_at = 1 AND run_id IS NULL AND id = " + sql(delivery)) ==
        1);

  for (const bool again : {false, true}) {
    if (again) rig.restart();
    const RunId next = rig.start("flow");
    rig.drive();
    CHECK(next > run);
    CHECK(rig.journal(next).at(0).id.value > step);
    CHECK(rig.waits(next).at(0).id.value > wait);
    CHECK(rig.number("SELECT min(id) FROM events WHERE run_id = " + sql(next.value)) > event);
    CHECK(rig.number("SELECT max(id) FROM outbox") > delivery);
    rig.cancel(next);
    rig.advance(limits::kKeepRunsMs + limits::kKeepDeliveriesMs + limits::kCheckMs);
    sweep_all(rig);
    CHECK_FALSE(there(rig, next));  // the second time the file is opened without a row of it
  }
}

// Runs of every kind that must stay, though they be old.
struct Old {
  RunId live, paused, alive, origin, fork, parent, child;
};
Old make_old(Rig& rig) {
  Old old;
  old.live = rig.start("asks");
  old.paused = rig.start("asks");
  rig.drive();
  rig.exec("UPDATE runs SET paused_at = 1 WHERE id = " + sql(old.paused.value));
  old.alive = rig.start("flow");
  old.origin = rig.start("flow");
  old.parent = rig.start("calls");
  rig.drive();
  rig.exec("INSERT INTO processes (run_id, nonce, epoch, pid, pid_start, boot_id, status, started_at) VALUES (" +
           sql(old.alive.value) + ", 'n', 1, 1, 1, 'b', 'running', 0)");
  old.child = RunId(rig.number("SELECT max(id) FROM runs"));
  CHECK(rig.run(old.child).workflow_name == "fails");
  CHECK(rig.run(old.parent).status == RunStatus::waiting);
  return old;
}
void add_old(Rig& rig) {
  rig.add("flow", done);
  rig.add("asks", [](flow::Context& c) { return c.approval("go on?"); });
  rig.add("fails", [](flow::Context&) -> std::string { throw flow::Final("broken"); });
  rig.add("calls", [](flow::Context& c) {
    try {
      (void)c.call("fails");
    } catch (const flow::StepFailed&) {
    }
    return c.approval("what now?");
  });
}

TEST_CASE("[W9] what is live or still needed stays, and goes when it is no more") {
  Rig rig;
  rig.keep.emplace();
  add_old(rig);
  const Old old = make_old(rig);
  const RunId gone = rig.start("flow");
  rig.drive();
  rig.advance(limits::kKeepRunsMs + 1);
  const RunId young = rig.start("flow");
  rig.drive();
  RunId fork;
  (void)rig.commands->fork_run(old.origin, 0, false, Rig::person(), std::nullopt, [&](const auto& outcome) {
    fork = std::get<kernel::Forked>(outcome).run;
    return work::Answer{};
  });
  rig.drive();
  sweep_all(rig);
  CHECK_FALSE(there(rig, gone));
  for (const RunId run : {old.live, old.paused, old.alive, old.origin, old.parent, old.child, young, fork}) {
    INFO("run " << run.value);
    CHECK(there(rig, run));
  }
  CHECK(remove_run(rig, old.live) == "run_live");
  CHECK(remove_run(rig, old.alive) == "run_needed");
  CHECK(remove_run(rig, old.origin) == "run_needed");
  CHECK(remove_run(rig, old.child) == "run_needed");

  rig.exec("UPDATE processes SET status = 'stopped'");
  CHECK(remove_run(rig, fork) == "deleted");
  rig.cancel(old.parent);
  sweep_later(rig);
  CHECK_FALSE(there(rig, old.alive));
  CHECK_FALSE(there(rig, fork));
  CHECK_FALSE(there(rig, old.child));
  sweep_later(rig);  // the last of its forks has gone
  CHECK_FALSE(there(rig, old.origin));
  CHECK(there(rig, old.live));
  CHECK(there(rig, young));
  CHECK(rig.number("SELECT count(*) FROM pragma_foreign_key_check") == 0);
}

TEST_CASE("[W9] by count: the newest stay, exactly as many as were asked for") {
  Rig rig;
  rig.keep.emplace();
  rig.keep->rules.runs_most = 10;
  add_old(rig);
  const Old old = make_old(rig);
  std::vector<RunId> runs;
  for (int i = 0; i < 150; ++i) {
    runs.push_back(rig.start("flow"));
    rig.drive();
    if (i % 50 == 0) rig.advance(1'000);  // many end in one millisecond
  }
  sweep_later(rig);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    INFO("run " << i);
    CHECK(there(rig, runs[i]) == (i >= 140));
  }
  CHECK(there(rig, old.alive));  // beyond the count, and needed
  CHECK(there(rig, old.child));
  CHECK(there(rig, old.live));
  const auto commits = rig.store->health().commits;
  sweep_later(rig);
  CHECK(rig.store->health().commits == commits);  // W1
}

TEST_CASE("[W9] by size: the oldest go until the file is small enough, and what is live stays") {
  Rig rig;
  rig.keep.emplace();
  rig.keep->max_db_bytes = 4 << 20;
  add_old(rig);
  rig.add("large", [](flow::Context& c) {
    return c.step("fetch", Effect::pure, [](const flow::EffectInfo&) { return '"' + std::string(200'000, 'x') + '"'; });
  });
  const Old old = make_old(rig);
  std::vector<RunId> runs;
  for (int i = 0; i < 40; ++i) {
    runs.push_back(rig.start("large"));
    rig.drive();
    rig.advance(10);
  }
  sweep_later(rig);
  const auto first_kept = std::find_if(runs.begin(), runs.end(), [&](RunId run) { return there(rig, run); });
  CHECK(first_kept - runs.begin() >= 25);
  CHECK(runs.end() - first_kept >= 5);  // no more than is needed: each is about 400 KB
  CHECK(std::all_of(first_kept, runs.end(), [&](RunId run) { return there(rig, run); }));
  CHECK(there(rig, old.live));
  CHECK(there(rig, old.alive));
  const std::int64_t used = rig.number(
      "SELECT ((SELECT page_count FROM pragma_page_count) - (SELECT freelist_count FROM pragma_freelist_count)) * "
      "(SELECT page_size FROM pragma_page_size)");
  CHECK(used <= 4 << 20);
  CHECK(used >= 2 << 20);
}

TEST_CASE("[W9] answers of commands are remembered for a day, not longer") {
  Rig rig;
  rig.keep.emplace();
  rig.add("flow", done);
  (void)rig.start("flow");
  const auto add = [&](const std::string& key) {
    rig.store->write([&](db::Tx& tx) { kernel::store_answer(tx, {"ada", key, "f"}, 200, "{}", tx.now()); });
  };
  add("first");
  rig.advance(kDay / 2);
  add("second");
  rig.advance(kDay / 2 - 1);
  (void)rig.sweep->pass();
  CHECK(rig.number("SELECT count(*) FROM idempotency") == 2);
  rig.advance(limits::kRetentionSoonMs);
  (void)rig.sweep->pass();
  CHECK(rig.number("SELECT count(*) FROM idempotency WHERE key = 'second'") == 1);
  CHECK(rig.number("SELECT count(*) FROM idempotency") == 1);
}

TEST_CASE("[W9] a run that is deleted is gone at once, its key is free, its files and rows go after it") {
  Rig rig;
  rig.keep.emplace();
  rig.add("flow", [](flow::Context& c) {
    for (int i = 0; i < 30; ++i) c.step("add", Effect::pure, [](const flow::EffectInfo&) { return std::string("1"); });
    return std::string("null");
  });
  rig.start("flow");
  const auto start = [&] {
    RunId run;
    work::StartRequest request;
    request.workflow = "flow";
    request.key = "once";
    (void)rig.commands->start_run(request, Rig::person(), std::nullopt, [&](const kernel::StartOutcome& outcome) {
      const auto* made = std::get_if<kernel::RunStarted>(&outcome);
      run = made != nullptr ? made->run : std::get<kernel::RunExists>(outcome).run;
      return work::Answer{};
    });
    return run;
  };
  const RunId run = start();
  rig.drive();
  CHECK(start() == run);
  const fs::path data = rig.dir.str("data");
  const fs::path workspace = data / "workspaces" / sql(run.value);
  const fs::path outside = rig.dir.str("outside");
  put(outside / "precious");
  put(workspace / "a" / "b" / "c");
  fs::create_directory_symlink(outside, workspace / "link");
  fs::create_symlink(outside / "precious", workspace / "a" / "link");
  fs::permissions(workspace / "a" / "b", fs::perms::owner_read | fs::perms::owner_exec);
  put(workspace.string() + ".input.json");
  put(data / "logs" / (sql(run.value) + ".log"));
  put(data / "outcomes" / "nonce-1");
  put(data / "outcomes" / "nonce-2");
  put(data / "workspaces" / (sql(run.value) + "0") / "of another run");
  rig.exec(
      "INSERT INTO processes (run_id, step_id, nonce, epoch, pid, pid_start, boot_id, status, started_at) SELECT " +
      sql(run.value) + ", max(id), 'nonce-1', 1, 1, 1, 'b', 'stopped', 0 FROM steps");

  CHECK(remove_run(rig, run) == "deleted");
  CHECK(remove_run(rig, run) == "run_not_found");
  CHECK_FALSE(rig.store->read([&](db::ReadTx& tx) { return kernel::read_run(tx, run); }));
  const auto listed = rig.store->read([](db::ReadTx& tx) { return kernel::list_runs(tx, {}); });
  CHECK(listed.size() == 1);
  CHECK(there(rig, run));
  const RunId next = start();
  CHECK(next > run);
  CHECK(rig.sweep->until_next() == 0);
  (void)rig.sweep->pass();
  CHECK_FALSE(there(rig, run));
  CHECK(rows_of(rig, run) == 0);
  CHECK_FALSE(fs::exists(workspace));
  CHECK_FALSE(fs::exists(workspace.string() + ".input.json"));
  CHECK_FALSE(fs::exists(data / "logs" / (sql(run.value) + ".log")));
  CHECK_FALSE(fs::exists(data / "outcomes" / "nonce-1"));
  CHECK(fs::exists(data / "outcomes" / "nonce-2"));
  CHECK(fs::exists(data / "workspaces" / (sql(run.value) + "0") / "of another run"));
  CHECK(fs::exists(outside / "precious"));
}

TEST_CASE("[W9] a deletion that was cut off goes on after the restart, a batch has no more rows than it may") {
  Rig rig;
  rig.keep.emplace();
  rig.add("flow", [](flow::Context& c) {
    for (int i = 0; i < 300; ++i) c.step("add", Effect::pure, [](const flow::EffectInfo&) { return std::string("1"); });
    return std::string("null");
  });
  const RunId run = rig.start("flow");
  rig.drive();
  const std::int64_t all = rows_of(rig, run);
  CHECK(all > 300);
  const auto cut = rig.store->write([&](db::Tx& tx) {
    REQUIRE(kernel::mark_forgotten(tx, run, tx.now()));
    const std::int64_t before = db::Query(tx, "SELECT total_changes()").one().integer(0);
    const auto forgot = kernel::forget_rows(tx, run, 100);
    CHECK(forgot.rows == 100);
    CHECK(db::Query(tx, "SELECT total_changes()").one().integer(0) - before <= 102);  // and a mark [D2]
    return forgot;
  });
  CHECK_FALSE(cut.gone);
  CHECK(rows_of(rig, run) == all - 100);
  rig.restart();
  sweep_all(rig);
  CHECK_FALSE(there(rig, run));
  CHECK(rows_of(rig, run) == 0);
}

TEST_CASE("[N131] under load: batches, nothing kept that should go, nothing gone that should stay, the file shrinks") {
  Rig rig(Rig::Mode::threaded);
  rig.keep.emplace();
  add_old(rig);
  rig.add("steps", [](flow::Context& c) {
    const int steps = c.input() == "{}" ? 30 : 3'000;
    for (int i = 0; i < steps; ++i) {
      c.step("add", Effect::pure, [](const flow::EffectInfo&) { return '"' + std::string(2'000, 'x') + '"'; });
    }
    return std::string("null");
  });
  rig.add("work", [](flow::Context& c) {
    for (int i = 0; i < 30; ++i) c.step("add", Effect::pure, [](const flow::EffectInfo&) { return std::string("1"); });
    return std::string("null");
  });
  const Old old = make_old(rig);
  std::vector<RunId> gone;
  for (int i = 0; i < 150; ++i) gone.push_back(rig.start("steps"));
  gone.push_back(rig.start("steps", R"({"long":true})"));
  while (rig.drive() > 0) {
  }
  const std::int64_t rows = rig.number("SELECT (SELECT count(*) FROM steps) + (SELECT count(*) FROM events)");
  const std::int64_t size =
      rig.number("SELECT (SELECT page_count FROM pragma_page_count) * (SELECT page_size FROM pragma_page_size)");
  rig.advance(limits::kKeepRunsMs + 1);

  rig.executor->start();
  rig.sweep->start();
  std::atomic<bool> stop{false};
  std::atomic<int> ended{0};
  std::vector<RunId> young;
  std::jthread load([&] {
    while (!stop && young.size() < 100) {
      const RunId run = rig.start("work");
      young.push_back(run);
      if (test::holds_within(std::chrono::seconds(20), [&] { return kernel::terminal(rig.run(run).status); })) ++ended;
    }
  });
  const std::string among =
      "SELECT count(*) FROM runs WHERE id BETWEEN " + sql(gone.front().value) + " AND " + sql(gone.back().value);
  const auto left = [&] { return rig.number(among); };
  const auto before = rig.store->health();
  test::eventually(
      [&] {
        rig.advance(limits::kRetentionAgainMs);  // the fake clock does not pass by itself
        return left() == 0;
      },
      [&] { return sql(left()) + " runs are left"; }, std::chrono::seconds(60));
  const std::int64_t pages = rig.number("SELECT page_count FROM pragma_page_count");
  test::eventually(
      [&] {
        rig.advance(limits::kRetentionAgainMs);
        return rig.number(
                   "SELECT (SELECT freelist_count FROM pragma_freelist_count) * 4 < (SELECT page_count FROM "
                   "pragma_page_count)") == 1;
      },
      "the free pages are given back", std::chrono::seconds(60));
  stop = true;
  load.join();
  rig.sweep->stop();
  rig.executor->stop();
  CHECK(ended >= 2);  // others were driven meanwhile
  CHECK(rig.store->health().commits - before.commits >= static_cast<std::uint64_t>(rows / limits::kRetentionBatch));
  for (const RunId run : gone) CHECK(rows_of(rig, run) == 0);
  for (const RunId run : {old.live, old.paused, old.alive, old.parent, old.child}) CHECK(there(rig, run));
  for (const RunId run : young) {
    CHECK(there(rig, run));
    CHECK(rig.journal(run).size() == 30);
  }
  CHECK(rig.number("SELECT page_count FROM pragma_page_count") < pages);
  const auto file = fs::path(rig.dir.str("data")) / "bide.db";
  rig.store->close();
  CHECK(static_cast<std::int64_t>(fs::file_size(file)) < size / 2);
  CHECK(rig.number("SELECT count(*) FROM pragma_foreign_key_check") == 0);
}

}  // namespace
}  // namespace bide
