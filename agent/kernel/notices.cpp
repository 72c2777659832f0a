// Notices: which events an endpoint hears of, and the bodies that it gets (Standard Webhooks 1.0: type, timestamp,
// data).
#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/time.h"
#include "agent/kernel/links.h"
#include "agent/kernel/outbox.h"
#include "agent/kernel/webhooks.h"

namespace bide::kernel {
namespace {

std::string meta(db::ReadTx& tx, std::string_view key) {
  db::Query q(tx, "SELECT value FROM meta WHERE key = ?");
  q.bind(key);
  return q.next() ? q.text(0) : "";
}

// What somebody must act on; empty: nothing.
std::string attention_of(const EventRow& event) {
  if (event.kind == "delivery.parked") {
    const bool told = json::bool_member(event.payload, "notice").value_or(false) ||
                      json::string_member(event.payload, "endpoint") == "off";
    return told ? "" : "parked";
  }
  if (event.kind == "webhook.disabled") return "webhook_disabled";
  if (event.kind == "step.needs_reconcile") return "in_doubt";
  if (event.kind == "wait.overdue") return "long_wait";
  if (event.kind == "wait.expiring") return "expires_soon";
  if (event.kind == "workflow.missing") return json::string_member(event.payload, "reason").value_or("");
  if (event.kind == "run.failed") {
    const auto error = json::member(event.payload, "error");
    if (error && json::string_member(*error, "code") == "CrashLoop") return "crash_loop";
  }
  return "";
}

bool kind_fits(std::string_view pattern, const EventRow& event, const std::string& attention) {
  if (pattern == "needs_attention") return !attention.empty();
  // Deliveries are told only as something that needs attention: a notice of each notice would never end.
  // A test is for its endpoint alone.
  if (event.kind.starts_with("delivery.") || event.kind == "webhook.test") return false;
  if (pattern == "*" || pattern == event.kind) return true;
  return pattern.ends_with(".*") && std::string_view(event.kind).starts_with(pattern.substr(0, pattern.size() - 1));
}

bool any_kind_fits(std::string_view filter, const EventRow& event, const std::string& attention) {
  if (!json::member(filter, "events")) return kind_fits("*", event, attention);
  for (std::size_t i = 0;; ++i) {
    const auto one = json::at_pointer(filter, "/events/" + std::to_string(i));
    if (!one) return false;
    if (kind_fits(json::as_string(*one).value_or(""), event, attention)) return true;
  }
}

struct About {
  std::string workflow;
  std::optional<std::string> mission;
};

std::optional<About> about(db::ReadTx& tx, RunId run) {
  if (!run.valid()) return std::nullopt;
  db::Query q(tx, "SELECT f.name, r.mission FROM runs r JOIN workflows f ON f.id = r.workflow_id WHERE r.id = ?");
  q.bind(run);
  if (!q.next()) return std::nullopt;
  return About{q.text(0), q.maybe_text(1)};
}

bool run_fits(std::string_view filter, const std::optional<About>& of) {
  const auto workflow = json::string_member(filter, "workflow");
  if (workflow && (!of || of->workflow != *workflow)) return false;
  const auto mission = json::string_member(filter, "mission");
  return !mission || (of && of->mission == mission);
}

struct Target {
  WebhookId id;
  std::string url;
  std::string filter;
  bool cloud_event = false;
  bool decides = false;  // its notices of approvals carry links that decide
};

// A wait tells what is asked and where a person decides. The notice itself gives no right to, unless the endpoint is
// configured for that: a link then decides this wait once, for a short time.
void add_wait(db::ReadTx& tx, json::Writer& out, const EventRow& event, const Target& target) {
  const auto wait = json::int_member(event.payload, "wait");
  if (!event.kind.starts_with("wait.") || event.kind == "wait.resolved" || !wait) return;
  db::Query q(tx, "SELECT json_extract(payload, '$.text'), resolve_by FROM waits WHERE id = ? AND status = 'pending'");
  q.bind(*wait);
  if (!q.next()) return;
  if (!q.null(0)) out.member("asks", q.text(0));
  if (!q.null(1)) out.member("resolve_by", format_time(q.integer(1)));
  const std::string page = meta(tx, "page_url");
  if (page.empty()) return;
  out.member("link", page + "#wait=" + std::to_string(*wait));
  if (!target.decides) return;
  const std::string token = decision_token(tx, WaitId(*wait), target.id, event.at);
  if (!token.empty()) out.member("decide", page + "decide/" + token);
}

std::string data_of(db::ReadTx& tx, const EventRow& event, const std::optional<About>& of, const std::string& attention,
                    const Target& target) {
  json::Writer w;
  w.begin_object().member("event", event.id.value);
  if (event.run.valid()) w.member("run", event.run.value);
  if (event.step.valid()) w.member("step", event.step.value);
  if (of) w.member("workflow", of->workflow).member("mission", of->mission);
  if (!attention.empty()) w.member("needs_attention", attention);
  add_wait(tx, w, event, target);
  return w.member_raw("payload", event.payload.empty() ? "{}" : event.payload).end_object().take();
}

// Of the box, the endpoint and the event: another one for each of these.
std::string message_id(db::ReadTx& tx, WebhookId webhook, const EventRow& event) {
  const std::string text = meta(tx, "agent_id") + ":" + meta(tx, "incarnation") + ":" + std::to_string(webhook.value) +
                           ":" + std::to_string(event.id.value) + ":" + std::to_string(event.at);
  return "msg_" + to_hex(sha256("webhook:" + text)).substr(0, 32);
}

// Standard Webhooks 1.0: {"type","timestamp","data"}. CloudEvents 1.0, structured: its id is that of the message.
std::string body_of(db::ReadTx& tx, const EventRow& event, const Target& target, const std::string& id,
                    const std::string& data) {
  json::Writer w;
  if (!target.cloud_event) {
    w.begin_object().member("type", event.kind).member("timestamp", format_time(event.at));
    return w.member_raw("data", data).end_object().take();
  }
  w.begin_object().member("specversion", "1.0").member("id", id).member("source", "urn:bide:" + meta(tx, "agent_id"));
  w.member("type", "bide." + event.kind).member("time", format_time(event.at));
  if (event.run.valid()) w.member("subject", "runs/" + std::to_string(event.run.value));
  return w.member("datacontenttype", "application/json").member_raw("data", data).end_object().take();
}

DeliveryId write_notice(db::Tx& tx, const Target& target, const EventRow& event, const std::string& data) {
  NewDelivery row;
  row.kind = OutboxKind::webhook;
  row.run = event.run;
  row.webhook = target.id;
  row.destination = target.url;
  row.idem_key = message_id(tx, target.id, event);
  row.request = body_of(tx, event, target, row.idem_key, data);
  return write_delivery(tx, row, event.at);
}

}  // namespace

bool has_webhooks(db::ReadTx& tx) {
  db::Query q(tx, "SELECT 1 FROM webhooks WHERE disabled_at IS NULL LIMIT 1");
  return q.next();
}

void notify_webhooks(db::Tx& tx, const EventRow& event) {
  std::vector<Target> targets;
  {
    db::Query q(
        tx,
        "SELECT id, url, filter, format = 'cloudevents', decision_links FROM webhooks WHERE disabled_at IS NULL "
        "ORDER BY id");
    while (q.next())
      targets.push_back({WebhookId(q.integer(0)), q.text(1), q.text(2), q.integer(3) != 0, q.integer(4) != 0});
  }
  if (targets.empty()) return;
  const std::string attention = attention_of(event);
  // An endpoint is not told through itself that it does not answer.
  const auto itself = event.kind == "delivery.parked" ? json::int_member(event.payload, "webhook") : std::nullopt;
  std::optional<About> of;
  bool looked = false;
  for (const Target& target : targets) {
    if (itself == target.id.value || !any_kind_fits(target.filter, event, attention)) continue;
    if (!looked) of = about(tx, event.run);
    looked = true;
    if (!run_fits(target.filter, of)) continue;
    write_notice(tx, target, event, data_of(tx, event, of, attention, target));
  }
}

std::optional<DeliveryId> test_webhook(db::Tx& tx, WebhookId id, std::string_view by, TimeMs now) {
  const auto row = read_webhook(tx, id);
  if (!row || row->disabled_at) return std::nullopt;
  EventRow event;
  event.at = now;
  event.kind = "webhook.test";
  event.payload = json::Writer().begin_object().member("webhook", id.value).member("by", by).end_object().take();
  event.id = append_event(tx, now, event.kind, RunId(), StepId(), event.payload);
  const Target target{id, row->url, row->filter, row->format == "cloudevents", row->decision_links};
  return write_notice(tx, target, event, data_of(tx, event, std::nullopt, "", target));
}

}  // namespace bide::kernel
