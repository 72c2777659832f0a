// Decision links: a capability in a notice that decides one approval once, for endpoints that are configured for it.
// Signed with a secret of the file, bound to the wait, to what is asked, to the endpoint and to a short life.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "agent/base/errors.h"
#include "agent/kernel/waits.h"
#include "db/tx.h"

namespace bide::kernel {

// Makes the secret if there is none yet.
void ensure_link_key(db::Tx& tx, std::string_view fresh);

// "<wait>.<webhook>.<until, s>.<signature>"; empty: there is no secret, or the wait is no approval.
[[nodiscard]] std::string decision_token(db::ReadTx& tx, WaitId wait, WebhookId webhook, TimeMs now);

struct LinkedDecision {
  WaitRow wait;
  Principal by;  // "link:webhook-3", who may approve
  std::string digest;
};
// Whom a token lets decide what. Problem: link_invalid 404 (forged, damaged, its endpoint is gone or off), link_expired
// 410.
[[nodiscard]] std::variant<LinkedDecision, Problem> read_decision_token(db::ReadTx& tx, std::string_view token,
                                                                        TimeMs now);

}  // namespace bide::kernel
