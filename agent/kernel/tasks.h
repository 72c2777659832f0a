// Tasks: steps that any worker may do [K8]. An intent is `pending`; a worker claims it under its own epoch, and what it
// says is believed under that epoch only. The run waits meanwhile without a worker of its own.
// Pure transitions; whom an outcome wakes is in Ripples.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/kernel/runs.h"
#include "agent/kernel/steps.h"
#include "db/tx.h"

namespace bide::kernel {

// The intent, due now.
[[nodiscard]] IntentOutcome open_task(db::Tx& tx, const Fence& fence, const StepIntent& intent, bool reset_recoveries,
                                      TimeMs now);

struct TaskClaim {
  StepId step;
  RunId run;
  std::string name;     // of the function
  std::string request;  // JSON
  std::string key;      // J6
  std::string worker;
  std::int64_t epoch = 0;  // of the task
  std::int64_t execution = 1;
  std::int64_t failures = 0;
  std::int64_t retries = 0;
};
// A guarded UPDATE; nullopt: somebody else has it, it is not due, its run does not go on, or `has` says that the worker
// does not know the function. The lease is limits::kTaskLeaseMs.
[[nodiscard]] std::optional<TaskClaim> claim_task(db::Tx& tx, StepId step, std::string_view worker,
                                                  const std::function<bool(const std::string& name)>& has, TimeMs now);

// The oldest that is due, of one of these functions (a JSON array of names); nullopt: none. Not a claim.
[[nodiscard]] std::optional<StepId> due_task(db::ReadTx& tx, std::string_view names, TimeMs now);
// A claim as its worker names it: the task, its epoch and who it is (for a pushed one the epoch is enough). nullopt:
// there is no such task. Whether it holds still is finish_task's to say.
[[nodiscard]] std::optional<TaskClaim> read_task(db::ReadTx& tx, StepId step, std::string_view worker,
                                                 std::int64_t epoch);
// False: another has it by now.
[[nodiscard]] bool extend_task(db::Tx& tx, const TaskClaim& claim, TimeMs until);
// The outcome of this very claim was recorded before, and it was this result [K2].
[[nodiscard]] bool finished_so(db::ReadTx& tx, const TaskClaim& claim, std::string_view result);

struct TaskOutcome {
  std::optional<std::string> result;  // JSON; absent: failed
  std::optional<std::string> usage;
  std::string error;               // JSON
  std::optional<TimeMs> retry_at;  // a failed attempt with retries left [E2]
};
enum class TaskRecorded { settled, again, late };  // late: another has it; kept as an event [K2]
[[nodiscard]] TaskRecorded finish_task(db::Tx& tx, const TaskClaim& claim, const TaskOutcome& outcome, TimeMs now,
                                       Ripples* ripples);

// A lease has ended: lapse_tasks has something to do. Seeks only.
[[nodiscard]] bool lapse_due(db::ReadTx& tx, TimeMs now);
// Leases that have ended: E1 decides. pure and idempotent: pending again; non_idempotent: the question [E3]. Those that
// `alive` says are worked on here go on with a new lease. Returns the tasks that are to be offered again.
[[nodiscard]] std::vector<StepId> lapse_tasks(db::Tx& tx, const std::function<bool(StepId)>& alive, int limit,
                                              TimeMs now, Ripples* ripples);
// K4: at start-up leases of tasks stay, with a whole one from now on.
void keep_task_leases(db::Tx& tx, TimeMs now);

// W6: pending for limits::kTaskRelayMs past their time, on live runs that nobody drives: one a run, at most `limit`,
// and the run's next one not before its backoff. Writes only when there is one.
[[nodiscard]] bool relay_due(db::ReadTx& tx, TimeMs now);
[[nodiscard]] bool relay_due(db::ReadTx& tx, RunId run, TimeMs now);  // for one of this run
[[nodiscard]] std::vector<StepId> relay_tasks(db::Tx& tx, int limit, TimeMs now);

// E4: the answer "run": in doubt → pending, due now. False: the lease is lost.
[[nodiscard]] bool reopen_task(db::Tx& tx, const Fence& fence, StepId step, TimeMs now);

}  // namespace bide::kernel
