#include "agent/kernel/outbox.h"

#include <algorithm>

#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/planted.h"
#include "agent/base/text.h"
#include "agent/kernel/delivery_events.h"
#include "agent/kernel/task_push.h"

namespace bide::kernel {
namespace {

constexpr std::string_view kKinds[] = {"wake", "task", "message", "webhook"};

#define BIDE_OUTBOX_COLUMNS                                                                                   \
  "id, kind, run_id, webhook_id, lane, destination, request, idem_key, tries, next_try_at, first_failed_at, " \
  "last_error, parked_at, created_at FROM outbox "

OutboxRow read_row(db::Query& q) {
  OutboxRow row;
  row.id = DeliveryId(q.integer(0));
  row.kind = outbox_kind_from(q.text(1)).value();
  row.run = RunId(q.maybe_integer(2).value_or(0));
  row.webhook = WebhookId(q.maybe_integer(3).value_or(0));
  row.lane = q.text(4);
  row.destination = q.text(5);
  row.request = q.text(6);
  row.idem_key = q.text(7);
  row.tries = q.integer(8);
  row.next_try_at = q.integer(9);
  row.first_failed_at = q.maybe_integer(10);
  row.last_error = q.maybe_text(11);
  row.parked_at = q.maybe_integer(12);
  row.created_at = q.integer(13);
  return row;
}

std::vector<OutboxRow> read_all(db::Query& q) {
  std::vector<OutboxRow> rows;
  while (q.next()) rows.push_back(read_row(q));
  return rows;
}

template <class I>
std::optional<std::int64_t> some(I id) {
  return id.valid() ? std::optional(id.value) : std::nullopt;
}

void erase(db::Tx& tx, DeliveryId id) { db::Query(tx, "DELETE FROM outbox WHERE id = ?").bind(id).run(); }

}  // namespace

std::string_view to_text(OutboxKind kind) { return kKinds[static_cast<int>(kind)]; }

std::optional<OutboxKind> outbox_kind_from(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kKinds); ++i) {
    if (kKinds[i] == text) return static_cast<OutboxKind>(i);
  }
  return std::nullopt;
}

std::string_view to_text(DeliveryStatus status) {
  switch (status) {
    case DeliveryStatus::due: return "due";
    case DeliveryStatus::retrying: return "retrying";
    case DeliveryStatus::parked: return "parked";
  }
  return "";
}

DeliveryStatus status_of(const OutboxRow& row) {
  if (row.parked_at) return DeliveryStatus::parked;
  return row.tries > 0 ? DeliveryStatus::retrying : DeliveryStatus::due;
}

std::string lane_of(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return lower(url.substr(0, limits::kKeyBytes));
  const std::size_t begin = scheme + 3;
  std::string_view authority = url.substr(begin, std::min(url.find_first_of("/?#", begin), url.size()) - begin);
  // A user is not told in events and logs: a broker's may be as good as a password.
  if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) authority.remove_prefix(at + 1);
  return lower((std::string(url.substr(0, begin)) + std::string(authority)).substr(0, limits::kKeyBytes));
}

DeliveryId write_delivery(db::Tx& tx, const NewDelivery& row, TimeMs now) {
  db::Query(tx,
            "INSERT INTO outbox (kind, run_id, webhook_id, lane, destination, request, idem_key, next_try_at, "
            "created_at) VALUES (?,?,?,?,?,?,?,?,?)")
      .bind(row.kind, some(row.run), some(row.webhook), lane_of(row.destination), row.destination, row.request,
            row.idem_key, now + limits::kDeliveryGraceMs, now)
      .run();
  const DeliveryId id(tx.last_insert_id());
  tx.announce(id.value);
  return id;
}

std::optional<OutboxRow> read_delivery(db::ReadTx& tx, DeliveryId id) {
  db::Query q(tx, "SELECT " BIDE_OUTBOX_COLUMNS "WHERE id = ?");
  q.bind(id);
  if (!q.next()) return std::nullopt;
  return read_row(q);
}

