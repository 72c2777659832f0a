// Native runs of ten no-op steps through the whole agent below HTTP: start, claim, ten durable steps, finish. The bare
// loop writes the same rows into a file of the same schema, one thread and the C interface, as many jobs a commit as
// the agent had on average.
#include <sqlite3.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/doorbell.h"
#include "agent/base/hash.h"
#include "agent/base/random.h"
#include "agent/flow/registry.h"
#include "agent/kernel/workflows.h"
#include "agent/work/executor.h"
#include "db/connection.h"
#include "db/store.h"
#include "tests/bench/bench.h"

namespace bide::bench {
namespace {

constexpr int kSteps = 10;
const std::string kResult = "{\"text\":\"" + std::string(188, 'r') + "\"}";

struct Turn {
  double steps_per_second = 0;
  double batch = 1;
  double cpu_us = 0;  // of all threads, a step
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string fresh(const Options& options) {
  std::string directory = options.directory + "/bide-bench-runs.tmp";
  std::filesystem::remove_all(directory);
  return directory;
}

// `concurrency` runs are kept going: when one ends the next is started.
Turn agent_turn(const Options& options, int concurrency) {
  SystemClock clock;
  SystemRandom random;
  db::Store store({.directory = fresh(options)}, clock);
  flow::Registry registry;
  std::atomic<std::int64_t> ended{0};
  std::atomic<bool> stop{false};
  Doorbell done;
  std::function<void()> start;
  flow::NativeWorkflow noop;
  noop.name = "noop";
  noop.version = "1";
  noop.run = [&](flow::Context& c) {
    for (int i = 0; i < kSteps; ++i) {
      c.step("noop", kernel::Effect::idempotent, [](const flow::EffectInfo&) { return kResult; });
    }
    ended.fetch_add(1, std::memory_order_relaxed);
    if (!stop.load(std::memory_order_relaxed)) start();
    return std::string("null");
  };
  registry.add(std::move(noop));
  work::ExecutorOptions executor_options;
  executor_options.workers = concurrency;
  work::Executor executor(store, random, registry, executor_options);
  executor.register_workflows();
  const auto version = store.read([](db::ReadTx& tx) { return kernel::find_version(tx, "noop", "1").value(); });
  const auto workflow = store.read([&](db::ReadTx& tx) { return kernel::read_version(tx, version)->workflow; });
  start = [&] {
    kernel::StartRun run;
    run.workflow = workflow;
    run.version = version;
    run.uid = random.uid();
    run.created_by = "bench";
    store.submit(
        [run, &executor](db::Tx& tx) {
          (void)kernel::start_run(tx, run, tx.now());
          tx.after_commit([&executor] { executor.ring(); });
        },
        {});
  };
  for (int i = 0; i < concurrency; ++i) start();
  const db::StoreHealth before = store.health();
  const double begin = now_seconds();
  const double cpu = cpu_seconds();
  executor.start();
  std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
  const double took = now_seconds() - begin;
  const auto runs = static_cast<double>(ended.load());
  const double cpu_took = cpu_seconds() - cpu;
  const db::StoreHealth after = store.health();
  stop = true;
  executor.stop();
  store.close();
  Turn turn;
  turn.steps_per_second = runs * kSteps / took;
  turn.cpu_us = cpu_took * 1e6 / std::max(runs * kSteps, 1.0);
  turn.batch = static_cast<double>(after.jobs - before.jobs) /
               static_cast<double>(std::max<std::uint64_t>(after.commits - before.commits, 1));
  return turn;
}

class BareFile {
 public:
  explicit BareFile(const std::string& directory)
      : connection_({.path = make(directory), .access = db::Access::write, .vfs = {}}) {}
  sqlite3_stmt* prepare(const char* sql) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v3(connection_.handle(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr) !=
        SQLITE_OK) {
      throw std::runtime_error(sqlite3_errmsg(connection_.handle()));
    }
    return statement;
  }
  template <class... Args>
  void run(sqlite3_stmt* statement, const Args&... args) {
    int index = 0;
    (bind(statement, ++index, args), ...);
    if (sqlite3_step(statement) != SQLITE_DONE) throw std::runtime_error(sqlite3_errmsg(connection_.handle()));
    sqlite3_reset(statement);
  }
  void checkpoint() {
    sqlite3_wal_checkpoint_v2(connection_.handle(), "main", SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  }

 private:
  static void bind(sqlite3_stmt* s, int i, std::int64_t v) { sqlite3_bind_int64(s, i, v); }
  static void bind(sqlite3_stmt* s, int i, const std::string& v) {
    sqlite3_bind_text(s, i, v.data(), static_cast<int>(v.size()), SQLITE_STATIC);
  }
  static void bind(sqlite3_stmt* s, int i, db::Blob v) {
    sqlite3_bind_blob(s, i, v.bytes.data(), static_cast<int>(v.bytes.size()), SQLITE_STATIC);
  }
  // A file of the agent's own schema.
  static std::string make(const std::string& directory) {
    SystemClock clock;
    db::Store store({.directory = directory, .threaded = false}, clock);
    store.write([](db::Tx& tx) {
      const WorkflowId w = kernel::ensure_workflow(tx, "noop");
      (void)kernel::ensure_version(tx, w, "1", kernel::WorkflowKind::native, "{}", tx.now());
    });
    return directory + "/bide.db";
  }
  db::Connection connection_;
};

Turn bare_turn(const Options& options, int concurrency, int batch) {
  SystemClock clock;
  SystemRandom random;
  BareFile file(fresh(options));
  auto* begin = file.prepare("BEGIN IMMEDIATE");
  auto* commit = file.prepare("COMMIT");
  auto* event = file.prepare("INSERT INTO events (id, at, kind, run_id, step_id, payload) VALUES (?,?,?,?,?,?)");
  auto* create = file.prepare(
      "INSERT INTO runs (id, uid, workflow_id, workflow_version_id, created_by, status, run_at, input, created_at) "
      "VALUES (?,?,1,1,'bench','queued',?,'{}',?)");
  auto* claim = file.prepare(
      "UPDATE runs SET status = 'running', epoch = epoch + 1, owner = 'bench', started_at = ? WHERE id = ? AND status "
      "= 'queued'");
  auto* step = file.prepare(
      "INSERT INTO steps (id, run_id, position, seq, kind, name, effect, status, nonce, retries, request, "
      "request_hash, epoch, "
      "result, settled_no, created_at, updated_at) VALUES "
      "(?,?,?,?,'step','noop','idempotent','completed',?,5,'null',?,1,?,?,?,?)");
  auto* finish = file.prepare(
      "UPDATE runs SET status = 'completed', owner = NULL, result = 'null', finished_at = ? WHERE id = ? AND status = "
      "'running'");
  const std::string hash = sha256("null");
  const std::string created = R"({"by":"bench"})";
  const std::string claimed = R"({"epoch":1})";
  const std::string settled = R"({"name":"noop","kind":"step"})";
  const std::string empty = "{}";
  struct Run {
    std::int64_t id = 0;
    int at = 0;  // 0 create, 1 claim, 2 … 11 steps, 12 finish
    std::string uid;
  };
  std::vector<Run> runs(static_cast<std::size_t>(concurrency));
  std::int64_t last_run = 0, last_step = 0, last_event = 0, steps = 0;
  std::size_t turn_of = 0;
  const auto job = [&] {
    Run& run = runs[turn_of++ % runs.size()];
    const TimeMs now = clock.wall_ms();
    if (run.at == 0) {
      run.id = ++last_run;
      run.uid = random.uid();
      file.run(create, run.id, run.uid, now, now);
      file.run(event, ++last_event, now, std::string("run.created"), run.id, std::int64_t{0}, created);
    } else if (run.at == 1) {
      file.run(claim, now, run.id);
      file.run(event, ++last_event, now, std::string("run.claimed"), run.id, std::int64_t{0}, claimed);
    } else if (run.at < 2 + kSteps) {
      const std::string position = "/" + std::to_string(run.at - 1);
      const std::int64_t id = ++last_step;
      file.run(event, ++last_event, now, std::string("step.completed"), run.id, id, settled);
      file.run(step, id, run.id, position, std::int64_t{run.at - 1}, run.uid, db::Blob{hash}, kResult, last_event, now,
               now);
      ++steps;
    } else {
      file.run(finish, now, run.id);
      file.run(event, ++last_event, now, std::string("run.completed"), run.id, std::int64_t{0}, empty);
      run.at = -1;
    }
    ++run.at;
  };
  const double start = now_seconds();
  const double cpu = cpu_seconds();
  double now = start;
  for (int commits = 1; now - start < options.seconds; ++commits) {
    file.run(begin);
    for (int i = 0; i < batch; ++i) job();
    file.run(commit);
    if (commits % 64 == 0) file.checkpoint();
    now = now_seconds();
  }
  for (auto* s : {begin, commit, event, create, claim, step, finish}) sqlite3_finalize(s);
  return {static_cast<double>(steps) / (now - start), static_cast<double>(batch),
          (cpu_seconds() - cpu) * 1e6 / static_cast<double>(std::max<std::int64_t>(steps, 1))};
}

double median_of(const std::vector<Turn>& turns, double Turn::*member) {
  std::vector<double> values;
  for (const Turn& turn : turns) values.push_back(turn.*member);
  return median(values);
}

}  // namespace

Report runs_benchmark(const Options& options) {
  Report report{"Native runs of 10 no-op steps against a bare SQLite loop of the same rows (synchronous=FULL)", {}};
  for (const int concurrency : options.producers) {
    std::vector<Turn> agent;
    std::vector<Turn> bare;
    std::vector<Turn> ideal;
    for (int round = 0; round < options.rounds; ++round) {
      agent.push_back(agent_turn(options, concurrency));
      bare.push_back(bare_turn(options, concurrency, std::max(1, static_cast<int>(std::lround(agent.back().batch)))));
      ideal.push_back(bare_turn(options, concurrency, concurrency == 16 ? 8 : concurrency));
    }
    const std::string at = " at " + std::to_string(concurrency);
    const double rate = median_of(agent, &Turn::steps_per_second);
    report.figures.push_back({"agent / bare, same batch size" + at, rate / median_of(bare, &Turn::steps_per_second),
                              "x", concurrency == 1 ? ">= 0.80" : ">= 0.75"});
    report.figures.push_back(
        {"agent / bare, batches of 1, 8, 64, 256" + at, rate / median_of(ideal, &Turn::steps_per_second), "x", ""});
    report.figures.push_back({"agent" + at, rate, "steps/s", ""});
    report.figures.push_back({"bare, same batch size" + at, median_of(bare, &Turn::steps_per_second), "steps/s", ""});
    report.figures.push_back(
        {"bare, batches of 1, 8, 64, 256" + at, median_of(ideal, &Turn::steps_per_second), "steps/s", ""});
    report.figures.push_back({"agent, CPU a step" + at, median_of(agent, &Turn::cpu_us), "us", ""});
    report.figures.push_back({"bare, CPU a step" + at, median_of(bare, &Turn::cpu_us), "us", ""});
    report.figures.push_back({"agent, jobs a commit" + at, median_of(agent, &Turn::batch), "jobs", ""});
  }
  std::filesystem::remove_all(options.directory + "/bide-bench-runs.tmp");
  return report;
}

}  // namespace bide::bench
