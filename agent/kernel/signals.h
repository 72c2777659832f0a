// Signals: messages to a run, first in first out by name [A9].
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "agent/base/errors.h"
#include "agent/kernel/principal.h"
#include "agent/kernel/runs.h"
#include "db/tx.h"

namespace bide::kernel {

struct SignalSent {
  SignalId id;
  Woke woke = Woke::queued;
  bool consumed = false;  // a wait was there for it
};
struct SignalRepeated {  // the dedupe_key was there, with the same payload: no-op
  SignalId id;
};
// Problem codes: run_not_found 404, run_ended 409, dedupe_conflict 422, too_many_signals 429.
using SignalOutcome = std::variant<SignalSent, SignalRepeated, Problem>;
[[nodiscard]] SignalOutcome send_signal(db::Tx& tx, RunId run, std::string_view name, std::string_view payload,
                                        const std::optional<std::string>& dedupe_key, const Principal& by, TimeMs now);

// The oldest unread signal of a name is consumed by the step; nullopt: none. Returns the wait's resolution.
[[nodiscard]] std::optional<std::string> consume_signal(db::Tx& tx, RunId run, std::string_view name, StepId step);

}  // namespace bide::kernel
