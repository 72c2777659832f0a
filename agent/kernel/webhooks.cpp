#include "agent/kernel/webhooks.h"

#include <nlohmann/json.hpp>

#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/time.h"
#include "agent/kernel/delivery_events.h"
#include "agent/kernel/outbox.h"

namespace bide::kernel {
namespace {

using Json = nlohmann::json;

#define BIDE_WEBHOOK_COLUMNS                                                                                         \
  "id, url, filter, secrets, allow, disabled_at, disabled_why, created_by, created_at, format, decision_links FROM " \
  "webhooks "

WebhookRow read_row(db::Query& q) {
  WebhookRow row;
  row.id = WebhookId(q.integer(0));
  row.url = q.text(1);
  row.filter = q.text(2);
  row.secrets = q.text(3);
  row.allow = q.text(4);
  row.disabled_at = q.maybe_integer(5);
  row.disabled_why = q.maybe_text(6);
  row.created_by = q.text(7);
  row.created_at = q.integer(8);
  row.format = q.text(9);
  row.decision_links = q.integer(10) != 0;
  return row;
}

Problem not_there(WebhookId id) {
  return problem("webhook_not_found", "There is no webhook " + std::to_string(id.value) + ".", "bide webhook list");
}

void set_meta(db::Tx& tx, std::string_view key, std::string_view value) {
  db::Query(tx,
            "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value "
            "WHERE value <> excluded.value")
      .bind(key, value)
      .run();
}

std::string secrets_with(std::string_view older, std::string_view secret, TimeMs now) {
  Json list = Json::array();
  list.push_back({{"secret", std::string(secret)}, {"until", nullptr}});
  for (const Json& one : Json::parse(older)) {
    const TimeMs until = one["until"].is_null() ? now + limits::kRotationMs : one["until"].get<TimeMs>();
    if (until > now) list.push_back({{"secret", one["secret"]}, {"until", until}});
  }
  return list.dump();
}

}  // namespace

std::optional<WebhookRow> read_webhook(db::ReadTx& tx, WebhookId id) {
  db::Query q(tx, "SELECT " BIDE_WEBHOOK_COLUMNS "WHERE id = ?");
  q.bind(id);
  if (!q.next()) return std::nullopt;
  return read_row(q);
}

std::vector<WebhookRow> list_webhooks(db::ReadTx& tx, WebhookId after, int limit) {
  std::vector<WebhookRow> rows;
  db::Query q(tx, "SELECT " BIDE_WEBHOOK_COLUMNS "WHERE id > ? ORDER BY id LIMIT ?");
  q.bind(after, limit);
  while (q.next()) rows.push_back(read_row(q));
  return rows;
}

WebhookOutcome add_webhook(db::Tx& tx, const NewWebhook& add, std::string_view by, TimeMs now) {
  {
    db::Query q(tx, "SELECT count(*) FROM webhooks");
    if (q.one().integer(0) >= limits::kWebhooks)
      return problem("too_many_webhooks", "An agent has at most " + std::to_string(limits::kWebhooks) +
                                              " webhooks: each event is compared with all of them.");
  }
  db::Query(tx,
            "INSERT INTO webhooks (url, filter, secrets, allow, created_by, created_at, format, decision_links) VALUES "
            "(?,?,?,?,?,?,?,?)")
      .bind(add.url, add.filter, secrets_with("[]", add.secret, now), add.allow, by, now, add.format,
            add.decision_links)
      .run();
  return WebhookAdded{read_webhook(tx, WebhookId(tx.last_insert_id())).value()};
}

WebhookOutcome change_webhook(db::Tx& tx, WebhookId id, const WebhookChange& change, TimeMs now) {
  if (!read_webhook(tx, id)) return not_there(id);
  db::Query(tx,
            "UPDATE webhooks SET url = coalesce(?2, url), filter = coalesce(?3, filter), allow = coalesce(?4, allow), "
            "format = coalesce(?5, format), decision_links = coalesce(?6, decision_links) WHERE id = ?1")
      .bind(id, change.url, change.filter, change.allow, change.format, change.decision_links)
      .run();
  if (change.url) {
    db::Query(tx, "UPDATE outbox SET destination = ?2, lane = ?3 WHERE webhook_id = ?1")
        .bind(id, *change.url, lane_of(*change.url))
        .run();
  }
  if (change.enabled == true)
    db::Query(tx, "UPDATE webhooks SET disabled_at = NULL, disabled_why = NULL WHERE id = ?").bind(id).run();
  if (change.enabled == false) disable_webhook(tx, id, "switched off by an operator", now);
  return WebhookAdded{read_webhook(tx, id).value()};
}

WebhookOutcome rotate_secret(db::Tx& tx, WebhookId id, std::string_view secret, TimeMs now) {
  const auto row = read_webhook(tx, id);
  if (!row) return not_there(id);
  db::Query(tx, "UPDATE webhooks SET secrets = ?2 WHERE id = ?1")
      .bind(id, secrets_with(row->secrets, secret, now))
      .run();
  return WebhookAdded{read_webhook(tx, id).value()};
}

std::optional<int> remove_webhook(db::Tx& tx, WebhookId id, std::string_view by, TimeMs now) {
  const auto row = read_webhook(tx, id);
  if (!row) return std::nullopt;
  std::vector<DeliveryId> rows;
  {
    db::Query q(tx, "SELECT id FROM outbox WHERE webhook_id = ? ORDER BY id");
    q.bind(id);
    while (q.next()) rows.push_back(DeliveryId(q.integer(0)));
  }
  for (const DeliveryId delivery : rows) (void)drop_delivery(tx, delivery, by, now);
  db::Query(tx, "DELETE FROM webhooks WHERE id = ?").bind(id).run();
  return static_cast<int>(rows.size());
}

void disable_webhook(db::Tx& tx, WebhookId id, std::string_view why, TimeMs now) {
  const int changed =
      db::Query(tx, "UPDATE webhooks SET disabled_at = ?2, disabled_why = ?3 WHERE id = ?1 AND disabled_at IS NULL")
          .bind(id, now, why)
          .run();
  if (changed == 0) return;
  const int parked = park_endpoint(tx, id, why, now);
  append_event(tx, now, "webhook.disabled", RunId(), StepId(),
               json::Writer()
                   .begin_object()
                   .member("webhook", id.value)
                   .member("why", why)
                   .member("parked", parked)
                   .end_object()
                   .text());
}

std::vector<std::string> signing_secrets(std::string_view secrets, TimeMs now) {
  std::vector<std::string> valid;
  const Json list = Json::parse(secrets, nullptr, false);
  if (!list.is_array()) return valid;
  for (const Json& one : list) {
    const bool over = one.contains("until") && one["until"].is_number() && one["until"].get<TimeMs>() <= now;
    if (!over && one.contains("secret") && one["secret"].is_string()) valid.push_back(one["secret"].get<std::string>());
  }
  return valid;
}

std::vector<PointerError> filter_errors(std::string_view filter) {
  std::vector<PointerError> errors;
  const Json document = Json::parse(filter, nullptr, false);
  if (!document.is_object()) return {{"", "must be an object"}};
  for (const auto& [key, value] : document.items()) {
    if (key == "workflow" || key == "mission") {
      if (!value.is_string()) errors.push_back({"/" + key, "must be a text"});
    } else if (key != "events") {
      errors.push_back({"/" + key, "is not known: a filter has events, workflow and mission"});
    } else if (!value.is_array() || value.empty()) {
      errors.push_back({"/events", "must be a list of kinds, such as [\"run.failed\", \"wait.*\"]"});
    } else {
      for (std::size_t i = 0; i < value.size(); ++i) {
        const bool text = value[i].is_string() && !value[i].get<std::string>().empty();
        if (!text) errors.push_back({"/events/" + std::to_string(i), "must be a kind of event"});
      }
    }
  }
  return errors;
}

void set_page_url(db::Tx& tx, std::string_view url) { set_meta(tx, "page_url", url); }

void ensure_agent_id(db::Tx& tx, std::string_view fresh_id) {
  db::Query(tx, "INSERT INTO meta (key, value) VALUES ('agent_id', ?) ON CONFLICT (key) DO NOTHING")
      .bind(fresh_id)
      .run();
}

std::string agent_id(db::ReadTx& tx) {
  db::Query q(tx, "SELECT value FROM meta WHERE key = 'agent_id'");
  return q.next() ? q.text(0) : "";
}

}  // namespace bide::kernel
