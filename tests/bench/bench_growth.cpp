// Growth: what a start, a claim and a pass of the sweep cost in a file with 1 000 000 ended and 100 000 sleeping runs,
// beside the same in a file with a thousandth of them [K1, W4, W5]. The whole agent (Service) is what starts.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "agent/base/clock.h"
#include "agent/base/doorbell.h"
#include "agent/base/log.h"
#include "agent/base/random.h"
#include "agent/flow/registry.h"
#include "agent/kernel/workflows.h"
#include "agent/service.h"
#include "agent/work/executor.h"
#include "agent/work/sweep.h"
#include "db/store.h"
#include "tests/bench/bench.h"

namespace bide::bench {
namespace {

constexpr int kChunk = 50'000;  // rows a transaction
constexpr int kDue = 20;        // runs that are due when the agent starts
constexpr int kClaims = 200;
constexpr int kPasses = 50;

struct Size {
  int ended;
  int sleeping;
};

struct Seen {
  double ready = 0;      // seconds from nothing to an open door
  double first_due = 0;  // from there until the code of a due run was entered
  double memory = 0;     // MB that the process grew by
  double first_pass = 0;
  double pass = 0;   // seconds, the median
  double claim = 0;  // from the start's commit until the code was entered, the median
};

double resident_mb() {
  std::ifstream statm("/proc/self/statm");
  double size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

// A workflow that only notes that it was entered.
flow::Registry registry(std::atomic<int>& entered, Doorbell& bell) {
  flow::Registry all;
  flow::NativeWorkflow due;
  due.name = "due";
  due.version = "1";
  due.run = [&](flow::Context&) {
    ++entered;
    bell.ring();
    return std::string("null");
  };
  all.add(std::move(due));
  return all;
}

void until(std::atomic<int>& entered, Doorbell& bell, int count) {
  while (entered.load() < count) bell.wait_for(std::chrono::milliseconds(100));
}

// The rows as runs leave them: an ended one with a step and three events, a sleeping one with its timer.
void fill(db::Store& store, kernel::VersionRow version, Size size) {
  const auto rows = [&](int count, db::Sql sql) {
    for (int done = 0; done < count; done += kChunk) {
      const int from = done + 1, to = std::min(done + kChunk, count);
      store.write([&](db::Tx& tx) { db::Query(tx, sql).bind(from, to, version.workflow, version.id, tx.now()).run(); });
    }
  };
  rows(size.ended,
       "WITH RECURSIVE n (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2) "
       "INSERT INTO runs (id, uid, workflow_id, workflow_version_id, created_by, status, run_at, epoch, input, result, "
       "created_at, started_at, finished_at) "
       "SELECT i, 'ended-' || i, ?3, ?4, 'bench', 'completed', ?5 - i, 1, '{}', 'null', ?5 - i, ?5 - i, ?5 - i FROM n");
  rows(size.ended,
       "WITH RECURSIVE n (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2) "
       "INSERT INTO steps (id, run_id, position, seq, kind, name, effect, status, settled_no, request, request_hash, "
       "result, created_at, updated_at) "
       "SELECT i, i, '/1', 1, 'step', 'work', 'idempotent', 'completed', 1, 'null', x'00', 'null', ?5 - i, ?5 - i "
       "FROM n WHERE ?3 = ?3 AND ?4 = ?4");
  rows(size.ended,
       "WITH RECURSIVE n (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2) "
       "INSERT INTO events (id, at, kind, run_id) "
       "SELECT (i - 1) * 3 + k, ?5 - i, kind, i FROM n, (SELECT 1 AS k, 'run.created' AS kind UNION ALL "
       "SELECT 2, 'step.completed' UNION ALL SELECT 3, 'run.completed') WHERE ?3 = ?3 AND ?4 = ?4");
  const int base = size.ended;
  const auto sleepers = [&](db::Sql sql) {
    for (int done = 0; done < size.sleeping; done += kChunk) {
      const int from = base + done + 1, to = base + std::min(done + kChunk, size.sleeping);
      store.write([&](db::Tx& tx) { db::Query(tx, sql).bind(from, to, version.workflow, version.id, tx.now()).run(); });
    }
  };
  sleepers(
      "WITH RECURSIVE n (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2) "
      "INSERT INTO runs (id, uid, workflow_id, workflow_version_id, created_by, status, run_at, epoch, input, "
      "created_at, started_at) "
      "SELECT i, 'asleep-' || i, ?3, ?4, 'bench', 'queued', ?5 + 86400000 + i, 1, '{}', ?5, ?5 FROM n");
  sleepers(
      "WITH RECURSIVE n (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2) "
      "INSERT INTO steps (id, run_id, position, seq, kind, name, effect, status, request, request_hash, created_at, "
      "updated_at) "
      "SELECT i, i, '/1', 1, 'timer', 'timer', 'pure', 'started', 'null', x'00', ?5, ?5 FROM n "
      "WHERE ?3 = ?3 AND ?4 = ?4");
  sleepers(
      "WITH RECURSIVE n (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2) "
      "INSERT INTO waits (id, run_id, step_id, kind, name, status, payload, digest, resolve_by, created_at) "
      "SELECT i, i, i, 'timer', 'timer', 'pending', '{}', x'00', ?5 + 86400000 + i, ?5 FROM n "
      "WHERE ?3 = ?3 AND ?4 = ?4");
}

void start_run(db::Store& store, Random& random, const kernel::VersionRow& version,
               const std::function<void(db::Tx&)>& more = {}) {
  kernel::StartRun run;
  run.workflow = version.workflow;
  run.version = version.id;
  run.uid = random.uid();
  run.created_by = "bench";
  store.write([&](db::Tx& tx) {
    (void)kernel::start_run(tx, run, tx.now());
    if (more) more(tx);
  });
}

Seen measure(const Options& options, Size size) {
  const std::string directory = options.directory + "/bide-bench-growth.tmp";
  std::filesystem::remove_all(directory);
  SystemClock clock;
  SystemRandom random;
  std::atomic<int> entered{0};
  Doorbell bell;
  Seen seen;
  {
    db::Store store({.directory = directory, .durability = db::Durability::relaxed}, clock);
    const flow::Registry workflows = registry(entered, bell);
    work::Executor executor(store, random, workflows, {});
    executor.register_workflows();
    const auto id = store.read([](db::ReadTx& tx) { return kernel::find_version(tx, "due", "1").value(); });
    const auto version = store.read([&](db::ReadTx& tx) { return kernel::read_version(tx, id).value(); });
    fill(store, version, size);
  }
  {
    // Opened anew: the writer counts ids by itself, and has not seen those of the rows [D2].
    db::Store store({.directory = directory, .durability = db::Durability::relaxed}, clock);
    const auto id = store.read([](db::ReadTx& tx) { return kernel::find_version(tx, "due", "1").value(); });
    const auto version = store.read([&](db::ReadTx& tx) { return kernel::read_version(tx, id).value(); });
    for (int i = 0; i < kDue; ++i) start_run(store, random, version);
  }
  {
    const double memory = resident_mb();
    const double begin = now_seconds();
    Config config;
    config.data_dir = directory;
    config.workflows_dir = directory + "/workflows";
    config.socket = directory + "/s";
    config.workers = 4;
    config.inline_sleep = 1000;
    std::filesystem::create_directories(config.workflows_dir);
    Service service(config, registry(entered, bell));
    service.start();
    seen.ready = now_seconds() - begin;
    until(entered, bell, 1);
    seen.first_due = now_seconds() - begin - seen.ready;
    until(entered, bell, kDue);
    seen.memory = resident_mb() - memory;
    (void)service.stop();
  }
  db::Store store({.directory = directory}, clock);
  const flow::Registry workflows = registry(entered, bell);
  work::Executor executor(store, random, workflows, {.workers = 1});
  work::Sweep sweep(store, executor);
  executor.register_workflows();
  executor.start();
  std::vector<double> passes, claims;
  for (int i = 0; i <= kPasses; ++i) {
    const double begin = now_seconds();
    (void)sweep.pass();
    (i == 0 ? seen.first_pass : passes.emplace_back()) = now_seconds() - begin;
  }
  const auto id = store.read([](db::ReadTx& tx) { return kernel::find_version(tx, "due", "1").value(); });
  const auto version = store.read([&](db::ReadTx& tx) { return kernel::read_version(tx, id).value(); });
  for (int i = 0; i < kClaims; ++i) {
    const int before = entered.load();
    std::atomic<double> committed{0};
    start_run(store, random, version, [&](db::Tx& tx) {
      tx.after_commit([&] {
        committed = now_seconds();
        executor.ring();
      });
    });
    until(entered, bell, before + 1);
    claims.push_back(now_seconds() - committed.load());
  }
  executor.stop();
  store.close();
  std::filesystem::remove_all(directory);
  seen.pass = median(passes);
  seen.claim = median(claims);
  return seen;
}

}  // namespace

Report growth_benchmark(const Options& options) {
  log::set_level(log::Level::error);
  const Size many{options.ended, options.ended / 10};
  const Seen few = measure(options, {many.ended / 1000, many.sleeping / 1000});
  const Seen full = measure(options, many);
  Report report;
  report.title = "growth: " + std::to_string(many.ended) + " ended and " + std::to_string(many.sleeping) +
                 " sleeping runs, beside a thousandth of them";
  report.figures = {
      {"pass of the sweep, many / few", full.pass / few.pass, "", "< 2"},
      {"claim, many / few", full.claim / few.claim, "", "< 2"},
      {"ready after", full.ready, "s", "< 2"},
      {"first due run entered after that", full.first_due, "s", "< 1"},
      {"memory of the agent", full.memory, "MB", "< 64 more than with few"},
      {"memory with few", few.memory, "MB", ""},
      {"ready with few", few.ready, "s", ""},
      {"first pass (all checks), many", full.first_pass * 1e3, "ms", ""},
      {"first pass (all checks), few", few.first_pass * 1e3, "ms", ""},
      {"pass, many", full.pass * 1e6, "us", ""},
      {"pass, few", few.pass * 1e6, "us", ""},
      {"claim, many", full.claim * 1e6, "us", ""},
      {"claim, few", few.claim * 1e6, "us", ""},
  };
  return report;
}

}  // namespace bide::bench
