// Runs: starting one, reading one, waking one. Its claims are in claims.h, its ends in endings.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/kernel/states.h"
#include "db/tx.h"

namespace bide::kernel {

// What every write of an attempt proves [K2]: the run is running, under this owner and epoch.
struct Fence {
  RunId run;
  std::int64_t epoch = 0;
  std::string owner;
};
// A refusal, not a fault: the attempt has lost its run, nothing was written.
struct LeaseLost {};
[[nodiscard]] bool holds(db::ReadTx& tx, const Fence& fence);
// The fence holds and a cancel was asked: nothing that is not settled may begin or be answered [A4, X1].
[[nodiscard]] bool cancel_asked(db::ReadTx& tx, const Fence& fence);
// Or its end is written: then too nothing begins [E6, P1].
[[nodiscard]] bool is_ending(db::ReadTx& tx, const Fence& fence);

struct RunRow {
  RunId id;
  std::string uid;
  WorkflowId workflow;
  std::string workflow_name;
  VersionId version;
  std::optional<std::string> mission;
  std::string created_by;
  std::optional<std::string> start_key;
  RunStatus status = RunStatus::queued;
  std::optional<std::string> reason;
  std::int64_t priority = 0;
  TimeMs run_at = 0;
  bool redriven = false;               // a re-drive mark stands on it [W5]
  std::optional<DurationMs> deadline;  // how long it may take, as declared [X5]
  std::optional<TimeMs> paused_at;
  std::int64_t epoch = 0;
  std::optional<std::string> owner;
  std::int64_t recoveries = 0;
  std::optional<TimeMs> cancel_requested_at;
  std::optional<std::string> cancel_reason;
  std::string input;
  std::optional<std::string> result;
  std::optional<std::string> error;
  std::string labels;
  TimeMs created_at = 0;
  std::optional<TimeMs> started_at;
  std::optional<TimeMs> finished_at;
};
// nullopt also for one that retention is about to delete [W9]; lists show none of these.
[[nodiscard]] std::optional<RunRow> read_run(db::ReadTx& tx, RunId id);

struct RunFilter {
  std::optional<RunStatus> status;
  std::optional<std::string> workflow;
  std::optional<std::string> mission;
  RunId before;  // cursor: runs with a smaller id; invalid = from the newest
  int limit = 50;
};
// Newest first.
[[nodiscard]] std::vector<RunRow> list_runs(db::ReadTx& tx, const RunFilter& filter);

// Other runs that a transition touched: whom the caller rings after the commit. What nobody rings for is found by its
// durable twin (a queued row, the cancel flag), later.
struct Ripples {
  std::vector<RunId> changed;  // driven, and something of theirs is settled: they look again
  std::vector<RunId> told;     // driven, and cancelled: X1's time runs
  bool queued = false;         // something is due
};

struct ParentLink {
  StepId step;
  std::string key;  // of that step [J6]
};

struct StartRun {
  WorkflowId workflow;
  VersionId version;
  std::string uid;           // Random::uid()
  std::string input = "{}";  // JSON, checked by the caller
  std::string created_by;
  std::optional<std::string> key;  // a user's start key, holds for (workflow, key) while the run is kept [M1]
  std::optional<std::string> mission;
  std::int64_t priority = 0;
  std::optional<TimeMs> run_at;  // absent: now
  std::string labels = "{}";
  std::optional<ParentLink> parent;    // a child [A11]; `key` is absent then
  std::optional<DurationMs> deadline;  // from run_at on [X5]
};
struct RunStarted {
  RunId run;
};
struct RunExists {  // same key, same input: that run, whatever its state
  RunId run;
};
struct StartKeyTaken {  // same key, other input: 422
  RunId run;
};
using StartOutcome = std::variant<RunStarted, RunExists, StartKeyTaken>;
[[nodiscard]] StartOutcome start_run(db::Tx& tx, const StartRun& start, TimeMs now);

// A12: waiting → queued now; queued → run_at = min(run_at, now); running → untouched, ring the attempt.
enum class Woke { queued, ring_attempt, ended };  // ended: nobody to wake
[[nodiscard]] Woke wake_run(db::Tx& tx, RunId run, TimeMs now);

// The earliest time at which something in the file becomes due: queued runs, waits with a deadline, re-drives.
// (Outbox rows: next_delivery_due; those in flight must not wake anybody.) nullopt: nothing will. Seeks only.
[[nodiscard]] std::optional<TimeMs> next_due(db::ReadTx& tx);

}  // namespace bide::kernel