int make_untried_due(db::Tx& tx, TimeMs now) {
  return db::Query(tx, "UPDATE outbox SET next_try_at = ?1 WHERE parked_at IS NULL AND next_try_at > ?1 AND tries = 0")
      .bind(now)
      .run();
}

int make_range_due(db::Tx& tx, DeliveryId first, DeliveryId last, TimeMs now) {
  return db::Query(tx,
                   "UPDATE outbox SET next_try_at = ?3 WHERE id BETWEEN ?1 AND ?2 AND tries = 0 AND parked_at IS NULL "
                   "AND next_try_at > ?3")
      .bind(first, last, now)
      .run();
}

std::vector<DueRow> due_deliveries(db::ReadTx& tx, const DueCursor& after, std::string_view full, int limit,
                                   TimeMs now) {
  std::vector<DueRow> rows;
  db::Query q(tx,
              "SELECT id, next_try_at, lane FROM outbox WHERE parked_at IS NULL AND next_try_at <= ?1 AND "
              "(next_try_at, id) > (?2, ?3) AND lane NOT IN (SELECT value FROM json_each(?4)) "
              "ORDER BY next_try_at, id LIMIT ?5");
  q.bind(now, after.next_try_at, after.id, full, limit);
  while (q.next()) rows.push_back({DeliveryId(q.integer(0)), q.integer(1), q.text(2)});
  return rows;
}

std::optional<TimeMs> next_delivery_due(db::ReadTx& tx) {
  db::Query q(tx, "SELECT min(next_try_at) FROM outbox WHERE parked_at IS NULL");
  return q.one().maybe_integer(0);
}

std::vector<DueRow> find_deliveries(db::ReadTx& tx, const std::vector<DeliveryId>& ids) {
  std::vector<DueRow> rows;
  for (const DeliveryId id : ids) {
    db::Query q(tx, "SELECT next_try_at, lane FROM outbox WHERE id = ? AND parked_at IS NULL");
    q.bind(id);
    if (q.next()) rows.push_back({id, q.integer(0), q.text(1)});
  }
  return rows;
}

std::int64_t count_parked(db::ReadTx& tx) {
  db::Query q(tx, "SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL");
  return q.one().integer(0);
}

DurationMs delivery_backoff(std::int64_t tries) {
  DurationMs delay = limits::kDeliveryFirstMs;
  for (std::int64_t i = 1; i < tries && delay < limits::kDeliveryMaxMs; ++i) delay *= 2;
  return std::min(delay, limits::kDeliveryMaxMs);
}

namespace {

// O5: exact for a row that fails alone. Rows of a lane that fail in the same second come back apart: ±20 %, and a
// little later each, so that a destination that recovers does not meet all of them in one second.
DurationMs delay_of(std::int64_t tries, const FailureRules& rules) {
  DurationMs delay = delivery_backoff(tries);
  DurationMs asked = rules.retry_after;
  if (rules.together > 0) {
    const auto percent = static_cast<DurationMs>(rules.chance % 401);  // in tenths: 0 to 40.0 %
    delay =
        delay * (800 + percent) / 1000 + std::min(rules.together * limits::kTogetherApartMs, limits::kTogetherMostMs);
    asked += asked * percent / 2000;  // never before what was asked for
  }
  return std::max(delay, asked);
}

}  // namespace

void record_delivered(db::Tx& tx, const Tried& tried, TimeMs now) {
  const auto row = read_delivery(tx, tried.id);
  if (!row) return;  // dropped by an operator while it was on its way
  erase(tx, tried.id);
  delivery_event(tx, now, "delivery.delivered", *row, tried);
}

void record_fresh_failed(db::Tx& tx, const Tried& tried, TimeMs now) {
  const auto row = read_delivery(tx, tried.id);
  if (!row || row->tries != 0 || row->parked_at) return;
  db::Query(tx, "UPDATE outbox SET next_try_at = ?2, last_error = ?3 WHERE id = ?1")
      .bind(tried.id, now, tried.error)
      .run();
  delivery_event(tx, now, "delivery.failed", *row, tried);
}

