// A job is a step as the kernel writes one: the row with its outcome, and the event. Both sides run the same
// statements with the same settings; the bare loop commits as many jobs at once as the store did on average.
#include <sqlite3.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/clock.h"
#include "db/connection.h"
#include "db/store.h"
#include "tests/bench/bench.h"

namespace bide::bench {
namespace {

constexpr std::array<EmbeddedFile, 1> kSchema{{{
    "0001_bench.sql",
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;\n"
    "CREATE TABLE steps (id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL, position TEXT NOT NULL, seq INTEGER NOT "
    "NULL,\n"
    "  name TEXT NOT NULL, status TEXT NOT NULL, request_hash BLOB NOT NULL, result TEXT, created_at INTEGER NOT "
    "NULL,\n"
    "  updated_at INTEGER NOT NULL, UNIQUE (run_id, position)) STRICT;\n"
    "CREATE TABLE events (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, run_id INTEGER,\n"
    "  step_id INTEGER, payload TEXT NOT NULL DEFAULT '{}') STRICT;\n"
    "CREATE INDEX events_run ON events (run_id, id) WHERE run_id IS NOT NULL;\n",
}}};

#define BIDE_BENCH_INTENT                                                                                     \
  "INSERT INTO steps (id, run_id, position, seq, name, status, request_hash, created_at, updated_at) VALUES " \
  "(?, ?, ?, ?, 'step', 'started', ?, ?, ?)"
#define BIDE_BENCH_OUTCOME \
  "UPDATE steps SET status = 'completed', result = ?, updated_at = ? WHERE id = ? AND status = 'started'"
#define BIDE_BENCH_EVENT "INSERT INTO events (id, at, kind, run_id, step_id) VALUES (?, ?, 'step.completed', ?, ?)"

const std::string kResult = "{\"text\":\"" + std::string(188, 'r') + "\"}";
const std::string kHash(32, 'h');

struct Turn {
  double jobs_per_second = 0;
  double batch = 1;
  double bytes_per_job = 0;
  double cpu_us_per_job = 0;  // of the thread that runs the SQL: what counts when the disk is not the limit
  double p50_ms = 0;
  double p999_ms = 0;
};

std::uint64_t file_bytes_written() {  // write_bytes of /proc/self/io would need a device; wchar counts the calls
  std::uint64_t bytes = 0;
  if (FILE* f = std::fopen("/proc/self/io", "r"); f != nullptr) {
    char line[128];
    while (std::fgets(line, sizeof line, f) != nullptr) {
      unsigned long long value = 0;
      if (std::sscanf(line, "wchar: %llu", &value) == 1) bytes = value;
    }
    std::fclose(f);
  }
  return bytes;
}

double thread_cpu_seconds() {
  timespec ts{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
  return static_cast<double>(ts.tv_sec) + static_cast<double>(ts.tv_nsec) / 1e9;
}

void fill(Turn& turn, std::vector<float>& latencies) {
  if (latencies.empty()) return;
  std::sort(latencies.begin(), latencies.end());
  turn.p50_ms = latencies[latencies.size() / 2];
  turn.p999_ms = latencies[latencies.size() * 999 / 1000];
}

std::string fresh(const Options& options) {
  std::string directory = options.directory + "/bide-bench.tmp";
  std::filesystem::remove_all(directory);
  return directory;
}

// `producers` threads, each a run whose steps come one after another.
Turn store_turn(const Options& options, int producers) {
  SystemClock clock;
  db::Store store({.directory = fresh(options), .migrations = kSchema}, clock);
  std::atomic<bool> stop{false};
  std::vector<std::vector<float>> latencies(static_cast<std::size_t>(producers));
  const db::StoreHealth before = store.health();
  const double cpu = store.write([](db::Tx&) { return thread_cpu_seconds(); });
  const std::uint64_t bytes = file_bytes_written();
  const double begin = now_seconds();
  {
    std::vector<std::jthread> threads;
    for (int p = 0; p < producers; ++p) {
      threads.emplace_back([&, p] {
        auto& mine = latencies[static_cast<std::size_t>(p)];
        std::string position;
        for (std::int64_t n = 1; !stop.load(std::memory_order_relaxed); ++n) {
          position = "/" + std::to_string(n);
          const double start = now_seconds();
          store.write([&](db::Tx& tx) {
            const std::int64_t id = tx.next_id(db::Counter::steps);
            db::Query(tx, BIDE_BENCH_INTENT).bind(id, p + 1, position, n, db::Blob{kHash}, tx.now(), tx.now()).run();
            db::Query(tx, BIDE_BENCH_OUTCOME).bind(kResult, tx.now(), id).run();
            db::Query(tx, BIDE_BENCH_EVENT).bind(tx.next_id(db::Counter::events), tx.now(), p + 1, id).run();
          });
          mine.push_back(static_cast<float>((now_seconds() - start) * 1000));
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(options.seconds));
    stop = true;
  }
  const double took = now_seconds() - begin;
  const db::StoreHealth after = store.health();
  const auto jobs = static_cast<double>(after.jobs - before.jobs);
  Turn turn;
  turn.jobs_per_second = jobs / took;
  turn.cpu_us_per_job = (store.write([](db::Tx&) { return thread_cpu_seconds(); }) - cpu) * 1e6 / jobs;
  turn.batch = jobs / static_cast<double>(std::max<std::uint64_t>(after.commits - before.commits, 1));
  turn.bytes_per_job = static_cast<double>(file_bytes_written() - bytes) / jobs;
  std::vector<float> all;
  for (const auto& some : latencies) all.insert(all.end(), some.begin(), some.end());
  fill(turn, all);
  return turn;
}

// One thread and the C interface alone.
class Bare {
 public:
  explicit Bare(const std::string& directory, int page_size = 2048)
      : connection_({.path = (std::filesystem::create_directory(directory), directory + "/bide.db"),
                     .access = db::Access::write,
                     .vfs = {},
                     .page_size = page_size}) {
    connection_.exec(std::string(kSchema[0].bytes).c_str());
    for (auto [sql, statement] :
         {std::pair{"BEGIN IMMEDIATE", &begin_}, std::pair{"COMMIT", &commit_}, std::pair{BIDE_BENCH_INTENT, &intent_},
          std::pair{BIDE_BENCH_OUTCOME, &outcome_}, std::pair{BIDE_BENCH_EVENT, &event_}}) {
      if (sqlite3_prepare_v3(connection_.handle(), sql, -1, SQLITE_PREPARE_PERSISTENT, statement, nullptr) !=
          SQLITE_OK) {
        throw std::runtime_error(sqlite3_errmsg(connection_.handle()));
      }
    }
  }
  void begin() { step(begin_); }
  void commit() { step(commit_); }
  void job(std::int64_t id, std::int64_t run, std::int64_t n, std::int64_t now) {
    const std::string position = "/" + std::to_string(n);
    int i = 0;
    for (const std::int64_t value : {id, run}) sqlite3_bind_int64(intent_, ++i, value);
    sqlite3_bind_text(intent_, ++i, position.data(), static_cast<int>(position.size()), SQLITE_STATIC);
    sqlite3_bind_int64(intent_, ++i, n);
    sqlite3_bind_blob(intent_, ++i, kHash.data(), static_cast<int>(kHash.size()), SQLITE_STATIC);
    for (const std::int64_t value : {now, now}) sqlite3_bind_int64(intent_, ++i, value);
    step(intent_);
    sqlite3_bind_text(outcome_, 1, kResult.data(), static_cast<int>(kResult.size()), SQLITE_STATIC);
    sqlite3_bind_int64(outcome_, 2, now);
    sqlite3_bind_int64(outcome_, 3, id);
    step(outcome_);
    i = 0;
    for (const std::int64_t value : {id, now, run, id}) sqlite3_bind_int64(event_, ++i, value);
    step(event_);
  }
  void checkpoint_if_large() {
    if (++commits_ % 16 != 0) return;
    std::error_code ignored;
    if (std::filesystem::file_size(path() + "-wal", ignored) < (8U << 20)) return;
    sqlite3_wal_checkpoint_v2(connection_.handle(), "main", SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  }

 private:
  std::string path() { return sqlite3_db_filename(connection_.handle(), "main"); }
  void step(sqlite3_stmt* statement) {
    if (sqlite3_step(statement) != SQLITE_DONE) throw std::runtime_error(sqlite3_errmsg(connection_.handle()));
    sqlite3_reset(statement);
  }
  db::Connection connection_;
  sqlite3_stmt* begin_ = nullptr;
  sqlite3_stmt* commit_ = nullptr;
  sqlite3_stmt* intent_ = nullptr;
  sqlite3_stmt* outcome_ = nullptr;
  sqlite3_stmt* event_ = nullptr;
  std::uint64_t commits_ = 0;
};

Turn bare_turn(const Options& options, int producers, int batch, int page_size = 2048) {
  SystemClock clock;
  Bare bare(fresh(options), page_size);
  std::vector<float> latencies;
  std::int64_t jobs = 0;
  const double cpu = thread_cpu_seconds();
  const std::uint64_t bytes = file_bytes_written();
  const double begin = now_seconds();
  double now = begin;
  while (now - begin < options.seconds) {
    const double start = now;
    bare.begin();
    for (int i = 0; i < batch; ++i, ++jobs)
      bare.job(jobs + 1, jobs % producers + 1, jobs / producers + 1, clock.wall_ms());
    bare.commit();
    now = now_seconds();
    latencies.push_back(static_cast<float>((now - start) * 1000));
    bare.checkpoint_if_large();
    now = now_seconds();
  }
  Turn turn;
  turn.jobs_per_second = static_cast<double>(jobs) / (now - begin);
  turn.cpu_us_per_job = (thread_cpu_seconds() - cpu) * 1e6 / static_cast<double>(jobs);
  turn.batch = batch;
  turn.bytes_per_job = static_cast<double>(file_bytes_written() - bytes) / static_cast<double>(jobs);
  fill(turn, latencies);
  return turn;
}

double median_of(const std::vector<Turn>& turns, double Turn::*member) {
  std::vector<double> values;
  for (const Turn& turn : turns) values.push_back(turn.*member);
  return median(values);
}

}  // namespace

Report store_benchmark(const Options& options) {
  Report report{"Store against a bare SQLite loop (intent, outcome and event in one transaction, synchronous=FULL)",
                {}};
  for (const int producers : options.producers) {
    std::vector<Turn> store;
    std::vector<Turn> bare;
    std::vector<Turn> ideal;
    for (int round = 0; round < options.rounds; ++round) {
      store.push_back(store_turn(options, producers));
      bare.push_back(bare_turn(options, producers, std::max(1, static_cast<int>(std::lround(store.back().batch)))));
      ideal.push_back(bare_turn(options, producers, producers == 16 ? 8 : producers));
    }
    const std::string at = " at " + std::to_string(producers);
    const double rate = median_of(store, &Turn::jobs_per_second);
    const auto add = [&](const std::string& name, double value, const char* unit, const char* goal = "") {
      report.figures.push_back({name + at, value, unit, goal});
    };
    add("store / bare, same batch size", rate / median_of(bare, &Turn::jobs_per_second), "x",
        producers == 1 ? ">= 0.80" : ">= 0.75");
    add("store / bare, batches of 1, 8, 64, 256", rate / median_of(ideal, &Turn::jobs_per_second), "x");
    add("store", rate, "jobs/s");
    add("bare, same batch size", median_of(bare, &Turn::jobs_per_second), "jobs/s");
    add("bare, batches of 1, 8, 64, 256", median_of(ideal, &Turn::jobs_per_second), "jobs/s");
    add("store, jobs a commit", median_of(store, &Turn::batch), "jobs");
    add("bare CPU / writer's CPU a job, same batch size",
        median_of(bare, &Turn::cpu_us_per_job) / median_of(store, &Turn::cpu_us_per_job), "x");
    add("store, the writer's CPU a job", median_of(store, &Turn::cpu_us_per_job), "us");
    add("bare, CPU a job", median_of(bare, &Turn::cpu_us_per_job), "us");
    add("store, bytes written a job", median_of(store, &Turn::bytes_per_job), "bytes");
    add("bare, bytes written a job", median_of(bare, &Turn::bytes_per_job), "bytes");
    add("store, p50 of a write", median_of(store, &Turn::p50_ms), "ms");
    add("store, p99.9 of a write", median_of(store, &Turn::p999_ms), "ms");
    add("bare, p50 of a commit", median_of(bare, &Turn::p50_ms), "ms");
  }
  std::filesystem::remove_all(options.directory + "/bide-bench.tmp");
  return report;
}

Report page_benchmark(const Options& options) {
  Report report{"Page sizes: the bare loop", {}};
  for (const int batch : {1, 8, 64}) {
    for (const int page_size : {1024, 2048, 4096, 8192}) {
      std::vector<Turn> turns;
      for (int round = 0; round < options.rounds; ++round) turns.push_back(bare_turn(options, batch, batch, page_size));
      const std::string at = " of " + std::to_string(page_size) + ", batches of " + std::to_string(batch);
      report.figures.push_back({"bytes a job, pages" + at, median_of(turns, &Turn::bytes_per_job), "bytes", ""});
      report.figures.push_back({"CPU a job, pages" + at, median_of(turns, &Turn::cpu_us_per_job), "us", ""});
      report.figures.push_back({"jobs, pages" + at, median_of(turns, &Turn::jobs_per_second), "jobs/s", ""});
    }
  }
  std::filesystem::remove_all(options.directory + "/bide-bench.tmp");
  return report;
}

}  // namespace bide::bench
