#include "agent/kernel/steps.h"

#include <map>

#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/planted.h"
#include "agent/kernel/events.h"
#include "agent/kernel/evidence.h"

namespace bide::kernel {
namespace {

#define BIDE_STEP_COLUMNS                                                                                          \
  "id, position, seq, kind, name, effect, status, executions, nonce, caller_hash, failures, retries, not_before, " \
  "request, request_hash, assume, epoch, result, error, created_at, updated_at, usage, copied_from, "              \
  "(SELECT o.uid FROM steps c JOIN runs o ON o.id = c.run_id WHERE c.id = steps.copied_from) FROM steps "

StepRow read_row(db::Query& q) {
  StepRow row;
  row.id = StepId(q.integer(0));
  row.position = q.text(1);
  row.seq = q.integer(2);
  row.kind = step_kind_from(q.text(3)).value();
  row.name = q.text(4);
  row.effect = effect_from(q.text(5)).value();
  row.status = step_status_from(q.text(6)).value();
  row.executions = q.integer(7);
  row.nonce = q.maybe_text(8);
  if (!q.null(9)) row.caller_hash = q.blob(9);
  row.failures = q.integer(10);
  row.retries = q.integer(11);
  row.not_before = q.maybe_integer(12);
  row.request = q.maybe_text(13).value_or("null");
  row.request_hash = q.blob(14);
  row.assume = q.maybe_text(15);
  row.epoch = q.integer(16);
  row.result = q.maybe_text(17);
  row.error = q.maybe_text(18);
  row.created_at = q.integer(19);
  row.updated_at = q.integer(20);
  row.usage = q.maybe_text(21);
  row.copied_from = q.maybe_integer(22);
  row.key_uid = q.maybe_text(23);
  return row;
}

std::optional<db::Blob> maybe_blob(const std::string& bytes) {
  return bytes.empty() ? std::nullopt : std::optional(db::Blob{bytes});
}

// Makes the row in the given state; result is absent for an intent.
void insert_step(db::Tx& tx, const Fence& fence, StepId id, const StepIntent& intent, StepStatus status,
                 std::optional<std::string_view> result, std::optional<EventId> settled, TimeMs now,
                 const std::optional<std::string>& usage = std::nullopt) {
  std::optional<std::string_view> nonce;
  if (!intent.nonce.empty()) nonce = intent.nonce;
  db::Query(
      tx,
      "INSERT INTO steps (id, run_id, position, seq, kind, name, effect, status, nonce, caller_hash, retries, request, "
      "request_hash, compensate, assume, epoch, result, settled_no, created_at, updated_at, usage) "
      "VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?19,?20)")
      .bind(id, fence.run, intent.position, intent.seq, intent.kind, intent.name, intent.effect, status, nonce,
            maybe_blob(intent.caller_hash), intent.retries, intent.request, db::Blob{intent.request_hash},
            intent.compensate, intent.assume, fence.epoch, result, settled, now, usage)
      .run();
}

StepId new_step_id(db::Tx& tx) { return StepId(tx.next_id(db::Counter::steps)); }

// holds(), and what stands on the run: marks that progress takes away, a new entry or a settled step [K6, W5]; a
// cancel.
struct Held {
  bool lease = false;
  bool marked = false;
  bool cancel = false;
};
Held held(db::ReadTx& tx, const Fence& fence) {
  db::Query q(tx, BIDE_PLANTED(epoch_unchecked)
                      ? db::Sql("SELECT recoveries > 0 OR redrive_at IS NOT NULL, cancel_requested_at IS NOT NULL FROM "
                                "runs WHERE id = ?1 AND status = 'running' AND ?2 >= 0 AND owner = ?3")
                      : db::Sql("SELECT recoveries > 0 OR redrive_at IS NOT NULL, cancel_requested_at IS NOT NULL FROM "
                                "runs WHERE id = ? AND status = 'running' AND epoch = ? AND owner = ?"));
  q.bind(fence.run, fence.epoch, fence.owner);
  if (!q.next()) return {BIDE_PLANTED(late_outcome_written), false, false};
  return {true, q.integer(0) != 0, q.integer(1) != 0};
}

StepId find_position(db::ReadTx& tx, RunId run, std::string_view position) {
  db::Query q(tx, "SELECT id FROM steps WHERE run_id = ? AND position = ?");
  q.bind(run, position);
  return q.next() ? StepId(q.integer(0)) : StepId();
}

std::string step_event(const StepIntent& intent, std::optional<std::string_view> error = std::nullopt) {
  json::Writer w;
  w.begin_object().member("name", intent.name).member("kind", std::string(to_text(intent.kind)));
  if (error) w.member_raw("error", *error);
  return w.end_object().take();
}

}  // namespace

void reset_recoveries_of(db::Tx& tx, RunId run) {
  db::Query(tx, "UPDATE runs SET recoveries = 0, redrive_at = NULL, redrive_delay = NULL WHERE id = ?").bind(run).run();
}

std::vector<StepRow> load_journal(db::ReadTx& tx, RunId run) {
  std::vector<StepRow> rows;
  db::Query q(tx, "SELECT " BIDE_STEP_COLUMNS "WHERE run_id = ? ORDER BY seq, id");
  q.bind(run);
  while (q.next()) rows.push_back(read_row(q));
  return rows;
}

std::vector<StepRow> journal_page(db::ReadTx& tx, RunId run, std::int64_t after_seq, int limit) {
  std::vector<StepRow> rows;
  db::Query q(tx, "SELECT " BIDE_STEP_COLUMNS "WHERE run_id = ? AND seq > ? ORDER BY seq, id LIMIT ?");
  q.bind(run, after_seq, limit);
  while (q.next()) rows.push_back(read_row(q));
  return rows;
}

std::vector<std::pair<std::string, std::string>> run_state(db::ReadTx& tx, RunId run) {
  std::map<std::string, std::string> latest;
  db::Query q(
      tx,
      "SELECT json_extract(request, '$.state'), result FROM steps WHERE run_id = ? AND kind = 'value' AND "
      "status = 'completed' AND request <> 'null' AND json_extract(request, '$.state') IS NOT NULL ORDER BY id");
  q.bind(run);
  while (q.next()) latest[q.text(0)] = q.text(1);
  return {latest.begin(), latest.end()};
}

std::optional<StepRow> read_step(db::ReadTx& tx, StepId step) {
  db::Query q(tx, "SELECT " BIDE_STEP_COLUMNS "WHERE id = ?");
  q.bind(step);
  if (!q.next()) return std::nullopt;
  return read_row(q);
}

std::string idempotency_key(std::string_view run_uid, std::string_view position, std::string_view name,
                            std::string_view request_hash) {
  std::string text;
  for (const auto part : {run_uid, position, name, request_hash}) {
    text += std::to_string(part.size());
    text.push_back(':');
    text.append(part);
  }
  return to_hex(sha256(text)).substr(0, 32);
}

IntentOutcome write_intent(db::Tx& tx, const Fence& fence, const StepIntent& intent, bool reset_recoveries,
                           TimeMs now) {
  if (!holds(tx, fence)) return LeaseLost{};
  if (reset_recoveries) reset_recoveries_of(tx, fence.run);
  const StepId id = new_step_id(tx);
  insert_step(tx, fence, id, intent, StepStatus::started, std::nullopt, std::nullopt, now);
  return id;
}

IntentOutcome record_value(db::Tx& tx, const Fence& fence, const StepIntent& intent, std::string_view result,
                           bool reset_recoveries, TimeMs now) {
  if (!holds(tx, fence)) return LeaseLost{};
  if (reset_recoveries) reset_recoveries_of(tx, fence.run);
  const StepId id = new_step_id(tx);
  insert_step(tx, fence, id, intent, StepStatus::completed, result, std::nullopt, now);
  if (const auto state = json::string_member(intent.request, "state")) {  // J10: readers see each change, in order
    json::Writer w;
    w.begin_object().member("name", *state).member_raw("value", result).end_object();
    append_event(tx, now, "run.state", fence.run, id, w.text());
  }
  return id;
}

RecordOutcome complete_step(db::Tx& tx, const Fence& fence, const Completion& done, TimeMs now) {
  const Held on = held(tx, fence);
  if (!on.lease) {
    keep_late_outcome(tx, fence.run, done.known, fence.epoch, done.intent.name, {done.result}, now);
    return LateOutcome{};
  }
  if (on.marked) reset_recoveries_of(tx, fence.run);
  const StepId there = done.known.valid() ? done.known : find_position(tx, fence.run, done.intent.position);
  const StepId id = there.valid() ? there : new_step_id(tx);
  if (there.valid()) {
    write_completed(tx, fence.run, there, done, now);
  } else {
    const EventId event = append_event(tx, now, "step.completed", fence.run, id, step_event(done.intent));
    insert_step(tx, fence, id, done.intent, StepStatus::completed, done.result, event, now, done.usage);
  }
  return Recorded{id, on.cancel};
}

void write_completed(db::Tx& tx, RunId run, StepId step, const Completion& done, TimeMs now) {
  const EventId event = append_event(tx, now, "step.completed", run, step, step_event(done.intent));
  const int changed =
      db::Query(tx,
                "UPDATE steps SET status = 'completed', result = ?2, error = NULL, usage = ?3, settled_no = ?4, "
                "updated_at = ?5 WHERE id = ?1 AND status = 'started'")
          .bind(step, done.result, done.usage, event, now)
          .run();
  if (changed != 1) throw Bug("write_completed: the step was not started");
}

RecordOutcome fail_step(db::Tx& tx, const Fence& fence, const Failure& failure, TimeMs now) {
  const Held on = held(tx, fence);
  if (!on.lease) {
    keep_late_outcome(tx, fence.run, failure.known, fence.epoch, failure.intent.name, {failure.error, true}, now);
    return LateOutcome{};
  }
  StepId id = failure.known.valid() ? failure.known : find_position(tx, fence.run, failure.intent.position);
  const bool progress = !id.valid() || !failure.retry_at;  // a failed attempt with retries left is none
  if (progress && on.marked) reset_recoveries_of(tx, fence.run);
  if (!id.valid()) {
    id = new_step_id(tx);
    insert_step(tx, fence, id, failure.intent, StepStatus::started, std::nullopt, std::nullopt, now);
  }
  write_failed(tx, fence.run, id, failure, now);
  return Recorded{id, on.cancel};
}

void write_failed(db::Tx& tx, RunId run, StepId step, const Failure& failure, TimeMs now) {
  const bool again = failure.retry_at.has_value();
  const EventId event = append_event(tx, now, again ? "step.attempt_failed" : "step.failed", run, step,
                                     step_event(failure.intent, failure.error));
  const int changed = db::Query(tx,
                                "UPDATE steps SET status = ?2, error = ?3, failures = failures + ?4, not_before = ?5, "
                                "settled_no = ?6, updated_at = ?7 WHERE id = ?1 AND status = 'started'")
                          .bind(step, again ? StepStatus::pending : StepStatus::failed, failure.error,
                                failure.counts && !BIDE_PLANTED(failures_forgotten) ? 1 : 0, failure.retry_at,
                                again ? std::nullopt : std::optional(event), now)
                          .run();
  if (changed != 1) throw Bug("write_failed: the step was not started");
}

void fail_overdue(db::Tx& tx, const Fence& fence, const Failure& failure, TimeMs now) {
  const StepId id = failure.known.valid() ? failure.known : find_position(tx, fence.run, failure.intent.position);
  if (id.valid() && read_step(tx, id)->status != StepStatus::started) return;
  (void)fail_step(tx, fence, failure, now);
}

bool start_again(db::Tx& tx, const Fence& fence, StepId step, std::string_view nonce, TimeMs now) {
  if (!holds(tx, fence)) return false;
  const int changed =
      db::Query(
          tx,
          "UPDATE steps SET status = 'started', executions = executions + 1, nonce = ?2, epoch = ?3, "
          "not_before = NULL, updated_at = ?4 WHERE id = ?1 AND status IN ('pending','started','needs_reconcile')")
          .bind(step, nonce, fence.epoch, now)
          .run();
  if (changed != 1) throw Bug("start_again: the step was settled");
  return true;
}

bool settle_step(db::Tx& tx, const Fence& fence, StepId step, std::string_view result, TimeMs now) {
  const Held on = held(tx, fence);
  if (!on.lease) return false;
  if (on.marked) reset_recoveries_of(tx, fence.run);
  const EventId event = append_event(tx, now, "step.completed", fence.run, step);
  const int changed =
      db::Query(tx,
                "UPDATE steps SET status = 'completed', result = ?2, error = NULL, settled_no = ?3, updated_at = ?4 "
                "WHERE id = ?1 AND status IN ('pending','started','needs_reconcile')")
          .bind(step, result, event, now)
          .run();
  if (changed != 1) throw Bug("settle_step: the step was settled already");
  return true;
}

}  // namespace bide::kernel
