#include "agent/kernel/messages.h"

#include "agent/base/json.h"
#include "agent/kernel/events.h"
#include "agent/kernel/outbox.h"

namespace bide::kernel {

IntentOutcome send_message(db::Tx& tx, const Fence& fence, const Message& message, bool reset_recoveries, TimeMs now) {
  if (!holds(tx, fence)) return LeaseLost{};
  NewDelivery row;
  row.kind = OutboxKind::message;
  row.run = fence.run;
  row.destination = message.url;
  row.request = message.body;
  row.idem_key = message.key;
  const DeliveryId delivery = write_delivery(tx, row, now);
  const std::string result =
      json::Writer().begin_object().member("delivery", delivery.value).member("key", message.key).end_object().take();
  const auto recorded = record_value(tx, fence, message.intent, result, reset_recoveries, now);
  append_event(tx, now, "message.sent", fence.run, std::get<StepId>(recorded),
               json::Writer()
                   .begin_object()
                   .member("name", message.intent.name)
                   .member("delivery", delivery.value)
                   .member("to", lane_of(message.url))
                   .member("key", message.key)
                   .end_object()
                   .text());
  return recorded;
}

}  // namespace bide::kernel
