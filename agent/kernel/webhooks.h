// Webhooks: endpoints of others that hear of events. What an event means for them is decided in its transaction [O1]:
// a row of the outbox for each endpoint whose filter it fits, with a body that never changes [I5].
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/errors.h"
#include "agent/kernel/events.h"
#include "db/tx.h"

namespace bide::kernel {

struct WebhookRow {
  WebhookId id;
  std::string url;
  std::string filter;   // JSON: {"events":["run.failed","wait.*","needs_attention"],"workflow":…,"mission":…}
  std::string secrets;  // JSON: [{"secret","until"}]
  std::string allow;    // JSON: ["127.0.0.1:9000"]
  std::string format;   // standard | cloudevents
  bool decision_links = false;
  std::optional<TimeMs> disabled_at;
  std::optional<std::string> disabled_why;
  std::string created_by;
  TimeMs created_at = 0;
};
[[nodiscard]] std::optional<WebhookRow> read_webhook(db::ReadTx& tx, WebhookId id);
[[nodiscard]] std::vector<WebhookRow> list_webhooks(db::ReadTx& tx, WebhookId after, int limit);

struct WebhookAdded {
  WebhookRow row;
};
// Problem codes: too_many_webhooks 409, webhook_not_found 404.
using WebhookOutcome = std::variant<WebhookAdded, Problem>;
struct NewWebhook {
  std::string url;
  std::string filter = "{}";
  std::string secret;  // "whsec_" and base64
  std::string allow = "[]";
  std::string format = "standard";
  bool decision_links = false;
};
[[nodiscard]] WebhookOutcome add_webhook(db::Tx& tx, const NewWebhook& add, std::string_view by, TimeMs now);
struct WebhookChange {
  std::optional<std::string> url;
  std::optional<std::string> filter;
  std::optional<std::string> allow;
  std::optional<bool> enabled;
  std::optional<std::string> format;
  std::optional<bool> decision_links;
};
// Rows that wait for the endpoint keep their URL, but for a change of it: they go to the new one.
[[nodiscard]] WebhookOutcome change_webhook(db::Tx& tx, WebhookId id, const WebhookChange& change, TimeMs now);
// Standard Webhooks: the new secret signs at once, the old ones beside it for a day.
[[nodiscard]] WebhookOutcome rotate_secret(db::Tx& tx, WebhookId id, std::string_view secret, TimeMs now);
// Its rows are dropped with it. The number of these, or nullopt: no such webhook.
[[nodiscard]] std::optional<int> remove_webhook(db::Tx& tx, WebhookId id, std::string_view by, TimeMs now);
// Switched off because the receiver said 410, or by an operator; its rows are parked with the reason.
void disable_webhook(db::Tx& tx, WebhookId id, std::string_view why, TimeMs now);
// A row with an event of kind webhook.test for this endpoint alone. nullopt: no such webhook, or it is off.
[[nodiscard]] std::optional<DeliveryId> test_webhook(db::Tx& tx, WebhookId id, std::string_view by, TimeMs now);

// The secrets that sign at `now`, newest first.
[[nodiscard]] std::vector<std::string> signing_secrets(std::string_view secrets, TimeMs now);
// What is wrong with a filter as users bring it, with pointers; none: it is one.
[[nodiscard]] std::vector<PointerError> filter_errors(std::string_view filter);

// Facts that stand in a notice: kept in the file, so that the kernel needs no argument for them.
void set_page_url(db::Tx& tx, std::string_view url);          // "http://127.0.0.1:7433/"; empty: no links
void ensure_agent_id(db::Tx& tx, std::string_view fresh_id);  // of the box: keys of two boxes differ
[[nodiscard]] std::string agent_id(db::ReadTx& tx);           // empty before the first start

// Called by append_event. The first is a look at an index that is empty on most boxes; the second writes the rows that
// the event asks for.
[[nodiscard]] bool has_webhooks(db::ReadTx& tx);
void notify_webhooks(db::Tx& tx, const EventRow& event);

}  // namespace bide::kernel
