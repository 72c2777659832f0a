#include "agent/kernel/processes.h"

#include "agent/base/limits.h"

namespace bide::kernel {

ProcessId add_process(db::Tx& tx, const Fence& fence, const ProcessRow& row, TimeMs now) {
  if (!holds(tx, fence)) return {};
  db::Query(tx,
            "INSERT INTO processes (run_id, step_id, nonce, epoch, pid, pid_start, boot_id, status, started_at) "
            "VALUES (?,?,?,?,?,?,?,'running',?)")
      .bind(fence.run, row.step, row.nonce, fence.epoch, row.pid, row.pid_start, row.boot_id, now)
      .run();
  return ProcessId(tx.last_insert_id());
}

bool mark_stopped(db::Tx& tx, ProcessId process, std::optional<int> exit_code, TimeMs now) {
  const int changed =
      db::Query(
          tx,
          "UPDATE processes SET status = 'stopped', exit_code = coalesce(?2, exit_code), stopped_at = ?3 WHERE id = "
          "?1 AND status <> 'stopped'")
          .bind(process, exit_code, now)
          .run();
  if (changed == 0) return false;
  db::Query(tx,
            "UPDATE runs SET reason = NULL WHERE id = (SELECT run_id FROM processes WHERE id = ?) AND reason = "
            "'previous_attempt_alive'")
      .bind(process)
      .run();
  return true;
}

#define BIDE_PROCESS_COLUMNS                                                                                          \
  "p.id, p.run_id, p.step_id, p.nonce, p.epoch, p.pid, p.pid_start, p.boot_id, p.started_at, p.status = 'stopping', " \
  "coalesce((SELECT s.status = 'started' AND s.nonce = p.nonce AND r.finished_at IS NULL FROM steps s JOIN runs r "   \
  "ON r.id = s.run_id WHERE s.id = p.step_id), 0), p.exit_code IS NOT NULL FROM processes p INDEXED BY "              \
  "processes_live "

namespace {

ProcessRow read_process_row(db::Query& q) {
  ProcessRow row;
  row.id = ProcessId(q.integer(0));
  row.run = RunId(q.integer(1));
  if (!q.null(2)) row.step = StepId(q.integer(2));
  row.nonce = q.text(3);
  row.epoch = q.integer(4);
  row.pid = q.integer(5);
  row.pid_start = q.integer(6);
  row.boot_id = q.text(7);
  row.started_at = q.integer(8);
  row.stopping = q.integer(9) != 0;
  row.holds = q.integer(10) != 0;
  row.handed_in = q.integer(11) != 0;
  return row;
}

}  // namespace

std::vector<ProcessRow> live_processes(db::ReadTx& tx, ProcessId after, int limit) {
  std::vector<ProcessRow> rows;
  // By the index of live rows, so that those of old runs cost nothing: its order is (run_id, id).
  db::Query q(tx, "SELECT " BIDE_PROCESS_COLUMNS
                  "WHERE p.status <> 'stopped' AND (p.run_id, p.id) > (coalesce((SELECT run_id FROM processes WHERE id "
                  "= ?1), 0), ?1) ORDER BY p.run_id, p.id LIMIT ?2");
  q.bind(after, limit);
  while (q.next()) rows.push_back(read_process_row(q));
  return rows;
}

std::vector<ProcessRow> live_holders(db::ReadTx& tx, RunId run) {
  std::vector<ProcessRow> rows;
  db::Query q(tx, "SELECT " BIDE_PROCESS_COLUMNS
                  "WHERE p.run_id = ? AND p.status <> 'stopped' AND p.step_id IS NOT NULL ORDER BY p.id");
  q.bind(run);
  while (q.next()) rows.push_back(read_process_row(q));
  return rows;
}

void retire_holders(db::Tx& tx, RunId run) {
  db::Query(tx,
            "UPDATE processes INDEXED BY processes_live SET status = 'stopping' WHERE run_id = ?1 AND status = "
            "'running' AND status <> 'stopped' "
            "AND step_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.id = processes.step_id AND s.status "
            "= 'started' AND s.nonce = processes.nonce)")
      .bind(run)
      .run();
}

bool previous_alive_due(db::ReadTx& tx, TimeMs now) {
  db::Query q(
      tx,
      "SELECT 1 FROM runs WHERE status = 'queued' AND run_at <= ?1 AND reason IS NULL AND id IN "
      "(SELECT run_id FROM processes WHERE status <> 'stopped' AND (step_id IS NULL OR status = 'stopping')) LIMIT 1");
  return q.bind(now - limits::kPreviousAliveMs).next();
}

int mark_previous_alive(db::Tx& tx, TimeMs now) {
  return db::Query(tx,
                   "UPDATE runs SET reason = 'previous_attempt_alive' WHERE status = 'queued' AND run_at <= ?1 AND "
                   "reason IS NULL AND id IN (SELECT run_id FROM processes WHERE status <> 'stopped' AND (step_id IS "
                   "NULL OR status = 'stopping'))")
      .bind(now - limits::kPreviousAliveMs)
      .run();
}

}  // namespace bide::kernel
