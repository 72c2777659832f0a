// How a run ends or pauses: suspension, finish, cancel. One transaction each; the caller rings who must know.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/errors.h"
#include "agent/kernel/runs.h"
#include "agent/kernel/undo.h"
#include "db/tx.h"

namespace bide::kernel {

// A2: hand the run back because every branch waits, or go on because an answer is there. Fenced.
// Suspended: queued until the earliest timer or retry [A12], else waiting.
struct Suspended {
  std::optional<TimeMs> wakes_at;
};
struct GoOn {};  // a wait that the attempt believes pending is settled, a timer or retry is due, or a cancel came
using SuspendOutcome = std::variant<Suspended, GoOn, LeaseLost>;
// What the attempt waits for. Of this only: an open entry that its code has not come to (again) wakes nobody, or the
// run would be woken for it over and over.
struct Awaited {
  std::vector<WaitId> waits;    // believed pending
  std::vector<StepId> retries;  // steps that are pending until their not_before
  std::vector<StepId> tasks;    // done by somebody else, and not done yet
};
// `undoing`: the end is written already, and its compensations wait [E6].
[[nodiscard]] SuspendOutcome suspend_run(db::Tx& tx, const Fence& fence, const Awaited& awaited, TimeMs now,
                                         bool undoing = false);

// The end that the code asks for. Under the cancel flag it ends cancelled [X1]. Open waits are cancelled.
// X7: a completed run begins a new one of the same workflow in the transaction of its end.
struct ContinueAsNew {
  std::string input;  // checked JSON
  std::string uid;    // Random::uid()
  VersionId version;  // invalid: the one that the run has
};
struct Finish {
  std::optional<std::string> result;  // JSON: completed
  std::optional<std::string> error;   // JSON: failed
  std::optional<ContinueAsNew> continue_as_new;
};
// queued_again: not ended: by queue_once_more(), or it waits for a task that it lets finish [P1]; claimed once more.
// compensate: it ends failed or cancelled, and steps are to be taken back first. The end is written, waits, steps and
// children are closed, the run stays running; finish again when that is done [E6].
enum class Finished { completed, failed, cancelled, lease_lost, queued_again, compensate };
// `ripples` of all ends: may be null when nobody can be driven (tests).
[[nodiscard]] Finished finish_run(db::Tx& tx, const Fence& fence, const Finish& finish, TimeMs now,
                                  Ripples* ripples = nullptr);

// J9: native code ended while an entry was open. The first time the run is queued once more, and E1 applies to what is
// open; again so nothing is written, and it has to fail with OpenSteps.
enum class OnceMore { queued, spent, lease_lost };
[[nodiscard]] OnceMore queue_once_more(db::Tx& tx, const Fence& fence, TimeMs now);

// E6, V1: the end is written before anything acts on it: `error` on the live run, fenced. The first one stays.
// P1: nothing more begins: open waits and pending steps are cancelled in this transaction; what executes is let finish.
// False: lease lost.
[[nodiscard]] bool record_error(db::Tx& tx, const Fence& fence, std::string_view error, TimeMs now);

// A queued run fails without its code: CrashLoop.
void fail_queued(db::Tx& tx, RunId run, std::string_view error, TimeMs now, Ripples* ripples = nullptr);

// X1. Cancel from every live state.
struct CancelEnded {               // it was not running: ended in this transaction
  std::vector<Compensation> left;  // what was not taken back, because the operator said so
};
struct CancelTold {};         // running: flagged; ring its attempt
struct CancelCompensates {};  // flagged: the next claim takes back what was done, and ends it [E6]
struct AlreadyEnded {
  RunStatus status;
};
struct NoSuchRun {};
using CancelOutcome = std::variant<CancelEnded, CancelTold, CancelCompensates, AlreadyEnded, NoSuchRun>;
struct CancelAsk {
  std::string by;
  std::string reason;
  bool without_compensation = false;
};
[[nodiscard]] CancelOutcome cancel_run(db::Tx& tx, RunId run, const CancelAsk& ask, TimeMs now,
                                       Ripples* ripples = nullptr);
[[nodiscard]] CancelOutcome cancel_run(db::Tx& tx, RunId run, std::string_view by, std::string_view reason, TimeMs now,
                                       Ripples* ripples = nullptr);
// The same for a live run whose children the caller has cancelled already [P1].
void cancel_alone(db::Tx& tx, RunId run, std::string_view by, std::string_view reason, TimeMs now, Ripples* ripples);
// A flagged run that nobody drives: it ends now, or is queued to take back what it did. True: it ended.
bool end_flagged(db::Tx& tx, RunId run, TimeMs now, Ripples* ripples);

// A queued or waiting run ends cancelled: its waits are cancelled; a started non_idempotent step may have had its
// effect and is left needs_reconcile (listed, asked no more); other open steps are cancelled.
void end_cancelled(db::Tx& tx, RunId run, TimeMs now, Ripples* ripples = nullptr);

// X3. An operator's retry of a failed run: queued, error cleared; the failed step and those cancelled by the failure
// are open again (steps pending with failures 0, waits with a new wait). Completed ones stay.
struct RunRetried {};
// Problem codes: run_not_found 404, not_failed 409 (only a failed run is retried), decided 409 (a decision or expiry
// ended it), compensated 409, parent_told 409.
using RetryOutcome = std::variant<RunRetried, Problem>;
[[nodiscard]] RetryOutcome retry_run(db::Tx& tx, RunId run, std::string_view by, TimeMs now,
                                     Ripples* ripples = nullptr);

// At a run's end: a started non_idempotent step is left needs_reconcile, other open ones are cancelled.
void close_open_steps(db::Tx& tx, RunId run, TimeMs now);
// Cancels the pending waits of a run; returns how many.
int cancel_waits(db::Tx& tx, RunId run, TimeMs now);

}  // namespace bide::kernel
