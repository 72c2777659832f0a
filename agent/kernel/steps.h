// Steps: the journal of a run. Every write is fenced by the attempt's epoch [K2].
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/kernel/runs.h"
#include "agent/kernel/states.h"
#include "db/tx.h"

namespace bide::kernel {

struct StepRow {
  StepId id;
  std::string position;  // native, remote: "branch/seq"; program: "branch/kind/name/key/n", parts percent-encoded
  std::int64_t seq = 0;
  StepKind kind = StepKind::step;
  std::string name;
  Effect effect = Effect::non_idempotent;
  StepStatus status = StepStatus::started;
  std::int64_t executions = 1;
  std::optional<std::string> nonce;
  std::string caller_hash;  // empty: none
  std::int64_t failures = 0;
  std::int64_t retries = 0;
  std::optional<TimeMs> not_before;
  std::string request;       // JSON
  std::string request_hash;  // 32 raw bytes
  std::optional<std::string> assume;
  std::int64_t epoch = 0;
  std::optional<std::string> result;  // JSON, as recorded
  std::optional<std::string> error;   // JSON: {"code","message",…}
  TimeMs created_at = 0;
  TimeMs updated_at = 0;
  std::optional<std::string> usage;         // JSON: numbers by name [J7]
  std::optional<std::int64_t> copied_from;  // X4
  std::optional<std::string> key_uid;       // whose keys a copied entry has [X4, J6]
};
// J10: what a run has set of itself, the latest of each name: [name, JSON].
[[nodiscard]] std::vector<std::pair<std::string, std::string>> run_state(db::ReadTx& tx, RunId run);
// The whole journal of a run in order of first appearance.
[[nodiscard]] std::vector<StepRow> load_journal(db::ReadTx& tx, RunId run);
// A part of it: entries after a seq.
[[nodiscard]] std::vector<StepRow> journal_page(db::ReadTx& tx, RunId run, std::int64_t after_seq, int limit);
[[nodiscard]] std::optional<StepRow> read_step(db::ReadTx& tx, StepId step);

// What is known before the effect begins [J1].
struct StepIntent {
  std::string position;
  std::int64_t seq = 0;
  StepKind kind = StepKind::step;
  std::string name;
  Effect effect = Effect::non_idempotent;
  std::string request = "null";
  std::string request_hash;
  std::string nonce;
  std::string caller_hash;
  std::int64_t retries = 0;
  std::optional<std::string> compensate;
  std::optional<std::string> assume;
};

// J6: pure function of the run's uid, position, name and request hash. 32 hexadecimal digits.
[[nodiscard]] std::string idempotency_key(std::string_view run_uid, std::string_view position, std::string_view name,
                                          std::string_view request_hash);

// Writes the intent as `started`, a new entry at its position. LeaseLost: nothing written.
// reset_recoveries: `recoveries` or a re-drive mark may stand on the run; a new entry takes them away [K6, W5].
using IntentOutcome = std::variant<StepId, LeaseLost>;
[[nodiscard]] IntentOutcome write_intent(db::Tx& tx, const Fence& fence, const StepIntent& intent,
                                         bool reset_recoveries, TimeMs now);

struct Recorded {
  StepId step;
  bool cancel_asked = false;  // of the run, as this was recorded [X2]
};
struct LateOutcome {};  // the fence was lost: kept as the event step.late_outcome, nothing else changed [K2]
using RecordOutcome = std::variant<Recorded, LateOutcome>;

// The outcome of an execution [J2]. `intent` is written first if it is not there yet [J1].
struct Completion {
  StepIntent intent;
  StepId known;  // valid: the row is there
  std::string result;
  std::optional<std::string> usage;
};
[[nodiscard]] RecordOutcome complete_step(db::Tx& tx, const Fence& fence, const Completion& done, TimeMs now);

struct Failure {
  StepIntent intent;
  StepId known;
  std::string error;               // JSON
  std::optional<TimeMs> retry_at;  // set: pending until then [E2]; else failed for good
  bool counts = true;              // false: no recorded failure (NotFound stays pending unasked, shutdown [E7])
};
[[nodiscard]] RecordOutcome fail_step(db::Tx& tx, const Fence& fence, const Failure& failure, TimeMs now);
// The same for an execution that is given up [E5, K3]; its outcome may have been recorded just before: then that holds.
// The caller has proved the fence in this transaction.
void fail_overdue(db::Tx& tx, const Fence& fence, const Failure& failure, TimeMs now);

// What complete_step and fail_step write into a started step that is there. The caller has proved that it may: by
// another right than the fence [K2].
void write_completed(db::Tx& tx, RunId run, StepId step, const Completion& done, TimeMs now);
void write_failed(db::Tx& tx, RunId run, StepId step, const Failure& failure, TimeMs now);
// What progress takes away from a run: recoveries and a re-drive mark [K6, W5].
void reset_recoveries_of(db::Tx& tx, RunId run);

// pending | started | needs_reconcile → started, one more execution under a new nonce [E1, E4].
[[nodiscard]] bool start_again(db::Tx& tx, const Fence& fence, StepId step, std::string_view nonce, TimeMs now);

// A settled outcome that no execution brought: a probe, an answer, an elapsed timer. From any open state.
[[nodiscard]] bool settle_step(db::Tx& tx, const Fence& fence, StepId step, std::string_view result, TimeMs now);

// A recorded value (now, random, uuid) or a state: intent and outcome at once.
[[nodiscard]] IntentOutcome record_value(db::Tx& tx, const Fence& fence, const StepIntent& intent,
                                         std::string_view result, bool reset_recoveries, TimeMs now);

}  // namespace bide::kernel
