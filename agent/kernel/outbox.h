// Outbox: requests to the world outside, written in the transaction that decided them [O1]; what became of each try.
// A row is due, retrying, parked or gone. Pure transitions: who sends is work/deliverer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/errors.h"
#include "db/tx.h"

namespace bide::kernel {

enum class OutboxKind { wake, task, message, webhook };
[[nodiscard]] std::string_view to_text(OutboxKind kind);
[[nodiscard]] std::optional<OutboxKind> outbox_kind_from(std::string_view text);

struct OutboxRow {
  DeliveryId id;
  OutboxKind kind = OutboxKind::message;
  RunId run;                // invalid: none, or it is deleted
  WebhookId webhook;        // valid for kind webhook
  std::string lane;         // destination: one row of a lane is sent at a time [O4]
  std::string destination;  // URL
  std::string request;      // the body, byte for byte the same at every delivery [I5]
  std::string idem_key;     // the same at every delivery [O3]
  std::int64_t tries = 0;
  TimeMs next_try_at = 0;
  std::optional<TimeMs> first_failed_at;
  std::optional<std::string> last_error;
  std::optional<TimeMs> parked_at;
  TimeMs created_at = 0;
};

struct NewDelivery {
  OutboxKind kind = OutboxKind::message;
  RunId run;
  WebhookId webhook;
  std::string destination;
  std::string request;
  std::string idem_key;
};
// O2: born due at now + 30 000, announced to whoever delivers after the COMMIT.
DeliveryId write_delivery(db::Tx& tx, const NewDelivery& row, TimeMs now);
// "https://host:port" in lower case, without a user; a text that is no URL is its own lane.
[[nodiscard]] std::string lane_of(std::string_view url);

[[nodiscard]] std::optional<OutboxRow> read_delivery(db::ReadTx& tx, DeliveryId id);

// O2, at start-up: every row with tries 0 is due. Returns how many.
int make_untried_due(db::Tx& tx, TimeMs now);
// Rows that nobody had room for right after their COMMIT: due now, if they have not been tried [O2].
int make_range_due(db::Tx& tx, DeliveryId first, DeliveryId last, TimeMs now);

// O4: a page of due rows, oldest first, without those of the lanes in `full` (a JSON array of texts).
struct DueCursor {
  TimeMs next_try_at = -1;
  DeliveryId id;
};
struct DueRow {
  DeliveryId id;
  TimeMs next_try_at = 0;
  std::string lane;
};
[[nodiscard]] std::vector<DueRow> due_deliveries(db::ReadTx& tx, const DueCursor& after, std::string_view full,
                                                 int limit, TimeMs now);
// When the next row is due; nullopt: none will be by itself.
[[nodiscard]] std::optional<TimeMs> next_delivery_due(db::ReadTx& tx);
// The lanes of rows that are not parked.
[[nodiscard]] std::vector<DueRow> find_deliveries(db::ReadTx& tx, const std::vector<DeliveryId>& ids);
[[nodiscard]] std::int64_t count_parked(db::ReadTx& tx);

// What came of one try.
struct Tried {
  DeliveryId id;
  std::int64_t status = 0;  // of HTTP, or a broker's reason code; 0: no answer, or a broker's success
  DurationMs took = 0;
  std::string error;  // empty: delivered
};
// The row is deleted, with the event delivery.delivered [O4].
void record_delivered(db::Tx& tx, const Tried& tried, TimeMs now);
// The try right after the COMMIT failed: due now, tries untouched [O2].
void record_fresh_failed(db::Tx& tx, const Tried& tried, TimeMs now);

struct FailureRules {
  DurationMs retry_after = 0;  // what the answer asked for, capped [O5]
  DurationMs park_after = 0;
  std::int64_t together = 0;  // rows of this lane that failed in this second before this one
  std::uint64_t chance = 0;   // spreads rows that fail together
  bool never = false;         // cannot succeed: parked at once
};
struct FailureRecorded {
  bool parked = false;
  std::int64_t tries = 0;
  TimeMs next_try_at = 0;
};
// O5. nullopt: the row is not there any more, or was parked by somebody else.
std::optional<FailureRecorded> record_failed(db::Tx& tx, const Tried& tried, const FailureRules& rules, TimeMs now);
// There was no network at all: that counts for nothing, the row is due again a little later [O5].
void postpone(db::Tx& tx, DeliveryId id, TimeMs until);

// The wait before try n + 1, without Retry-After and spreading: min(5 000 · 2^(tries−1), 600 000).
[[nodiscard]] DurationMs delivery_backoff(std::int64_t tries);

// -- Operators. Problem codes: delivery_not_found 404, endpoint_off 409.
struct DeliveryChanged {
  DeliveryId id;
};
using DeliveryOutcome = std::variant<DeliveryChanged, Problem>;
// A parked row starts afresh under the same key; one in backoff is due at once.
[[nodiscard]] DeliveryOutcome retry_delivery(db::Tx& tx, DeliveryId id, std::string_view by, TimeMs now);
[[nodiscard]] DeliveryOutcome drop_delivery(db::Tx& tx, DeliveryId id, std::string_view by, TimeMs now);
// All rows of a lane that are parked or in backoff, but for those of endpoints that are off; returns how many, at most
// `limit` in a transaction.
int retry_lane(db::Tx& tx, std::string_view lane, int limit, std::string_view by, TimeMs now);
// All rows of a lane.
int drop_lane(db::Tx& tx, std::string_view lane, int limit, std::string_view by, TimeMs now);

enum class DeliveryStatus { due, retrying, parked };
[[nodiscard]] std::string_view to_text(DeliveryStatus status);
[[nodiscard]] DeliveryStatus status_of(const OutboxRow& row);
struct DeliveryFilter {
  std::optional<DeliveryStatus> status;
  RunId run;         // invalid: of all
  std::string lane;  // empty: all
  DeliveryId after;  // oldest first
  int limit = 50;
};
[[nodiscard]] std::vector<OutboxRow> list_deliveries(db::ReadTx& tx, const DeliveryFilter& filter);

// What is known of a destination from what waits for it: one that takes everything has no rows, and is not listed.
struct Destination {
  std::string lane;
  std::int64_t rows = 0;
  std::int64_t retrying = 0;
  std::int64_t parked = 0;
  TimeMs oldest_at = 0;                   // when the oldest of its rows was written
  std::optional<TimeMs> failing_since;    // the first failure of a row that still waits
  std::optional<TimeMs> next_try_at;      // absent: all are parked
  std::optional<std::string> last_error;  // of the row that failed last
  // "ok": nothing failed; "failing": rows are retried; "parked": nothing will be tried by itself.
  [[nodiscard]] std::string_view state() const;
};
// By lane, those after `after`.
[[nodiscard]] std::vector<Destination> list_destinations(db::ReadTx& tx, std::string_view after, int limit);

// Parks every row of an endpoint that is not parked (it was switched off); returns how many.
int park_endpoint(db::Tx& tx, WebhookId webhook, std::string_view why, TimeMs now);

// -- Remote workflows [O7]. The request that wakes a run's app, at the "url" of its version's manifest. False: the
// run is not a queued one of a remote workflow with such a URL.
bool write_wake(db::Tx& tx, RunId run, TimeMs now);
// Runs of remote workflows that are called, due, and whose app was not told since they were queued.
[[nodiscard]] std::vector<RunId> due_wakes(db::ReadTx& tx, int limit, TimeMs now);
// Queued runs of remote workflows, due for 60 000, without a wake row that is not parked, and whose backoff is over.
[[nodiscard]] std::vector<RunId> lost_wakes(db::ReadTx& tx, int limit, TimeMs now);
// A new wake row for one of these, with W5's backoff written before it; of parked ones the newest stays. False: it
// needs none any more.
bool wake_again(db::Tx& tx, RunId run, TimeMs now);

}  // namespace bide::kernel
