#include "agent/kernel/signals.h"

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/planted.h"
#include "agent/kernel/continue.h"
#include "agent/kernel/events.h"
#include "agent/kernel/judge.h"

namespace bide::kernel {
namespace {

struct OpenSignalWait {
  WaitId wait;
  StepId step;
};

std::optional<OpenSignalWait> open_wait_for(db::ReadTx& tx, RunId run, std::string_view name, TimeMs now) {
  db::Query q(
      tx,
      "SELECT id, step_id FROM waits WHERE run_id = ?1 AND name = ?2 AND kind = 'signal' AND status = 'pending' "
      "AND (resolve_by IS NULL OR resolve_by > ?3) AND NOT EXISTS (SELECT 1 FROM waits t WHERE t.step_id = "
      "waits.step_id AND t.status = 'pending' AND t.kind = 'timer' AND t.resolve_by <= ?3) ORDER BY id LIMIT 1");
  q.bind(run, name, now);
  if (!q.next()) return std::nullopt;
  return OpenSignalWait{WaitId(q.integer(0)), StepId(q.integer(1))};
}

std::optional<SignalOutcome> repeated(db::ReadTx& tx, RunId run, std::string_view name, std::string_view payload,
                                      const std::optional<std::string>& dedupe_key) {
  if (!dedupe_key) return std::nullopt;
  db::Query q(tx, "SELECT id, payload FROM signals WHERE run_id = ? AND name = ? AND dedupe_key = ?");
  q.bind(run, name, *dedupe_key);
  if (!q.next()) return std::nullopt;
  if (json::canonical(q.text(1)) == json::canonical(payload)) return SignalRepeated{SignalId(q.integer(0))};
  return problem("dedupe_conflict",
                 "dedupe_key \"" + *dedupe_key + "\" was used for this signal with another payload.");
}

std::string resolution_of(SignalId id, std::string_view payload) {
  return json::Writer().begin_object().member("signal", id.value).member_raw("payload", payload).end_object().take();
}

}  // namespace

SignalOutcome send_signal(db::Tx& tx, RunId run, std::string_view name, std::string_view payload,
                          const std::optional<std::string>& dedupe_key, const Principal& by, TimeMs now) {
  const auto row = read_run(tx, run);
  if (!row) return problem("run_not_found", "There is no run " + std::to_string(run.value) + ".", "bide runs");
  if (auto same = repeated(tx, run, name, payload, dedupe_key)) return *same;
  if (terminal(row->status)) {
    Problem ended = problem(
        "run_ended", "Run " + std::to_string(run.value) + " has ended: " + std::string(to_text(row->status)) + ".");
    if (const auto next = continued_as(tx, run)) {
      ended.hint = "bide signal " + std::to_string(next->value) + " " + std::string(name);
      ended.extra = "\"continued_as\":" + std::to_string(next->value);
    }
    return ended;
  }
  {
    db::Query q(tx, "SELECT count(*) FROM signals WHERE run_id = ? AND name = ? AND consumed_by IS NULL");
    if (q.bind(run, name).one().integer(0) >= limits::kUnreadSignals) {
      return problem("too_many_signals", std::to_string(limits::kUnreadSignals) + " signals of this name are unread.",
                     "bide explain " + std::to_string(run.value));
    }
  }
  db::Query(tx, "INSERT INTO signals (run_id, name, payload, dedupe_key, sent_by, created_at) VALUES (?,?,?,?,?,?)")
      .bind(run, name, payload, dedupe_key, by.name, now)
      .run();
  SignalSent sent;
  sent.id = SignalId(tx.last_insert_id());
  append_event(tx, now, "signal.received", run, StepId(),
               json::Writer()
                   .begin_object()
                   .member("signal", sent.id.value)
                   .member("name", std::string(name))
                   .end_object()
                   .text());
  const auto open = open_wait_for(tx, run, name, now);
  if (!open) {
    sent.woke = row->status == RunStatus::running ? Woke::ring_attempt : Woke::ended;
    return sent;
  }
  const auto resolution = consume_signal(tx, run, name, open->step);
  store_resolution(tx, open->wait, *resolution, by.name, now);
  sent.consumed = true;
  sent.woke = wake_run(tx, run, now);
  return sent;
}

std::optional<std::string> consume_signal(db::Tx& tx, RunId run, std::string_view name, StepId step) {
  SignalId id;
  std::string payload;
  {
    db::Query q(tx,
                BIDE_PLANTED(signals_backwards)
                    ? db::Sql("SELECT id, payload FROM signals WHERE run_id = ? AND name = ? AND consumed_by IS NULL "
                              "ORDER BY id DESC LIMIT 1")
                    : db::Sql("SELECT id, payload FROM signals WHERE run_id = ? AND name = ? AND consumed_by IS NULL "
                              "ORDER BY id LIMIT 1"));
    q.bind(run, name);
    if (!q.next()) return std::nullopt;
    id = SignalId(q.integer(0));
    payload = q.text(1);
  }
  if (!BIDE_PLANTED(signal_read_twice))
    db::Query(tx, "UPDATE signals SET consumed_by = ?2 WHERE id = ?1").bind(id, step).run();
  return resolution_of(id, payload);
}

}  // namespace bide::kernel
