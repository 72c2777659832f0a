// What a reader of the event stream needs beside events.h: a page bounded in bytes, whether its run is over, and what
// retention has taken away before it came [W9]. Reads of one snapshot each; note_pruned belongs to retention.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "agent/kernel/events.h"
#include "agent/kernel/states.h"

namespace bide::kernel {

struct StreamPage {
  std::vector<EventRow> events;
  EventId upto;                     // everything up to here was looked at: where the next page begins
  bool more = false;                // it was cut by `limit` or `bytes`
  std::optional<RunStatus> status;  // of the run that was asked for; nullopt: it is gone, or none was asked for
};
// Events after `after`, oldest first, of one run or (invalid run) of all: at most `limit`, and no further one once
// their payloads have `bytes`.
[[nodiscard]] StreamPage read_stream_page(db::ReadTx& tx, EventId after, RunId run, int limit, std::size_t bytes);

// Every event that was deleted has this id or a smaller one; 0: none was. A reader that has heard all up to it, or of
// a later one, has missed nothing.
[[nodiscard]] EventId events_pruned(db::ReadTx& tx);
// Id of the oldest event, 0 when there is none.
[[nodiscard]] EventId first_event(db::ReadTx& tx);
// To be called in the transaction that deletes them, with the largest id among them.
void note_pruned(db::Tx& tx, EventId largest);

}  // namespace bide::kernel
