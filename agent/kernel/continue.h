// Continue as new: a run that ends completed goes on as a new one with a short journal [X7].
#pragma once

#include <optional>
#include <string>

#include "agent/kernel/endings.h"
#include "db/tx.h"

namespace bide::kernel {

// In the transaction of the end of `run`: starts its successor, hands over unread signals, decisions ahead of their
// question and, if it is a child, who waits for it. Returns the result of the run that ends: {"continued_as":id}.
[[nodiscard]] std::string continue_run(db::Tx& tx, RunId run, const ContinueAsNew& next, TimeMs now, Ripples* ripples);
// The run that a run went on as; nullopt: it did not.
[[nodiscard]] std::optional<RunId> continued_as(db::ReadTx& tx, RunId run);

}  // namespace bide::kernel
