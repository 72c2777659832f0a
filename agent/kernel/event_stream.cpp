#include "agent/kernel/event_stream.h"

#include <algorithm>

#include "agent/kernel/runs.h"

namespace bide::kernel {
namespace {

void read_rows(db::Query& q, StreamPage& page, int limit, std::size_t bytes) {
  std::size_t held = 0;
  while (q.next()) {
    if (static_cast<int>(page.events.size()) == limit || held >= bytes) {
      page.more = true;
      return;
    }
    page.events.push_back(EventRow{EventId(q.integer(0)), q.integer(1), q.text(2),
                                   RunId(q.maybe_integer(3).value_or(0)), StepId(q.maybe_integer(4).value_or(0)),
                                   q.text(5)});
    held += page.events.back().payload.size();
  }
}

}  // namespace

StreamPage read_stream_page(db::ReadTx& tx, EventId after, RunId run, int limit, std::size_t bytes) {
  StreamPage page;
  if (run.valid()) {
    const auto row = read_run(tx, run);
    if (row) page.status = row->status;
    db::Query q(
        tx,
        "SELECT id, at, kind, run_id, step_id, payload FROM events WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?");
    q.bind(run, after, limit + 1);
    read_rows(q, page, limit, bytes);
  } else {
    db::Query q(tx, "SELECT id, at, kind, run_id, step_id, payload FROM events WHERE id > ? ORDER BY id LIMIT ?");
    q.bind(after, limit + 1);
    read_rows(q, page, limit, bytes);
  }
  page.upto = page.events.empty() ? after : page.events.back().id;
  if (!page.more) page.upto = std::max(page.upto, last_event(tx));
  return page;
}

EventId events_pruned(db::ReadTx& tx) {
  db::Query q(tx, "SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'events_pruned'");
  return EventId(q.next() ? q.integer(0) : 0);
}

EventId first_event(db::ReadTx& tx) {
  db::Query q(tx, "SELECT coalesce(min(id), 0) FROM events");
  return EventId(q.one().integer(0));
}

void note_pruned(db::Tx& tx, EventId largest) {
  db::Query(tx,
            "INSERT INTO meta (key, value) VALUES ('events_pruned', ?1) ON CONFLICT (key) DO UPDATE SET value = "
            "excluded.value WHERE CAST(value AS INTEGER) < CAST(excluded.value AS INTEGER)")
      .bind(std::to_string(largest.value))
      .run();
}

}  // namespace bide::kernel
