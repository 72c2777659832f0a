// Judging a decision: who may, does it fit, does it decide. Used by waits.cpp; routes call resolve_wait.
#pragma once

#include <optional>
#include <string_view>

#include "agent/kernel/waits.h"

namespace bide::kernel {

// `refusal`: the audit's verdict for what is not accepted ("refused", or "dropped" for an early decision).
[[nodiscard]] ResolveOutcome judge_wait(db::Tx& tx, WaitId wait, const Decision& decision, const Principal& by,
                                        std::string_view refusal, TimeMs now);
// The decision is accepted: vote, resolution, event, wake [A6, A7].
[[nodiscard]] ResolveOutcome settle_decision(db::Tx& tx, const WaitRow& wait, const Decision& decision,
                                             const Principal& by, TimeMs now);
// pending → resolved with this value and its event. Wakes nobody.
void store_resolution(db::Tx& tx, WaitId wait, std::string_view resolution, const std::optional<std::string>& by,
                      TimeMs now);

// E4: "ran", "run", "abort" for the words that mean them as a whole; empty: not understood.
[[nodiscard]] std::string_view reconcile_verdict(std::string_view answer_json);

}  // namespace bide::kernel
