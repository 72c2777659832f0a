// What a holder hands in: the outcome of a step's command under the nonce of its execution, without a fence [K2]. The
// attempt that began it may be long over; the nonce is what speaks for the execution.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "agent/kernel/processes.h"
#include "db/tx.h"

namespace bide::kernel {

struct HeldOutcome {
  std::optional<std::string> result;  // JSON; absent: it failed
  std::string error;                  // JSON
  bool retryable = true;              // false ends the retries at once [E2]
  bool unknown = false;               // ended by a signal, or by a timeout whose effect nobody knows: no outcome [E7]
  bool begun = true;                  // false: the command did not start; the step is as it was before
  bool left = false;                  // the command left processes behind, below its holder
  DurationMs backoff = 0;             // as the step declares it [E2]
};
// How long the n-th failed attempt waits for the next.
using RetryDelay = std::function<DurationMs(std::int64_t failures)>;

enum class Taken {
  recorded,  // the step is settled, pending again, or known to be in doubt; a suspended run is woken [A12]
  again,     // it was handed in before: nothing changed
  late,      // of no present execution: kept as event step.late_outcome, once
  stranger,  // no such execution: nothing is known of it
};
// Accepted if the nonce is that of the step's present execution, the step `started` and the run live. Its row says
// from then on that it has handed in (exit_code: 0, or 1 for a failure).
[[nodiscard]] Taken hand_in(db::Tx& tx, std::string_view nonce, const HeldOutcome& outcome, const RetryDelay& delay,
                            TimeMs now);
// The row of a holder whose outcome is recorded: `stopped`, or `stopping` while the command's processes are left. No
// row of that nonce (it began and ended within one commit): nothing is done.
void mark_handed_in(db::Tx& tx, std::string_view nonce, const HeldOutcome& outcome, TimeMs now);

// Nothing of it is left.
void stop_holder(db::Tx& tx, std::string_view nonce, TimeMs now);
// Whether a row that is not stopped has this nonce: its file may be needed.
[[nodiscard]] bool holder_lives(db::ReadTx& tx, std::string_view nonce);

}  // namespace bide::kernel