std::optional<FailureRecorded> record_failed(db::Tx& tx, const Tried& tried, const FailureRules& rules, TimeMs now) {
  auto row = read_delivery(tx, tried.id);
  if (!row || row->parked_at) return std::nullopt;
  if (BIDE_PLANTED(failed_is_delivered)) erase(tx, tried.id);
  FailureRecorded recorded;
  recorded.tries = row->tries + 1;
  const TimeMs first = row->first_failed_at.value_or(now);
  const bool enough = recorded.tries >= limits::kDeliveryTries && now - first >= rules.park_after;
  recorded.parked = rules.never || enough;
  recorded.next_try_at = now + delay_of(recorded.tries, rules);
  db::Query(tx,
            "UPDATE outbox SET tries = ?2, next_try_at = ?3, first_failed_at = ?4, last_error = ?5, parked_at = "
            "CASE WHEN ?6 THEN ?7 END WHERE id = ?1")
      .bind(tried.id, recorded.tries, recorded.next_try_at, first, tried.error, recorded.parked, now)
      .run();
  row->tries = recorded.tries;
  delivery_event(tx, now, recorded.parked ? "delivery.parked" : "delivery.failed", *row, tried);
  return recorded;
}

void postpone(db::Tx& tx, DeliveryId id, TimeMs until) {
  db::Query(tx, "UPDATE outbox SET next_try_at = ?2 WHERE id = ?1 AND parked_at IS NULL").bind(id, until).run();
}

// -- Operators.

namespace {

Problem not_there(DeliveryId id) {
  return problem("delivery_not_found",
                 "There is no delivery " + std::to_string(id.value) + ": it went out, or was dropped.", "bide outbox");
}

void start_afresh(db::Tx& tx, const OutboxRow& row, std::string_view by, TimeMs now) {
  db::Query(tx, "UPDATE outbox SET tries = 0, next_try_at = ?2, first_failed_at = NULL, parked_at = NULL WHERE id = ?1")
      .bind(row.id, now)
      .run();
  operator_event(tx, now, "delivery.retried", row, by);
}

bool endpoint_off(db::ReadTx& tx, const OutboxRow& row) {
  if (row.kind != OutboxKind::webhook) return false;
  db::Query q(tx, "SELECT 1 FROM webhooks WHERE id = ? AND disabled_at IS NULL");
  q.bind(row.webhook);
  return !q.next();
}

}  // namespace

DeliveryOutcome retry_delivery(db::Tx& tx, DeliveryId id, std::string_view by, TimeMs now) {
  const auto row = read_delivery(tx, id);
  if (!row) return not_there(id);
  if (endpoint_off(tx, *row)) {
    return problem("endpoint_off", "The endpoint of this delivery is switched off: it would be parked again.",
                   "bide webhook enable " + std::to_string(row->webhook.value));
  }
  start_afresh(tx, *row, by, now);
  return DeliveryChanged{id};
}

DeliveryOutcome drop_delivery(db::Tx& tx, DeliveryId id, std::string_view by, TimeMs now) {
  const auto row = read_delivery(tx, id);
  if (!row) return not_there(id);
  erase(tx, id);
  if (row->kind == OutboxKind::task) release_pushed(tx, *row, now);
  operator_event(tx, now, "delivery.dropped", *row, by);
  return DeliveryChanged{id};
}

int retry_lane(db::Tx& tx, std::string_view lane, int limit, std::string_view by, TimeMs now) {
  std::vector<OutboxRow> rows;
  {
    db::Query q(
        tx, "SELECT " BIDE_OUTBOX_COLUMNS
            "WHERE (parked_at IS NOT NULL OR tries > 0) AND lane = ?1 AND (webhook_id IS NULL OR EXISTS (SELECT 1 FROM "
            "webhooks w WHERE w.id = webhook_id AND w.disabled_at IS NULL)) ORDER BY id LIMIT ?2");
    q.bind(lane, limit);
    rows = read_all(q);
  }
  for (const OutboxRow& row : rows) start_afresh(tx, row, by, now);
  return static_cast<int>(rows.size());
}

