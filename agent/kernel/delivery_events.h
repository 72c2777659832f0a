// The events of deliveries: each try with status and time [O5], and what operators did. The destination is told
// without path and query, which may carry a secret.
#pragma once

#include <string_view>

#include "agent/kernel/outbox.h"

namespace bide::kernel {

// {"delivery","kind","to","key","tries","status","ms","error"}; delivery.parked also reaches those who are told of
// what needs attention.
void delivery_event(db::Tx& tx, TimeMs now, std::string_view kind, const OutboxRow& row, const Tried& tried);
// delivery.parked, with "endpoint":"off": not tried, because its endpoint was switched off. That is told once, as
// webhook.disabled, and not for each of its rows.
void parked_with_endpoint(db::Tx& tx, TimeMs now, const OutboxRow& row, std::string_view why);
void operator_event(db::Tx& tx, TimeMs now, std::string_view kind, const OutboxRow& row, std::string_view by);

}  // namespace bide::kernel
