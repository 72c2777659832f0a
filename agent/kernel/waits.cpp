#include "agent/kernel/waits.h"

#include <algorithm>

#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/planted.h"
#include "agent/kernel/events.h"
#include "agent/kernel/evidence.h"
#include "agent/kernel/first_of.h"
#include "agent/kernel/judge.h"
#include "agent/kernel/signals.h"

namespace bide::kernel {
namespace {

#define BIDE_WAIT_COLUMNS                                                                                       \
  "id, run_id, step_id, kind, name, status, payload, digest, resolve_by, resolution, resolved_by, created_at, " \
  "resolved_at FROM waits "

WaitRow read_row(db::Query& q) {
  WaitRow row;
  row.id = WaitId(q.integer(0));
  row.run = RunId(q.integer(1));
  row.step = StepId(q.integer(2));
  row.kind = wait_kind_from(q.text(3)).value();
  row.name = q.text(4);
  row.status = wait_status_from(q.text(5)).value();
  row.payload = q.text(6);
  row.digest = q.blob(7);
  row.resolve_by = q.maybe_integer(8);
  row.resolution = q.maybe_text(9);
  row.resolved_by = q.maybe_text(10);
  row.created_at = q.integer(11);
  row.resolved_at = q.maybe_integer(12);
  return row;
}

std::vector<WaitRow> read_all(db::Query& q) {
  std::vector<WaitRow> rows;
  while (q.next()) rows.push_back(read_row(q));
  return rows;
}

// Early decisions of the name are judged by this wait, in the order in which they came; what does not fit is dropped
// and audited [A9].
bool judge_early(db::Tx& tx, RunId run, WaitId wait, std::string_view name, TimeMs now) {
  struct Early {
    std::string by, scopes, body;
  };
  std::vector<Early> kept;
  {
    db::Query q(tx,
                "SELECT decided_by, scopes, decision FROM early_decisions WHERE run_id = ? AND name = ? ORDER BY "
                "decided_at, decided_by");
    q.bind(run, name);
    while (q.next()) kept.push_back({q.text(0), q.text(1), q.text(2)});
  }
  if (kept.empty()) return false;
  db::Query(tx, "DELETE FROM early_decisions WHERE run_id = ? AND name = ?").bind(run, name).run();
  bool settled = false;
  for (const Early& early : kept) {
    const auto parsed = parse_decision(early.body);
    const Principal by{early.by, scopes_from(early.scopes), RunId()};
    const auto* decision = std::get_if<Decision>(&parsed);
    if (decision == nullptr) continue;
    const auto outcome = judge_wait(tx, wait, *decision, by, "dropped", now);
    if (std::holds_alternative<WaitResolved>(outcome)) settled = true;
  }
  return settled;
}

}  // namespace

namespace {

// When somebody is reminded of what only a person can settle; nullopt: it is something else.
std::optional<TimeMs> remind_at(WaitKind kind, std::optional<TimeMs> resolve_by, TimeMs now) {
  if (kind != WaitKind::approval && kind != WaitKind::question && kind != WaitKind::reconcile) return std::nullopt;
  if (!resolve_by) return now + limits::kRemindAfterMs;
  return *resolve_by - std::min<DurationMs>(limits::kRemindBeforeMs, (*resolve_by - now) / 2);
}

}  // namespace

WaitId add_wait(db::Tx& tx, RunId run, StepId step, WaitKind kind, std::string_view name, std::string_view payload,
                std::optional<TimeMs> resolve_by, TimeMs now) {
  const WaitId id(tx.next_id(db::Counter::waits));
  const std::string digest = sha256(json::canonical(payload));
  db::Query(tx,
            "INSERT INTO waits (id, run_id, step_id, kind, name, status, payload, digest, resolve_by, created_at, "
            "remind_at) VALUES (?,?,?,?,?,'pending',?,?,?,?,?)")
      .bind(id, run, step, kind, name, payload, db::Blob{digest}, resolve_by, now, remind_at(kind, resolve_by, now))
      .run();
  append_event(tx, now, "wait.created", run, step,
               json::Writer()
                   .begin_object()
                   .member("wait", id.value)
                   .member("kind", std::string(to_text(kind)))
                   .member("name", std::string(name))
                   .end_object()
                   .text());
  return id;
}

std::optional<WaitRow> read_wait(db::ReadTx& tx, WaitId wait) {
  db::Query q(tx, "SELECT " BIDE_WAIT_COLUMNS "WHERE id = ?");
  q.bind(wait);
  if (!q.next()) return std::nullopt;
  return read_row(q);
}

std::optional<WaitRow> latest_wait(db::ReadTx& tx, StepId step) {
  db::Query q(tx, "SELECT " BIDE_WAIT_COLUMNS "WHERE step_id = ? ORDER BY id DESC LIMIT 1");
  q.bind(step);
  if (!q.next()) return std::nullopt;
  return read_row(q);
}

std::vector<WaitRow> pending_waits(db::ReadTx& tx, RunId run) {
  db::Query q(tx, "SELECT " BIDE_WAIT_COLUMNS "WHERE run_id = ? AND status = 'pending' ORDER BY id");
  q.bind(run);
  return read_all(q);
}

std::vector<WaitRow> list_waits(db::ReadTx& tx, const WaitFilter& filter) {
  if (filter.run) {
    db::Query q(tx, "SELECT " BIDE_WAIT_COLUMNS
                    "WHERE run_id = ?1 AND id > ?2 AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR kind = ?4) "
                    "AND (?5 = 0 OR kind IN ('approval','question','reconcile')) ORDER BY id LIMIT ?6");
    q.bind(*filter.run, filter.after, filter.status, filter.kind, filter.inbox_only, filter.limit);
    return read_all(q);
  }
  if (filter.status == WaitStatus::pending && filter.inbox_only) {
    db::Query q(tx, "SELECT " BIDE_WAIT_COLUMNS
                    "WHERE status = 'pending' AND kind IN ('approval','question','reconcile') AND id > ?1 "
                    "AND (?2 IS NULL OR kind = ?2) ORDER BY id LIMIT ?3");
    q.bind(filter.after, filter.kind, filter.limit);
    return read_all(q);
  }
  db::Query q(tx, "SELECT " BIDE_WAIT_COLUMNS
                  "WHERE id > ?1 AND (?2 IS NULL OR status = ?2) AND (?3 IS NULL OR kind = ?3) "
                  "AND (?4 = 0 OR kind IN ('approval','question','reconcile')) ORDER BY id LIMIT ?5");
  q.bind(filter.after, filter.status, filter.kind, filter.inbox_only, filter.limit);
  return read_all(q);
}

bool answered_early(db::Tx& tx, RunId run, StepId step, WaitId wait, WaitKind kind, std::string_view name, TimeMs now) {
  if (kind == WaitKind::approval || kind == WaitKind::question) return judge_early(tx, run, wait, name, now);
  if (kind != WaitKind::signal) return false;
  const auto payload = consume_signal(tx, run, name, step);
  if (payload) store_resolution(tx, wait, *payload, std::nullopt, now);
  return payload.has_value();
}

OpenOutcome open_wait(db::Tx& tx, const Fence& fence, const WaitAsk& ask, bool reset_recoveries, TimeMs now) {
  auto intent = write_intent(tx, fence, ask.intent, reset_recoveries, now);
  if (std::holds_alternative<LeaseLost>(intent)) return LeaseLost{};
  WaitOpened opened;
  opened.step = std::get<StepId>(intent);
  opened.wait = add_wait(tx, fence.run, opened.step, ask.kind, ask.intent.name, ask.payload, ask.resolve_by, now);
  opened.settled = answered_early(tx, fence.run, opened.step, opened.wait, ask.kind, ask.intent.name, now);
  return opened;
}

DoubtOutcome put_in_doubt(db::Tx& tx, const Fence& fence, StepId step, std::string_view probe, TimeMs now) {
  if (!holds(tx, fence)) return LeaseLost{};
  if (const auto last = latest_wait(tx, step);
      last && last->kind == WaitKind::reconcile && last->status == WaitStatus::pending) {
    return last->id;
  }
  const auto row = read_step(tx, step);
  const std::string known = evidence_of(tx, step, probe);
  const int changed =
      db::Query(tx, "UPDATE steps SET status = 'needs_reconcile', updated_at = ?2 WHERE id = ?1 AND status = 'started'")
          .bind(step, now)
          .run();
  if (changed != 1) throw Bug("put_in_doubt: the step was not started");
  append_event(tx, now, "step.needs_reconcile", fence.run, step);
  json::Writer w;
  w.begin_object().member("text", "Did \"" + row->name + "\" run? Its attempt ended before it could say.");
  w.key("options").begin_array().string("ran").string("run").string("abort").end_array();
  w.member("step", row->name).member("position", row->position).member("executions", row->executions);
  w.member("arguments_hash", to_hex(row->request_hash)).member("started_at", format_time(row->updated_at));
  w.member_raw("request", row->request).member_raw("known", known).end_object();
  return add_wait(tx, fence.run, step, WaitKind::reconcile, row->name, w.text(), std::nullopt, now);
}

bool reminder_due(db::ReadTx& tx, TimeMs now) {
  db::Query q(tx, "SELECT 1 FROM waits WHERE status = 'pending' AND remind_at IS NOT NULL AND remind_at <= ? LIMIT 1");
  return q.bind(now).next();
}

int remind_waits(db::Tx& tx, int limit, TimeMs now) {
  struct Due {
    WaitId id;
    RunId run;
    StepId step;
    std::string kind;
    std::string name;
    std::optional<TimeMs> resolve_by;
  };
  std::vector<Due> due;
  {
    db::Query q(
        tx,
        "SELECT id, run_id, step_id, kind, name, resolve_by FROM waits WHERE status = 'pending' AND remind_at IS "
        "NOT NULL AND remind_at <= ? ORDER BY remind_at, id LIMIT ?");
    q.bind(now, limit);
    while (q.next())
      due.push_back(
          {WaitId(q.integer(0)), RunId(q.integer(1)), StepId(q.integer(2)), q.text(3), q.text(4), q.maybe_integer(5)});
  }
  for (const Due& one : due) {
    db::Query(tx, "UPDATE waits SET remind_at = NULL WHERE id = ?").bind(one.id).run();
    if (one.resolve_by && *one.resolve_by <= now) continue;  // it expires in this pass
    json::Writer w;
    w.begin_object().member("wait", one.id.value).member("kind", one.kind).member("name", one.name);
    append_event(tx, now, one.resolve_by ? "wait.expiring" : "wait.overdue", one.run, one.step, w.end_object().text());
  }
  return static_cast<int>(due.size());
}

bool expiry_due(db::ReadTx& tx, TimeMs now) {
  db::Query q(tx,
              "SELECT 1 FROM waits WHERE status = 'pending' AND resolve_by IS NOT NULL AND kind <> 'timer' AND "
              "resolve_by <= ? LIMIT 1");
  return q.bind(now).next();
}

std::vector<WaitExpired> expire_waits(db::Tx& tx, int limit, TimeMs now) {
  std::vector<WaitRow> due;
  {
    db::Query q(tx, "SELECT " BIDE_WAIT_COLUMNS
                    "WHERE status = 'pending' AND resolve_by IS NOT NULL AND kind <> 'timer' AND resolve_by <= ? "
                    "ORDER BY resolve_by, id LIMIT ?");
    q.bind(now, limit);
    due = read_all(q);
  }
  std::vector<WaitExpired> expired;
  for (const WaitRow& wait : due) {
    if (read_wait(tx, wait.id)->status != WaitStatus::pending) continue;  // closed with one of its group just now
    const int changed = db::Query(tx,
                                  "UPDATE waits SET status = 'expired', resolution = ?2, resolved_at = ?3 WHERE id = "
                                  "?1 AND status = 'pending'")
                            .bind(wait.id, expiry_value(wait.kind, wait.payload), now)
                            .run();
    if (changed != 1) throw Bug("expire_waits: the row changed under the writer");
    close_siblings(tx, wait, now);
    append_event(
        tx, now, "wait.resolved", wait.run, wait.step,
        json::Writer().begin_object().member("wait", wait.id.value).member("status", "expired").end_object().text());
    const Woke woke = BIDE_PLANTED(expiry_wakes_nobody) ? Woke::ended : wake_run(tx, wait.run, now);
    expired.push_back({wait.run, wait.id, woke});
  }
  return expired;
}

std::string expiry_value(WaitKind kind, std::string_view payload) {
  json::Writer w;
  w.begin_object();
  if (const auto fallback = json::member(payload, "default"); fallback && *fallback != "null") {
    w.member_raw(kind == WaitKind::approval ? "decision" : "answer", *fallback);
  }
  return w.member("expired", true).end_object().take();
}

namespace {

bool in_group(db::ReadTx& tx, const WaitRow& wait) {
  return read_step(tx, wait.step).value().kind == StepKind::first_of;
}

}  // namespace

bool settle_from_wait(db::Tx& tx, const Fence& fence, const WaitRow& wait, TimeMs now) {
  if (wait.status != WaitStatus::resolved && wait.status != WaitStatus::expired)
    throw Bug("settle_from_wait: the wait has no answer");
  const std::string value = wait.resolution.value_or("null");
  return settle_step(tx, fence, wait.step, in_group(tx, wait) ? won_value(wait.name, value) : value, now);
}

bool settle_timer(db::Tx& tx, const Fence& fence, const WaitRow& wait, TimeMs now) {
  if (!holds(tx, fence)) return false;
  if (*wait.resolve_by > now) throw Bug("settle_timer: before its time");
  const std::string value =
      json::Writer().begin_object().member("woke_at", format_time(wait.resolve_by.value())).end_object().take();
  store_resolution(tx, wait.id, value, std::nullopt, now);
  return settle_step(tx, fence, wait.step, in_group(tx, wait) ? won_value(wait.name, value) : value, now);
}

}  // namespace bide::kernel
