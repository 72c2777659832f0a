// Waits: what a step waits for, and how people, signals and time answer it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/errors.h"
#include "agent/kernel/principal.h"
#include "agent/kernel/runs.h"
#include "agent/kernel/steps.h"
#include "db/tx.h"

namespace bide::kernel {

struct WaitRow {
  WaitId id;
  RunId run;
  StepId step;
  WaitKind kind = WaitKind::approval;
  std::string name;
  WaitStatus status = WaitStatus::pending;
  std::string payload;  // JSON: {"text","options","schema","policy","quorum","data","default"}
  std::string digest;   // 32 raw bytes: sha256 of the canonical payload
  std::optional<TimeMs> resolve_by;
  std::optional<std::string> resolution;  // JSON
  std::optional<std::string> resolved_by;
  TimeMs created_at = 0;
  std::optional<TimeMs> resolved_at;
};
[[nodiscard]] std::optional<WaitRow> read_wait(db::ReadTx& tx, WaitId wait);
// The latest wait of a step: the one whose answer counts.
[[nodiscard]] std::optional<WaitRow> latest_wait(db::ReadTx& tx, StepId step);
[[nodiscard]] std::vector<WaitRow> pending_waits(db::ReadTx& tx, RunId run);

struct WaitFilter {
  std::optional<WaitStatus> status;
  std::optional<WaitKind> kind;
  std::optional<RunId> run;
  bool inbox_only = false;  // approvals, questions, reconcile questions
  WaitId after;             // cursor: oldest first
  int limit = 50;
};
[[nodiscard]] std::vector<WaitRow> list_waits(db::ReadTx& tx, const WaitFilter& filter);

// A pending wait of a step, with its event.
WaitId add_wait(db::Tx& tx, RunId run, StepId step, WaitKind kind, std::string_view name, std::string_view payload,
                std::optional<TimeMs> resolve_by, TimeMs now);

// A1: intent, wait, wait.created are one transaction.
struct WaitAsk {
  StepIntent intent;  // kind timer | approval | question | signal
  WaitKind kind = WaitKind::approval;
  std::string payload = "{}";
  std::optional<TimeMs> resolve_by;
};
struct WaitOpened {
  StepId step;
  WaitId wait;
  bool settled = false;  // an early decision or an unread signal has answered it in this transaction [A9]
};
using OpenOutcome = std::variant<WaitOpened, LeaseLost>;
[[nodiscard]] OpenOutcome open_wait(db::Tx& tx, const Fence& fence, const WaitAsk& ask, bool reset_recoveries,
                                    TimeMs now);

// A9: an early decision or an unread signal settles a wait in the transaction that opens it.
[[nodiscard]] bool answered_early(db::Tx& tx, RunId run, StepId step, WaitId wait, WaitKind kind, std::string_view name,
                                  TimeMs now);

// E3: step needs_reconcile, event and question in one transaction. The question shows what is known (evidence.h);
// `probe`: what came of asking it. From started; a step already in doubt with a pending question keeps it.
using DoubtOutcome = std::variant<WaitId, LeaseLost>;
[[nodiscard]] DoubtOutcome put_in_doubt(db::Tx& tx, const Fence& fence, StepId step, std::string_view probe,
                                        TimeMs now);

// A decision as a person sends it. Exactly one of decision and answer is set.
struct Decision {
  std::optional<std::string> decision;  // approved | denied | changes_requested
  std::optional<std::string> answer;    // JSON: a question's, or the words of a reconcile question [E4]
  std::optional<std::string> result;    // JSON: with the answer "ran"
  std::string comment;
  std::optional<std::string> if_match;  // 32 raw bytes: the digest of what was shown
};
// Reads {"decision","comment","answer","result"}; `body` is checked JSON. Problem bad_decision 422.
[[nodiscard]] std::variant<Decision, Problem> parse_decision(std::string_view body);

struct WaitResolved {
  WaitRow wait;  // as stored after it
  Woke woke = Woke::queued;
  bool run_cancelled = false;  // a reconcile question answered with abort
  Ripples ripples;             // of that
};
struct VoteCounted {  // quorum not reached: still pending
  WaitRow wait;
  int votes = 0;
  int quorum = 0;
};
struct SameDecision {  // the same again: 200 with the stored one
  WaitRow wait;
};
// Problem codes: wait_not_found 404, wait_decided 409, wait_expired 409, wait_cancelled 409, not_understood 422,
// answer_invalid 422 (pointers), forbidden 403, not_initiator 403, changed 412, bad_decision 422.
using ResolveOutcome = std::variant<WaitResolved, VoteCounted, SameDecision, Problem>;
[[nodiscard]] ResolveOutcome resolve_wait(db::Tx& tx, WaitId wait, const Decision& decision, const Principal& by,
                                          TimeMs now);

struct DecisionKept {};  // ahead of its question [A9]
using NamedOutcome = std::variant<WaitResolved, VoteCounted, SameDecision, DecisionKept, Problem>;
// A9: by run and name.
[[nodiscard]] NamedOutcome resolve_named(db::Tx& tx, RunId run, std::string_view name, const Decision& decision,
                                         std::string_view body, const Principal& by, TimeMs now);

// Whether remind_waits would find one.
[[nodiscard]] bool reminder_due(db::ReadTx& tx, TimeMs now);
// What a person has not answered: the event wait.expiring an hour before its deadline (at half of a shorter time), or
// wait.overdue after a day without one; once each. At most `limit`; returns how many were looked at.
int remind_waits(db::Tx& tx, int limit, TimeMs now);

// Whether expire_waits would find one.
[[nodiscard]] bool expiry_due(db::ReadTx& tx, TimeMs now);
// A4: pending waits (not timers) whose deadline has passed; at most `limit`, oldest deadline first.
struct WaitExpired {
  RunId run;
  WaitId wait;
  Woke woke;
};
[[nodiscard]] std::vector<WaitExpired> expire_waits(db::Tx& tx, int limit, TimeMs now);

// What an expired wait gives: {"expired":true} or the declared default with that flag.
[[nodiscard]] std::string expiry_value(WaitKind kind, std::string_view payload);

// A step whose wait is resolved or expired becomes completed with the resolution, by the attempt that reads it.
[[nodiscard]] bool settle_from_wait(db::Tx& tx, const Fence& fence, const WaitRow& wait, TimeMs now);
// A5: completes a due timer: wait resolved, step completed with {"woke_at": …}.
[[nodiscard]] bool settle_timer(db::Tx& tx, const Fence& fence, const WaitRow& wait, TimeMs now);

}  // namespace bide::kernel
