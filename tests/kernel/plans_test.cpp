// What picks work is a seek, and costs the same with many sleeping and ended runs as with few [K1, W4, N105].
// The statements are those that the kernel prepared on the connection: no list of SQL is kept here.
#include <sqlite3.h>
#include <catch2/catch.hpp>

#include <functional>
#include <map>
#include <set>

#include "agent/kernel/events.h"
#include "agent/kernel/outbox.h"
#include "agent/kernel/processes.h"
#include "agent/kernel/retention.h"
#include "agent/kernel/task_push.h"
#include "agent/kernel/tasks.h"
#include "db/connection.h"
#include "tests/kernel/kernel_fixture.h"

using namespace bide;
using namespace bide::kernel;
using bide::test::KernelFixture;

namespace {

template <class Visit>
void each_statement(sqlite3* db, const Visit& visit) {
  for (sqlite3_stmt* s = sqlite3_next_stmt(db, nullptr); s != nullptr; s = sqlite3_next_stmt(db, s)) visit(s);
}

std::vector<std::string> plan_of(sqlite3* db, const std::string& sql) {
  std::vector<std::string> lines;
  sqlite3_stmt* s = nullptr;
  REQUIRE(sqlite3_prepare_v2(db, ("EXPLAIN QUERY PLAN " + sql).c_str(), -1, &s, nullptr) == SQLITE_OK);
  while (sqlite3_step(s) == SQLITE_ROW) lines.emplace_back(reinterpret_cast<const char*>(sqlite3_column_text(s, 3)));
  sqlite3_finalize(s);
  return lines;
}

struct Picker {
  const char* name;
  std::function<void(KernelFixture&, db::Tx&)> run;
};

const std::vector<Picker>& pickers() {
  static const std::vector<Picker> all = {
      {"queued_versions", [](KernelFixture&, db::Tx& tx) { (void)queued_versions(tx); }},
      {"claim_next", [](KernelFixture& f, db::Tx& tx) { (void)claim_next(tx, f.rules(), tx.now()); }},
      {"mark_unknown",
       [](KernelFixture& f, db::Tx& tx) {
         ClaimRules rules = f.rules();
         rules.known = [](VersionId) { return VersionId(); };
         (void)mark_unknown(
             tx, rules, [](WorkflowId) { return true; }, 0);
       }},
      {"running_page", [](KernelFixture&, db::Tx& tx) { (void)running_page(tx, RunId(7), 100); }},
      {"live_holders", [](KernelFixture&, db::Tx& tx) { (void)live_holders(tx, RunId(1)); }},
      {"retire_holders", [](KernelFixture&, db::Tx& tx) { retire_holders(tx, RunId(1)); }},
      {"relay_tasks", [](KernelFixture&, db::Tx& tx) { (void)relay_tasks(tx, 100, tx.now()); }},
      {"expiry_due", [](KernelFixture&, db::Tx& tx) { (void)expiry_due(tx, tx.now()); }},
      {"previous_alive_due", [](KernelFixture&, db::Tx& tx) { (void)previous_alive_due(tx, tx.now()); }},
      {"reminder_due", [](KernelFixture&, db::Tx& tx) { (void)reminder_due(tx, tx.now()); }},
      {"remind_waits", [](KernelFixture&, db::Tx& tx) { (void)remind_waits(tx, 100, tx.now()); }},
      {"expire_waits", [](KernelFixture&, db::Tx& tx) { (void)expire_waits(tx, 100, tx.now()); }},
      {"next_due", [](KernelFixture&, db::Tx& tx) { (void)next_due(tx); }},
      {"due_redrives", [](KernelFixture&, db::Tx& tx) { (void)due_redrives(tx, 100, tx.now()); }},
      {"push_due", [](KernelFixture&, db::Tx& tx) { (void)push_due(tx, tx.now()); }},
      {"next_push", [](KernelFixture&, db::Tx& tx) { (void)next_push(tx); }},
      {"lapse_due", [](KernelFixture&, db::Tx& tx) { (void)lapse_due(tx, tx.now()); }},
      {"relay_due", [](KernelFixture&, db::Tx& tx) { (void)relay_due(tx, tx.now()); }},
      {"live_processes", [](KernelFixture&, db::Tx& tx) { (void)live_processes(tx, ProcessId(7), 100); }},
      {"live_holders", [](KernelFixture&, db::Tx& tx) { (void)live_holders(tx, RunId(7)); }},
      {"retire_holders", [](KernelFixture&, db::Tx& tx) { retire_holders(tx, RunId(7)); }},
      {"mark_previous_alive", [](KernelFixture&, db::Tx& tx) { (void)mark_previous_alive(tx, tx.now()); }},
      {"inbox",
       [](KernelFixture&, db::Tx& tx) {
         WaitFilter filter;
         filter.status = WaitStatus::pending;
         filter.inbox_only = true;
         (void)list_waits(tx, filter);
       }},
      {"due_deliveries", [](KernelFixture&, db::Tx& tx) { (void)due_deliveries(tx, {}, "[\"a\"]", 100, tx.now()); }},
      {"next_delivery_due", [](KernelFixture&, db::Tx& tx) { (void)next_delivery_due(tx); }},
      {"count_parked", [](KernelFixture&, db::Tx& tx) { (void)count_parked(tx); }},
      {"lost_wakes", [](KernelFixture&, db::Tx& tx) { (void)lost_wakes(tx, 100, tx.now()); }},
      {"due_wakes", [](KernelFixture&, db::Tx& tx) { (void)due_wakes(tx, 100, tx.now()); }},
      {"claim_due", [](KernelFixture& f, db::Tx& tx) { (void)claim_due(tx, f.rules(), tx.now()); }},
      {"next_run_due_after", [](KernelFixture&, db::Tx& tx) { (void)next_run_due_after(tx, tx.now()); }},
      {"last_event", [](KernelFixture&, db::Tx& tx) { (void)last_event(tx); }},
      {"records_due", [](KernelFixture&, db::Tx& tx) { (void)records_due(tx, {}, tx.now()); }},
      {"next_forget", [](KernelFixture&, db::Tx& tx) { (void)next_forget(tx, {}, tx.now()); }},
      {"forget_records", [](KernelFixture&, db::Tx& tx) { (void)forget_records(tx, {}, 0, 500); }},
      {"forgettable",
       [](KernelFixture&, db::Tx& tx) {
         (void)forgettable(tx, {}, {tx.now() - 1'000, RunId()}, 0, 100, tx.now());
       }},
      {"forgotten_runs", [](KernelFixture&, db::Tx& tx) { (void)forgotten_runs(tx, RunId(), 100); }},
  };
  return all;
}

// Sleeping runs (queued for tomorrow), waiting ones, ended ones with a stopped process each, and a busy priority apart.
void fill(KernelFixture& f, int each) {
  const VersionId second = f.make_version("second");
  f.store->write([&](db::Tx& tx) {
    for (int i = 0; i < each; ++i) {
      const RunId sleeping = KernelFixture::run_in(tx, RunStatus::queued, i % 2 == 0 ? f.version : second);
      db::Query(tx, "UPDATE runs SET run_at = run_at + 86400000 WHERE id = ?").bind(sleeping).run();
      const RunId waiting = KernelFixture::run_in(tx, RunStatus::waiting, f.version);
      const StepId step = KernelFixture::step_in(tx, waiting, StepStatus::started, StepKind::signal, Effect::pure);
      db::Query(tx,
                "INSERT INTO waits (id, run_id, step_id, kind, name, status, payload, digest, resolve_by, created_at) "
                "VALUES (?1, ?2, ?3, 'signal', 's', 'pending', '{}', x'00', ?4, 0)")
          .bind(tx.next_id(db::Counter::waits), waiting, step, tx.now() + 86'400'000)
          .run();
      const RunId ended = KernelFixture::run_in(tx, RunStatus::completed, f.version);
      (void)KernelFixture::step_in(tx, ended, StepStatus::completed, StepKind::step, Effect::pure);
      NewDelivery row;
      row.destination = "http://a.example/";
      row.request = "{}";
      row.idem_key = "k" + std::to_string(ended.value);
      const DeliveryId delivery = write_delivery(tx, row, tx.now());
      db::Query(tx, "UPDATE outbox SET tries = 1, next_try_at = next_try_at + 86400000 WHERE id = ?")
          .bind(delivery)
          .run();
      db::Query(tx,
                "INSERT INTO processes (run_id, nonce, epoch, pid, pid_start, boot_id, status, started_at, stopped_at) "
                "VALUES (?1, 'n' || ?1, 1, 1, 1, 'b', 'stopped', 0, 0)")
          .bind(ended)
          .run();
    }
    const RunId urgent = KernelFixture::run_in(tx, RunStatus::queued, f.version);
    db::Query(tx, "UPDATE runs SET priority = 5, run_at = run_at + 86400000 WHERE id = ?").bind(urgent).run();
    // A run of many commands: each left the row of its holder.
    const RunId busy = KernelFixture::run_in(tx, RunStatus::queued, f.version);
    for (int i = 0; i < each; ++i) {
      db::Query(tx,
                "INSERT INTO processes (run_id, nonce, epoch, pid, pid_start, boot_id, status, started_at, stopped_at) "
                "VALUES (?1, 'b' || ?2, 1, 1, 1, 'b', 'stopped', 0, 0)")
          .bind(busy, i)
          .run();
    }
    const RunId orphan = KernelFixture::run_in(tx, RunStatus::running, f.version);
    db::Query(tx,
              "INSERT INTO processes (run_id, nonce, epoch, pid, pid_start, boot_id, status, started_at) "
              "VALUES (?1, 'live', 1, 1, 1, 'b', 'running', 0)")
        .bind(orphan)
        .run();
  });
  // No ANALYZE: an agent never runs it, and plans must not need it.
}

// Steps of SQLite's machine that each statement took since the last call, summed.
std::int64_t machine_steps(sqlite3* db) {
  std::int64_t sum = 0;
  each_statement(db, [&](sqlite3_stmt* s) { sum += sqlite3_stmt_status(s, SQLITE_STMTSTATUS_VM_STEP, 1); });
  return sum;
}

std::map<std::string, std::int64_t> costs(int each) {
  KernelFixture f;
  fill(f, each);
  std::map<std::string, std::int64_t> cost;
  for (const Picker& picker : pickers()) {
    f.store->write([&](db::Tx& tx) {
      (void)machine_steps(tx.connection().handle());
      picker.run(f, tx);
      cost[picker.name] = machine_steps(tx.connection().handle());
    });
  }
  return cost;
}

}  // namespace

TEST_CASE("[N105] every query that picks work is a seek") {
  KernelFixture f;
  fill(f, 20);
  std::set<std::string> before;
  f.store->write([&](db::Tx& tx) {
    each_statement(tx.connection().handle(), [&](sqlite3_stmt* s) { before.insert(sqlite3_sql(s)); });
  });
  int seen = 0;
  for (const Picker& picker : pickers()) {
    f.store->write([&](db::Tx& tx) {
      sqlite3* db = tx.connection().handle();
      picker.run(f, tx);
      std::set<std::string> statements;
      each_statement(db, [&](sqlite3_stmt* s) {
        if (!before.contains(sqlite3_sql(s))) statements.insert(sqlite3_sql(s));
      });
      for (const std::string& sql : statements) {
        for (const std::string& line : plan_of(db, sql)) {
          CAPTURE(picker.name, sql, line);
          // The partial index of live processes holds the processes of driven attempts only.
          const bool live_processes = line == "SCAN processes USING INDEX processes_live";
          // Lists that are parameters, and the rows that an operator must act on.
          const bool list =
              line.starts_with("SCAN json_each") || line.starts_with("SCAN outbox USING COVERING INDEX outbox_parked");
          CHECK((line.find("SCAN") == std::string::npos || line.starts_with("SCALAR") || live_processes || list));
          // Tasks that nobody has offered are few, and are sorted by their runs.
          const bool few = std::string(picker.name) == "relay_tasks";
          CHECK((few || line.find("TEMP B-TREE") == std::string::npos));
          CHECK(line.find("runs_version ") == std::string::npos);  // would read the ended runs too
          CHECK(line.find("processes_run ") == std::string::npos);
        }
        before.insert(sql);
        ++seen;
      }
    });
  }
  CHECK(seen >= 15);  // a floor: the kernel's statements were looked at
}

TEST_CASE("[N105] what picks work costs the same among many runs as among few") {
  const auto few = costs(50);
  const auto many = costs(2'000);
  for (const auto& [name, cost] : many) {
    CAPTURE(name, few.at(name), cost);
    if (name == "inbox" || name == "mark_unknown") continue;  // give back or mark what they look at
    CHECK(cost <= few.at(name) + 20);
  }
}
