#include "db/batch.h"

#include "agent/base/limits.h"
#include "agent/base/log.h"
#include "agent/base/planted.h"

namespace bide::db {
namespace {

// The batch cannot go on: thrown between run_job and run.
struct BatchDead {};
// A job threw in a batch without savepoints.
struct RunAgain {};

}  // namespace

BatchRunner::BatchRunner(Connection& connection, Clock& clock, StoreClock& store_clock)
    : connection_(connection), clock_(clock), store_clock_(store_clock) {
  data_version_ = connection_.pragma("PRAGMA data_version");
}

BatchRunner::End BatchRunner::run(const std::vector<Job*>& jobs) {
  const IdCounters::Values ids = scope_.counters.values();
  try {
    // A savepoint costs a copy of each page that its job is the first to touch, and hardly a job throws. A job alone
    // never needs one: its transaction is one.
    return run(jobs, jobs.size() == 1 ? Each::alone : Each::bare);
  } catch (const RunAgain&) {
  }
  connection_.rollback();
  scope_.counters.give_back(ids);
  return run(jobs, Each::savepoint);
}

BatchRunner::End BatchRunner::run(const std::vector<Job*>& jobs, Each each) {
  scope_.bells.clear();
  why_ = {};
  connection_.forget_trouble();
  const IdCounters::Values ids = scope_.counters.values();
  try {
    connection_.begin_immediate();
    look_for_foreign_writer();
    const TimeMs now = store_clock_.now();
    const std::int64_t changes = connection_.changes();
    for (Job* job : jobs) run_job(*job, now, each);
    if (connection_.autocommit()) return End::committed;  // the only job failed and rolled everything back
    if (connection_.changes() != changes) write_clock_mark(now);
    if (BIDE_PLANTED(commit_forgotten) && now % 7 == 0) {
      connection_.rollback();
      return End::committed;
    }
    connection_.commit();
    return End::committed;
  } catch (const RunAgain&) {
    throw;
  } catch (const BatchDead&) {
  } catch (...) {
    why_ = ErrorValue::current();
  }
  connection_.rollback();
  scope_.counters.give_back(ids);
  scope_.bells.clear();
  marked_at_.reset();
  const End end = end_of_failure();
  for (Job* job : jobs) job->error = why_;
  return end;
}

void BatchRunner::run_job(Job& job, TimeMs now, Each each) {
  const IdCounters::Values ids = scope_.counters.values();
  const std::size_t bells = scope_.bells.size();
  job.error = {};
  if (each == Each::savepoint) connection_.mark();
  try {
    Tx tx(connection_, scope_, now);
    (*job.work)(tx);
  } catch (...) {
    job.error = ErrorValue::current();
  }
  // A storage error is the batch's, also when the job swallowed it; and after one SQLite may have rolled back
  // everything by itself.
  if (connection_.trouble() != Trouble::none || connection_.autocommit()) {
    why_ = job.error ? job.error : ErrorValue{ErrorValue::Kind::bug, "a job ended the transaction of its batch"};
    throw BatchDead();
  }
  if (!job.error) {
    if (each == Each::savepoint) connection_.keep();
    return;
  }
  if (each == Each::bare) throw RunAgain();
  scope_.counters.give_back(ids);
  scope_.bells.resize(bells);
  if (each == Each::alone) {
    connection_.rollback();
  } else {
    connection_.undo();
  }
}

BatchRunner::End BatchRunner::probe() {
  connection_.forget_trouble();
  why_ = {};
  try {
    connection_.begin_immediate();
    ReadTx tx(connection_);
    Query(tx,
          "INSERT INTO meta (key, value) VALUES ('storage_probe', ?) ON CONFLICT (key) DO UPDATE SET value = "
          "excluded.value")
        .bind(store_clock_.now())
        .run();
    connection_.commit();
    return End::committed;
  } catch (...) {
    why_ = ErrorValue::current();
  }
  connection_.rollback();
  return end_of_failure();
}

BatchRunner::End BatchRunner::end_of_failure() {
  if (connection_.trouble() == Trouble::io) return End::fatal;
  if (connection_.trouble() == Trouble::full) return End::full;
  return End::refused;
}

void BatchRunner::look_for_foreign_writer() {
  const std::int64_t version = connection_.pragma("PRAGMA data_version");
  if (version == data_version_) return;
  data_version_ = version;
  scope_.counters.load(connection_);  // it may have taken ids that we were about to give
  if (!foreign_writer_seen_) {
    log::warn("store.foreign_writer", {{"hint", "another program wrote to bide.db: open it with -readonly only"}});
  }
  foreign_writer_seen_ = true;
}

void BatchRunner::write_clock_mark(TimeMs now) {
  const BootMs boot = clock_.boot_ms();
  if (marked_at_ && boot - *marked_at_ < limits::kClockMarkMs) return;
  ReadTx tx(connection_);
  if (!has_table(tx, "meta")) return;
  Query(tx,
        "INSERT INTO meta (key, value) VALUES ('clock_mark', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value")
      .bind(now)
      .run();
  marked_at_ = boot;
}

}  // namespace bide::db
