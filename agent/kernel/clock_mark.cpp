#include "agent/kernel/clock_mark.h"

#include "agent/base/json.h"
#include "agent/kernel/events.h"

namespace bide::kernel {

namespace {

// The clock goes back: what was due stays due. Of what lies ahead, timers and deadlines keep the time that they name;
// a delay (a retry's, a lease's, a re-drive's, a delivery's) keeps what was left of it.
void keep_due(db::Tx& tx, TimeMs was, TimeMs now) {
  db::Query(tx, "UPDATE runs SET run_at = ?1 WHERE status = 'queued' AND run_at > ?1 AND run_at <= ?2")
      .bind(now, was)
      .run();
  // Handed back, or about to try a step again: it looks when, itself.
  db::Query(tx,
            "UPDATE runs SET run_at = ?1 WHERE status = 'queued' AND run_at > ?2 AND (reason IS NOT NULL OR EXISTS "
            "(SELECT 1 FROM steps s WHERE s.run_id = runs.id AND s.status = 'pending' AND s.not_before > ?2))")
      .bind(now, was)
      .run();
  db::Query(tx, "UPDATE waits SET resolve_by = ?1 WHERE status = 'pending' AND resolve_by > ?1 AND resolve_by <= ?2")
      .bind(now, was)
      .run();
  db::Query(tx,
            "UPDATE steps SET not_before = max(?1, not_before - ?2 + ?1) WHERE run_id IN (SELECT id FROM runs WHERE "
            "finished_at IS NULL) AND status = 'pending' AND not_before > ?1")
      .bind(now, was)
      .run();
  db::Query(tx,
            "UPDATE steps SET lease_until = max(?1, lease_until - ?2 + ?1) WHERE status = 'started' AND lease_until > "
            "?1")
      .bind(now, was)
      .run();
  db::Query(tx,
            "UPDATE outbox SET next_try_at = max(?1, next_try_at - ?2 + ?1) WHERE parked_at IS NULL AND next_try_at > "
            "?1")
      .bind(now, was)
      .run();
  db::Query(tx, "UPDATE runs SET redrive_at = max(?1, redrive_at - ?2 + ?1) WHERE redrive_at > ?1")
      .bind(now, was)
      .run();
}

}  // namespace

void accept_clock(db::Tx& tx, std::string_view by, TimeMs was, TimeMs now) {
  db::Query(tx,
            "INSERT INTO meta (key, value) VALUES ('clock_mark', ?) ON CONFLICT (key) DO UPDATE SET value = "
            "excluded.value")
      .bind(now)
      .run();
  if (now < was) keep_due(tx, was, now);
  json::Writer w;
  w.begin_object().member("by", by).member("was", format_time(was)).member("now", format_time(now)).end_object();
  append_event(tx, now, "control.clock_accepted", RunId(), StepId(), w.text());
}

}  // namespace bide::kernel
