#include "agent/kernel/task_push.h"

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"

namespace bide::kernel {
namespace {

struct Asked {
  StepId task;
  std::int64_t epoch = 0;
};

// "<key>.<task>.<epoch>"
std::optional<Asked> asked_by(const OutboxRow& row) {
  const std::string_view key = row.idem_key;
  const std::size_t last = key.rfind('.');
  const std::size_t first = key.find('.');
  if (first == std::string_view::npos || last == first) return std::nullopt;
  const auto task = parse_number(key.substr(first + 1, last - first - 1));
  const auto epoch = parse_number(key.substr(last + 1));
  if (!task || !epoch) return std::nullopt;
  return Asked{StepId(*task), *epoch};
}

void set_lease(db::Tx& tx, const Asked& asked, std::optional<TimeMs> until) {
  db::Query(tx,
            "UPDATE steps SET lease_until = ?3 WHERE id = ?1 AND kind = 'task' AND status = 'started' AND epoch = ?2")
      .bind(asked.task, asked.epoch, until)
      .run();
}

}  // namespace

bool set_task_function(db::Tx& tx, const TaskFunction& function, std::string_view by, TimeMs now) {
  if (function.url.empty())
    return db::Query(tx, "DELETE FROM task_functions WHERE name = ?").bind(function.name).run() > 0;
  return db::Query(tx,
                   "INSERT INTO task_functions (name, url, created_by, created_at) VALUES (?1,?2,?3,?4) ON CONFLICT "
                   "(name) DO UPDATE SET url = excluded.url WHERE url <> excluded.url")
             .bind(function.name, function.url, by, now)
             .run() > 0;
}

std::vector<TaskFunction> task_functions(db::ReadTx& tx) {
  std::vector<TaskFunction> all;
  db::Query q(tx, "SELECT name, url FROM task_functions ORDER BY name");
  while (q.next()) all.push_back({q.text(0), q.text(1)});
  return all;
}

#define BIDE_PUSHABLE                                                                                                 \
  "FROM steps s INDEXED BY steps_undispatched CROSS JOIN runs r CROSS JOIN task_functions f WHERE r.id = s.run_id "   \
  "AND f.name = s.name AND s.status = 'pending' AND s.kind = 'task' AND s.not_before >= 0 AND r.finished_at IS NULL " \
  "AND r.paused_at IS NULL AND r.cancel_requested_at IS NULL AND r.error IS NULL "

bool push_due(db::ReadTx& tx, TimeMs now) {
  db::Query q(tx, "SELECT 1 " BIDE_PUSHABLE "AND s.not_before <= ? LIMIT 1");
  return q.bind(now).next();
}

std::optional<TimeMs> next_push(db::ReadTx& tx) {
  db::Query q(tx, "SELECT s.not_before " BIDE_PUSHABLE "ORDER BY s.not_before, s.id LIMIT 1");
  return q.next() ? std::optional(q.integer(0)) : std::nullopt;
}

int push_tasks(db::Tx& tx, int limit, TimeMs now) {
  struct Due {
    StepId task;
    std::string url;
  };
  std::vector<Due> due;
  {
    db::Query q(tx, "SELECT s.id, f.url " BIDE_PUSHABLE "AND s.not_before <= ? ORDER BY s.not_before, s.id LIMIT ?");
    q.bind(now, limit);
    while (q.next()) due.push_back({StepId(q.integer(0)), q.text(1)});
  }
  int pushed = 0;
  for (const Due& one : due) {
    const auto any = [](const std::string&) { return true; };
    const auto claim = claim_task(tx, one.task, std::string(kPushedOwner) + lane_of(one.url), any, now);
    if (!claim) continue;
    set_lease(tx, {claim->step, claim->epoch}, std::nullopt);  // as long as the row stands
    json::Writer body;
    body.begin_object().member("type", "task").member("task", claim->step.value).member("epoch", claim->epoch);
    body.member("run", claim->run.value).member("function", claim->name).member("execution", claim->execution);
    NewDelivery row;
    row.kind = OutboxKind::task;
    row.run = claim->run;
    row.destination = one.url;
    row.request = body.member_raw("request", claim->request).end_object().take();
    row.idem_key = claim->key + "." + std::to_string(claim->step.value) + "." + std::to_string(claim->epoch);
    (void)write_delivery(tx, row, now);
    ++pushed;
  }
  return pushed;
}

std::string_view step_key_of(const OutboxRow& row) {
  return std::string_view(row.idem_key).substr(0, row.idem_key.find('.'));
}

StepId task_of(const OutboxRow& row) {
  const auto asked = row.kind == OutboxKind::task ? asked_by(row) : std::nullopt;
  return asked ? asked->task : StepId();
}

void answer_pushed(db::Tx& tx, const OutboxRow& row, int status, std::string_view body, std::string_view refused,
                   TimeMs now, Ripples* ripples) {
  const auto asked = asked_by(row);
  if (!asked) return;
  if (status == 202 || trim(body).empty()) {
    set_lease(tx, *asked, now + limits::kTaskLeaseMs);
    return;
  }
  const auto claim = read_task(tx, asked->task, "", asked->epoch);
  if (!claim) return;
  TaskOutcome outcome;
  if (!refused.empty()) {
    outcome.error = refused;
  } else {
    outcome.result = std::string(body);
  }
  (void)finish_task(tx, *claim, outcome, now, ripples);
}

bool push_wanted(db::ReadTx& tx, const OutboxRow& row) {
  const auto asked = row.kind == OutboxKind::task ? asked_by(row) : std::nullopt;
  if (!asked) return true;
  db::Query q(
      tx,
      "SELECT 1 FROM steps s JOIN runs r ON r.id = s.run_id WHERE s.id = ? AND s.status = 'started' AND s.epoch "
      "= ? AND r.finished_at IS NULL AND r.cancel_requested_at IS NULL AND r.error IS NULL");
  return q.bind(asked->task, asked->epoch).next();
}

void end_pushes(db::Tx& tx, RunId run, TimeMs now) {
  db::Query(tx,
            "UPDATE outbox SET next_try_at = ?2 WHERE run_id = ?1 AND kind = 'task' AND parked_at IS NULL AND "
            "next_try_at > ?2")
      .bind(run, now)
      .run();
  std::vector<DeliveryId> parked;
  {
    db::Query q(tx, "SELECT id FROM outbox WHERE run_id = ? AND kind = 'task' AND parked_at IS NOT NULL");
    q.bind(run);
    while (q.next()) parked.push_back(DeliveryId(q.integer(0)));
  }
  for (const DeliveryId id : parked) release_pushed(tx, read_delivery(tx, id).value(), now);
}

void release_pushed(db::Tx& tx, const OutboxRow& row, TimeMs now) {
  if (const auto asked = asked_by(row)) set_lease(tx, *asked, now);
}

}  // namespace bide::kernel