int drop_lane(db::Tx& tx, std::string_view lane, int limit, std::string_view by, TimeMs now) {
  std::vector<OutboxRow> rows;
  {
    db::Query q(tx, "SELECT " BIDE_OUTBOX_COLUMNS "WHERE lane = ?1 ORDER BY id LIMIT ?2");
    q.bind(lane, limit);
    rows = read_all(q);
  }
  for (const OutboxRow& row : rows) {
    erase(tx, row.id);
    if (row.kind == OutboxKind::task) release_pushed(tx, row, now);
    operator_event(tx, now, "delivery.dropped", row, by);
  }
  return static_cast<int>(rows.size());
}

std::vector<OutboxRow> list_deliveries(db::ReadTx& tx, const DeliveryFilter& filter) {
  const std::optional<std::string> lane = filter.lane.empty() ? std::nullopt : std::optional(filter.lane);
  const std::optional<std::string> status =
      filter.status ? std::optional(std::string(to_text(*filter.status))) : std::nullopt;
  if (filter.run.valid()) {
    db::Query q(tx, "SELECT " BIDE_OUTBOX_COLUMNS
                    "WHERE run_id = ?1 AND id > ?2 AND (?3 IS NULL OR lane = ?3) AND (?4 IS NULL OR ?4 = CASE WHEN "
                    "parked_at IS NOT NULL THEN 'parked' WHEN tries > 0 THEN 'retrying' ELSE 'due' END) "
                    "ORDER BY id LIMIT ?5");
    q.bind(filter.run, filter.after, lane, status, filter.limit);
    return read_all(q);
  }
  if (filter.status == DeliveryStatus::parked) {
    db::Query q(tx, "SELECT " BIDE_OUTBOX_COLUMNS
                    "WHERE parked_at IS NOT NULL AND id > ?1 AND (?2 IS NULL OR lane = ?2) ORDER BY id LIMIT ?3");
    q.bind(filter.after, lane, filter.limit);
    return read_all(q);
  }
  db::Query q(tx, "SELECT " BIDE_OUTBOX_COLUMNS
                  "WHERE id > ?1 AND (?2 IS NULL OR lane = ?2) AND (?3 IS NULL OR ?3 = CASE WHEN parked_at IS NOT "
                  "NULL THEN 'parked' WHEN tries > 0 THEN 'retrying' ELSE 'due' END) ORDER BY id LIMIT ?4");
  q.bind(filter.after, lane, status, filter.limit);
  return read_all(q);
}

std::string_view Destination::state() const {
  if (rows == parked) return "parked";
  return failing_since ? "failing" : "ok";
}

std::vector<Destination> list_destinations(db::ReadTx& tx, std::string_view after, int limit) {
  std::vector<Destination> all;
  // The error of the row that failed last: a number of fixed width in front makes the greatest text the latest.
  db::Query q(tx,
              "SELECT lane, count(*), sum(parked_at IS NULL AND tries > 0), sum(parked_at IS NOT NULL), "
              "min(created_at), min(first_failed_at), min(CASE WHEN parked_at IS NULL THEN next_try_at END), "
              "substr(max(printf('%020d', coalesce(parked_at, next_try_at)) || last_error), 21) "
              "FROM outbox WHERE lane > ?1 GROUP BY lane ORDER BY lane LIMIT ?2");
  q.bind(after, limit);
  while (q.next()) {
    all.push_back({q.text(0), q.integer(1), q.integer(2), q.integer(3), q.integer(4), q.maybe_integer(5),
                   q.maybe_integer(6), q.maybe_text(7)});
  }
  return all;
}

int park_endpoint(db::Tx& tx, WebhookId webhook, std::string_view why, TimeMs now) {
  std::vector<OutboxRow> rows;
  {
    db::Query q(tx, "SELECT " BIDE_OUTBOX_COLUMNS "WHERE webhook_id = ? AND parked_at IS NULL ORDER BY id");
    rows = read_all(q.bind(webhook));
  }
  db::Query(tx, "UPDATE outbox SET parked_at = ?2, last_error = ?3 WHERE webhook_id = ?1 AND parked_at IS NULL")
      .bind(webhook, now, why)
      .run();
  for (const OutboxRow& row : rows) parked_with_endpoint(tx, now, row, why);
  return static_cast<int>(rows.size());
}

}  // namespace bide::kernel
