#include "agent/kernel/delivery_events.h"

#include "agent/base/json.h"
#include "agent/kernel/events.h"

namespace bide::kernel {
namespace {

json::Writer begin(const OutboxRow& row) {
  json::Writer w;
  w.begin_object().member("delivery", row.id.value).member("kind", to_text(row.kind)).member("to", row.lane);
  if (row.webhook.valid()) w.member("webhook", row.webhook.value);
  w.member("key", row.idem_key);
  return w;
}

}  // namespace

void delivery_event(db::Tx& tx, TimeMs now, std::string_view kind, const OutboxRow& row, const Tried& tried) {
  json::Writer w = begin(row);
  w.member("tries", row.tries).member("status", tried.status).member("ms", tried.took);
  if (!tried.error.empty()) w.member("error", tried.error);
  // A parked notice of a parked notice would go round between two dead endpoints.
  const auto type = row.kind == OutboxKind::webhook ? json::string_member(row.request, "type") : std::nullopt;
  if (type == "delivery.parked" || type == "bide.delivery.parked") w.member("notice", true);
  append_event(tx, now, kind, row.run, StepId(), w.end_object().text());
}

void parked_with_endpoint(db::Tx& tx, TimeMs now, const OutboxRow& row, std::string_view why) {
  json::Writer w = begin(row);
  w.member("tries", row.tries).member("error", why).member("endpoint", "off");
  append_event(tx, now, "delivery.parked", row.run, StepId(), w.end_object().text());
}

void operator_event(db::Tx& tx, TimeMs now, std::string_view kind, const OutboxRow& row, std::string_view by) {
  json::Writer w = begin(row);
  append_event(tx, now, kind, row.run, StepId(), w.member("by", by).end_object().text());
}

}  // namespace bide::kernel
