// Tasks that are pushed: a function that has a URL is asked there, through the outbox [K8, O1]. The row is the claim:
// the task has no lease while it stands. A 2xx with a body is the result; 202, or no body, means that the app says
// later what came of it, under the epoch that it was told.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kernel/outbox.h"
#include "agent/kernel/tasks.h"
#include "db/tx.h"

namespace bide::kernel {

struct TaskFunction {
  std::string name;
  std::string url;
};
// Empty URL: nobody is called any more. Returns whether something changed.
bool set_task_function(db::Tx& tx, const TaskFunction& function, std::string_view by, TimeMs now);
[[nodiscard]] std::vector<TaskFunction> task_functions(db::ReadTx& tx);

// Whether push_tasks would find one, and when the next one is due.
[[nodiscard]] bool push_due(db::ReadTx& tx, TimeMs now);
[[nodiscard]] std::optional<TimeMs> next_push(db::ReadTx& tx);
// Claims tasks of such functions, each with the row that asks for it; at most `limit`.
int push_tasks(db::Tx& tx, int limit, TimeMs now);

// Owners of pushed tasks begin with this. Whoever may work, and knows the epoch, speaks for one.
inline constexpr std::string_view kPushedOwner = "push:";
// The Idempotency-Key that a row of kind task is sent under: that of the step, the same over all its executions [J6].
[[nodiscard]] std::string_view step_key_of(const OutboxRow& row);
// The task that a row of kind task asks for; invalid for other rows.
[[nodiscard]] StepId task_of(const OutboxRow& row);
// What an endpoint answered with 2xx: recorded, or (202, no body) a lease from now on. `refused`: JSON, the final
// failure that the answer is instead, because it cannot be kept [E9, D4, D5]; empty: it can.
void answer_pushed(db::Tx& tx, const OutboxRow& row, int status, std::string_view body, std::string_view refused,
                   TimeMs now, Ripples* ripples);
// False for a row of kind task whose task is not asked for any more: its run has ended, is cancelled or ends with an
// error, or another execution is under way. Nothing is begun by it [K8, P1].
[[nodiscard]] bool push_wanted(db::ReadTx& tx, const OutboxRow& row);
// The run ends: rows that ask for its tasks are due at once, to be dropped, and parked ones let go of their task.
void end_pushes(db::Tx& tx, RunId run, TimeMs now);
// An operator dropped the row: nobody was asked, or nobody knows; E1 decides at once.
void release_pushed(db::Tx& tx, const OutboxRow& row, TimeMs now);

}  // namespace bide::kernel
