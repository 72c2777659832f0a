// Children: runs that a step of another run started, and what the end of either does to the other [A11, P1].
// Pure transitions; the caller rings whom Ripples name after the commit. Failures: a fence that is lost is a value.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "agent/kernel/runs.h"
#include "agent/kernel/steps.h"
#include "db/tx.h"

namespace bide::kernel {

// `key` is the step's key [J6]: the child's uid and its start key follow from it, so that the same step can only ever
// mean the same run. It inherits created_by, mission and priority.
struct ChildAsk {
  StepIntent intent;  // kind child
  StepId known;  // valid: the step is there, `started`, and has no child (its workflow was not there before a retry)
  WorkflowId workflow;
  VersionId version;
  std::string workflow_name;
  std::string input = "{}";
  std::string key;
  std::optional<DurationMs> deadline;  // of the child, from now on [X5]
};
struct ChildOpened {
  StepId step;
  WaitId wait;
  RunId child;
};
using ChildOutcome = std::variant<ChildOpened, LeaseLost>;
// Intent, wait and child are one transaction.
[[nodiscard]] ChildOutcome open_child(db::Tx& tx, const Fence& fence, const ChildAsk& ask, bool reset_recoveries,
                                      TimeMs now);
// The step waits for this child, which is there.
void wait_for_child(db::Tx& tx, RunId parent, StepId step, RunId child, TimeMs now);
// A child anew for a step whose last one will not go on (an operator's retry): other uid, other keys.
RunId restart_child(db::Tx& tx, RunId parent, StepId step, TimeMs now);

// A run has ended: the step that started it is settled with exactly its outcome, its wait resolved and the parent
// woken, in this transaction. Nothing when it is no child, or when nobody waits for it any more. True: a step was
// settled.
bool tell_parent(db::Tx& tx, RunId child, TimeMs now, Ripples* ripples);

// X7: the step that waits for `child` waits for its successor instead.
void hand_over_child(db::Tx& tx, RunId child, RunId successor);

// P1, X1: the open children of a run that ends failed or cancelled are cancelled, deepest first. Those that run are
// told, the others end in this transaction.
void end_children(db::Tx& tx, RunId run, TimeMs now, Ripples* ripples);

// W3: child steps that are `started` though their run has ended, after `after` by id; at most `limit`. Backstop.
struct LinkedPage {
  std::vector<RunId> ended;  // children whose parent was not told
  StepId last;               // go on after it; invalid: the end was reached
};
[[nodiscard]] LinkedPage ended_children(db::ReadTx& tx, StepId after, int limit);

}  // namespace bide::kernel
