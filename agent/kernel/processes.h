// Rows of processes of program runs: guards (no step) and holders (a step's) [K7, W7].
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/kernel/runs.h"
#include "db/tx.h"

namespace bide::kernel {

struct ProcessRow {
  ProcessId id;
  RunId run;
  std::optional<StepId> step;
  std::string nonce;
  std::int64_t epoch = 0;
  std::int64_t pid = 0;
  std::int64_t pid_start = 0;  // clock ticks since boot: a pid can be used again
  std::string boot_id;
  TimeMs started_at = 0;
  bool stopping = false;   // a holder whose step is settled: it is to end, with all that is below it
  bool handed_in = false;  // a holder: its outcome is recorded
  bool holds = false;      // a holder, its step is `started` by it, and the run is live: it goes on
};
// Fenced; invalid id: the lease is lost, nothing was written. row.id is ignored.
[[nodiscard]] ProcessId add_process(db::Tx& tx, const Fence& fence, const ProcessRow& row, TimeMs now);
// True: it was not stopped before.
bool mark_stopped(db::Tx& tx, ProcessId process, std::optional<int> exit_code, TimeMs now);
// Processes that are not stopped, after `after`, run by run and there by id.
[[nodiscard]] std::vector<ProcessRow> live_processes(db::ReadTx& tx, ProcessId after, int limit);
// Those of them that are the run's holders.
[[nodiscard]] std::vector<ProcessRow> live_holders(db::ReadTx& tx, RunId run);
// running → stopping, for the holders of this run whose step is not `started` by them any more: they are ended [W7],
// and until then no attempt begins [K7].
void retire_holders(db::Tx& tx, RunId run);
// Whether mark_previous_alive would mark any.
[[nodiscard]] bool previous_alive_due(db::ReadTx& tx, TimeMs now);
// Queued and due runs that a process of an earlier attempt has held for limits::kPreviousAliveMs:
// sets reason previous_attempt_alive. Returns how many.
int mark_previous_alive(db::Tx& tx, TimeMs now);

}  // namespace bide::kernel
