// Events: what happened, in order. Written in the transaction of the fact they tell of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "db/tx.h"

namespace bide::kernel {

struct EventRow {
  EventId id;
  TimeMs at = 0;
  std::string kind;  // dotted and stable: run.started, step.completed, wait.created, control.cancel …
  RunId run;         // invalid: no run
  StepId step;       // invalid: no step
  std::string payload;
};

// run and step may be invalid (not about one). payload is a JSON object.
EventId append_event(db::Tx& tx, TimeMs now, std::string_view kind, RunId run, StepId step,
                     std::string_view payload = "{}");
// Events after an id, oldest first, of one run or (invalid run) of all.
[[nodiscard]] std::vector<EventRow> events_after(db::ReadTx& tx, EventId after, RunId run, int limit);
// Id of the newest event, 0 when there is none.
[[nodiscard]] EventId last_event(db::ReadTx& tx);

}  // namespace bide::kernel
