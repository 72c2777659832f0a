#include "agent/kernel/events.h"

#include "agent/kernel/webhooks.h"

namespace bide::kernel {
namespace {

EventRow read_event(db::Query& q) {
  return EventRow{EventId(q.integer(0)),
                  q.integer(1),
                  q.text(2),
                  RunId(q.maybe_integer(3).value_or(0)),
                  StepId(q.maybe_integer(4).value_or(0)),
                  q.text(5)};
}

template <class I>
std::optional<std::int64_t> some(I id) {
  return id.valid() ? std::optional(id.value) : std::nullopt;
}

}  // namespace

EventId append_event(db::Tx& tx, TimeMs now, std::string_view kind, RunId run, StepId step, std::string_view payload) {
  const EventId id(tx.next_id(db::Counter::events));
  db::Query(tx, "INSERT INTO events (id, at, kind, run_id, step_id, payload) VALUES (?,?,?,?,?,?)")
      .bind(id, now, kind, some(run), some(step), payload)
      .run();
  if (has_webhooks(tx)) notify_webhooks(tx, EventRow{id, now, std::string(kind), run, step, std::string(payload)});
  return id;
}

std::vector<EventRow> events_after(db::ReadTx& tx, EventId after, RunId run, int limit) {
  std::vector<EventRow> rows;
  if (run.valid()) {
    db::Query q(
        tx,
        "SELECT id, at, kind, run_id, step_id, payload FROM events WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?");
    q.bind(run, after, limit);
    while (q.next()) rows.push_back(read_event(q));
  } else {
    db::Query q(tx, "SELECT id, at, kind, run_id, step_id, payload FROM events WHERE id > ? ORDER BY id LIMIT ?");
    q.bind(after, limit);
    while (q.next()) rows.push_back(read_event(q));
  }
  return rows;
}

EventId last_event(db::ReadTx& tx) {
  db::Query q(tx, "SELECT coalesce(max(id), 0) FROM events");
  return EventId(q.one().integer(0));
}

}  // namespace bide::kernel
