#include "agent/kernel/holders.h"

#include "agent/kernel/evidence.h"
#include "agent/kernel/steps.h"

namespace bide::kernel {
namespace {

struct Held {
  RunId run;
  StepId step;
  std::int64_t epoch = 0;
  bool handed_in = false;
  bool live = false;
};

std::optional<Held> find(db::ReadTx& tx, std::string_view nonce) {
  db::Query q(tx,
              "SELECT p.run_id, p.step_id, p.epoch, p.exit_code IS NOT NULL, r.finished_at IS NULL FROM processes p "
              "JOIN runs r ON r.id = p.run_id WHERE p.nonce = ? AND p.step_id IS NOT NULL");
  q.bind(nonce);
  if (!q.next()) return std::nullopt;
  return Held{RunId(q.integer(0)), StepId(q.integer(1)), q.integer(2), q.integer(3) != 0, q.integer(4) != 0};
}

StepIntent named_as(const StepRow& row) {
  StepIntent intent;
  intent.name = row.name;
  intent.kind = row.kind;
  return intent;
}

void write_failure(db::Tx& tx, const Held& held, const StepRow& row, const HeldOutcome& outcome,
                   const RetryDelay& delay, TimeMs now) {
  Failure failure{named_as(row), row.id, outcome.error, std::nullopt, outcome.begun};
  if (!outcome.begun) {
    failure.retry_at = now;
  } else if (outcome.retryable && row.failures + 1 <= row.retries) {
    failure.retry_at = now + delay(row.failures + 1);
  }
  if (!failure.retry_at) reset_recoveries_of(tx, held.run);
  write_failed(tx, held.run, row.id, failure, now);
}

}  // namespace

void mark_handed_in(db::Tx& tx, std::string_view nonce, const HeldOutcome& outcome, TimeMs now) {
  std::optional<TimeMs> stopped;
  if (!outcome.left) stopped = now;
  db::Query(tx,
            "UPDATE processes SET exit_code = ?2, stopped_at = ?3, status = CASE WHEN ?3 IS NULL THEN 'stopping' ELSE "
            "'stopped' END WHERE nonce = ?1 AND step_id IS NOT NULL AND status <> 'stopped'")
      .bind(nonce, outcome.result ? 0 : 1, stopped)
      .run();
}

Taken hand_in(db::Tx& tx, std::string_view nonce, const HeldOutcome& outcome, const RetryDelay& delay, TimeMs now) {
  const auto held = find(tx, nonce);
  if (!held) return Taken::stranger;
  if (held->handed_in) return Taken::again;
  const auto row = read_step(tx, held->step);
  if (!row) throw Bug("hand_in: a holder without a step");
  mark_handed_in(tx, nonce, outcome, now);
  if (!held->live || row->status != StepStatus::started || row->nonce != nonce) {
    const HandedIn text{outcome.result ? *outcome.result : outcome.error, !outcome.result};
    keep_late_outcome(tx, held->run, row->id, held->epoch, row->name, text, now);
    return Taken::late;
  }
  if (outcome.result) {
    reset_recoveries_of(tx, held->run);
    write_completed(tx, held->run, row->id, Completion{named_as(*row), row->id, *outcome.result, std::nullopt}, now);
  } else if (!outcome.unknown || row->effect != Effect::non_idempotent) {
    write_failure(tx, *held, *row, outcome, delay, now);
  }  // E7: no outcome; the step is as after a crash, and its holder is gone
  (void)wake_run(tx, held->run, now);
  return Taken::recorded;
}

void stop_holder(db::Tx& tx, std::string_view nonce, TimeMs now) {
  ProcessId id;
  {
    db::Query q(tx, "SELECT id FROM processes WHERE nonce = ? AND step_id IS NOT NULL");
    if (q.bind(nonce).next()) id = ProcessId(q.integer(0));
  }
  if (id.valid()) (void)mark_stopped(tx, id, std::nullopt, now);
}

bool holder_lives(db::ReadTx& tx, std::string_view nonce) {
  db::Query q(tx, "SELECT 1 FROM processes WHERE nonce = ? AND status <> 'stopped'");
  return q.bind(nonce).next();
}

}  // namespace bide::kernel
