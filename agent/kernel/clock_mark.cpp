#include "agent/kernel/clock_mark.h"

#include "agent/base/json.h"
#include "agent/kernel/events.h"

namespace bide::kernel {

namespace {

// The clock goes back: what was due stays due, and does not wait until the new clock has come to its old time.
void keep_due(db::Tx& tx, TimeMs was, TimeMs now) {
  db::Query(tx, "UPDATE runs SET run_at = ?1 WHERE status = 'queued' AND run_at > ?1 AND run_at <= ?2")
      .bind(now, was)
      .run();
  db::Query(tx, "UPDATE waits SET resolve_by = ?1 WHERE status = 'pending' AND resolve_by > ?1 AND resolve_by <= ?2")
      .bind(now, was)
      .run();
  db::Query(tx, "UPDATE steps SET not_before = ?1 WHERE status = 'pending' AND not_before > ?1 AND not_before <= ?2")
      .bind(now, was)
      .run();
  db::Query(tx, "UPDATE outbox SET next_try_at = ?1 WHERE parked_at IS NULL AND next_try_at > ?1 AND next_try_at <= ?2")
      .bind(now, was)
      .run();
  db::Query(tx, "UPDATE runs SET redrive_at = ?1 WHERE redrive_at > ?1 AND redrive_at <= ?2").bind(now, was).run();
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
