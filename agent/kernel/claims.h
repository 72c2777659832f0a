// Claims: who drives a run, and how a run is handed back, taken over, or found without a driver.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/kernel/runs.h"
#include "db/tx.h"

namespace bide::kernel {

// What a claim may take. `known` says whether this agent can run a version, and as which (itself, or a newer one
// that lists it in `accepts`): an invalid id means unknown.
struct ClaimRules {
  std::string owner;  // "local:<process uuid>"
  std::function<VersionId(VersionId pinned)> known;
  std::function<int(WorkflowId workflow)> max_running;  // 0: no limit
  // Versions that remote workers drive: nothing for this claimer, and not missing. Absent: none.
  std::function<bool(VersionId pinned)> elsewhere;
  std::optional<DurationMs> lease;  // of a remote worker; absent: the table of driven attempts is the truth [K3]
};
struct Claimed {
  RunId run;
  std::int64_t epoch = 0;
  VersionId version;
};
struct NothingDue {};
struct AtCapacity {};  // something is due, but its workflow runs as often as it may
using ClaimOutcome = std::variant<Claimed, NothingDue, AtCapacity>;

// Distinct versions that have queued runs, by a skip-scan: one seek each.
[[nodiscard]] std::vector<VersionId> queued_versions(db::ReadTx& tx);

// K1: cancelled runs first, then priority, run_at, id. A guarded UPDATE; its row count decides.
[[nodiscard]] ClaimOutcome claim_next(db::Tx& tx, const ClaimRules& rules, TimeMs now);

// The same for one run, whatever stands before it. NothingDue: it is not there for this claimer now.
[[nodiscard]] ClaimOutcome claim_run(db::Tx& tx, const ClaimRules& rules, RunId run, TimeMs now);
// Whether claim_next would look closer: something of a known version is due. Seeks only.
[[nodiscard]] bool claim_due(db::ReadTx& tx, const ClaimRules& rules, TimeMs now);
// When the next queued run becomes due that is not due yet.
[[nodiscard]] std::optional<TimeMs> next_run_due_after(db::ReadTx& tx, TimeMs now);

// How many runs of a workflow are running, for its limit.
[[nodiscard]] int running_of(db::ReadTx& tx, WorkflowId workflow);
// Whether K1, K6 or K7 keep this run from being claimed though it be due: paused, of an unknown version, its workflow
// at its limit, suspect beside another suspect, or with a process of an earlier attempt.
[[nodiscard]] bool claim_forbidden(db::ReadTx& tx, const ClaimRules& rules, RunId run);

// running → queued under the fence: shutdown, a retry later, a fault of ours [E8]. run_at may lie ahead.
// reason: why it is not claimed, or empty. recoveries → 0 [K6].
[[nodiscard]] bool hand_back(db::Tx& tx, const Fence& fence, TimeMs run_at, std::string_view reason, TimeMs now);

// K3, X1: an attempt that did not end when told. epoch + 1; queued, or ended if it was cancelled: its open steps are
// put in doubt (non_idempotent and started) or cancelled.
[[nodiscard]] bool abandon_attempt(db::Tx& tx, const Fence& fence, TimeMs now, Ripples* ripples = nullptr);

// W4: a running run that nobody drives → queued, event run.recovered, recoveries + 1; the 10th fails it with
// CrashLoop [K6].
enum class Recovered { queued, crash_loop, not_orphan };
[[nodiscard]] Recovered recover_run(db::Tx& tx, RunId run, std::int64_t epoch, TimeMs now, Ripples* ripples = nullptr);

struct RunningRow {
  RunId run;
  std::int64_t epoch = 0;
  std::string owner;
  std::optional<TimeMs> lease_until;
};
// Running runs after `after`, workflow by workflow and there by id: a stable order that costs what it returns.
[[nodiscard]] std::vector<RunningRow> running_page(db::ReadTx& tx, RunId after, int limit);

// The reason that stands on a run which is not claimed; empty clears it. No-op when it is the same.
void set_reason(db::Tx& tx, RunId run, std::string_view reason);

// Queued and due runs of versions that are not known: sets version_missing or workflow_missing on them.
// known_workflow: whether any version of the workflow is there. Returns how many were marked.
int mark_unknown(db::Tx& tx, const ClaimRules& rules, const std::function<bool(WorkflowId)>& known_workflow,
                 TimeMs now);

}  // namespace bide::kernel
