// What code asks of its attempt, and what it is answered. The same for native code, programs and remote workers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/errors.h"
#include "agent/base/ids.h"
#include "agent/base/limits.h"
#include "agent/base/process_tree.h"
#include "agent/base/time.h"
#include "agent/kernel/states.h"

namespace bide::flow {

struct StepAsk {
  std::string branch;
  std::int64_t seq = 0;  // remote: its place in the branch, from 1 [J5]
  std::string name;
  std::string key;  // programs [V3]
  kernel::Effect effect = kernel::Effect::non_idempotent;
  std::string request = "null";           // checked JSON: its canonical form is hashed [J4]
  std::int64_t retries = 0;               // attempts = retries + 1 [E2]
  DurationMs backoff = 0;                 // 0: 1 s, doubling, at most 5 min, ±20 % [E2]; else this, each time
  DurationMs timeout = 0;                 // 0: none
  bool fail_on_timeout = false;           // E5
  std::optional<std::string> probe;       // programs: a shell string; native: any text, the Context has the function
  std::optional<std::string> assume;      // JSON [E4]
  std::optional<std::string> compensate;  // recorded with the intent [E6]
  std::string caller;                     // programs: cwd and exported variables, hashed [V3]
  std::string verb;                       // programs: one a verb process; the same again is the same open verb
  bool tried = false;                     // programs: a final failure is handed to the caller, not to the run [V1]
  bool holder = false;                    // programs: its command runs under a holder [K7]
};

struct WaitAsk {
  std::string branch;
  std::int64_t seq = 0;                                // remote: its place in the branch, from 1 [J5]
  kernel::WaitKind kind = kernel::WaitKind::approval;  // approval | question | signal | timer
  std::string name;
  std::string key;
  std::string request = "{}";           // what is asked, hashed; a timer's: {"sleep_ms":n} or {"until":"RFC 3339"}
  std::optional<DurationMs> timeout;    // none: never
  std::optional<std::string> fallback;  // JSON: the declared default at expiry [A4]
  std::string caller;
  std::string verb;
};

struct SendAsk {
  std::string branch;
  std::int64_t seq = 0;  // remote: its place in the branch, from 1 [J5]
  std::string name = "send";
  std::string key;
  std::string url;
  std::string data = "{}";  // checked JSON: the body, byte for byte [D1]
  std::string caller;
  std::string verb;
};

// A10: one step, several waits; names differ. A timer's request as in WaitAsk; the others have no timeout of their own.
struct FirstOfAsk {
  std::string branch;
  std::int64_t seq = 0;  // remote: its place in the branch, from 1 [J5]
  std::string name;
  std::string key;
  std::vector<WaitAsk> alternatives;  // kind, name and request of each
  std::string caller;
  std::string verb;
};

// A child run [A11].
struct CallAsk {
  std::string branch;
  std::int64_t seq = 0;  // remote: its place in the branch, from 1 [J5]
  std::string name;      // of the step
  std::string key;
  std::string workflow;
  std::string input = "{}";  // checked JSON
  std::string caller;
  std::string verb;
  bool tried = false;  // as StepAsk
};

// A named value that others see of the run [J10]. Of a program: what is set is part of the request.
struct StateAsk {
  std::string branch;
  std::int64_t seq = 0;  // remote: its place in the branch, from 1 [J5]
  std::string name;
  std::string key;
  std::string value = "null";  // checked JSON
  std::string caller;
  std::string verb;
};

// The version of a workflow that a start pins. Problem codes: workflow_unknown 404 (nearest name), workflow_changing
// 409, workflow_refused 409 (what others could change), workflow_too_large 413, manifest_invalid 422.
struct Startable {
  WorkflowId workflow;
  VersionId version;
  std::optional<DurationMs> deadline;  // of its runs, from their start on [X5]
  std::string input_schema;            // JSON Schema of an input; empty: any
};
using FindWorkflow = std::function<std::variant<Startable, Problem>(const std::string& name)>;

// Why a workflow does not take this input: input_invalid 422 with pointers; nullopt: it does.
[[nodiscard]] std::optional<Problem> input_refused(const std::string& workflow, const Startable& version,
                                                   std::string_view input);

// Who asks: a program's verb (its pid, and whether it has hung up), a remote worker, or native code (neither).
struct Caller {
  ProcessKey process;
  std::function<bool()> gone;
  BootMs poll_until = 0;       // remote: answered by then, though it be with Waiting
  int branches = 0;            // remote: so many of its branches are not over; 0: as it said last
  bool must_not_wait = false;  // is answered Later instead of being kept waiting
};

// Why an attempt answers nothing any more [A13].
// fault: one of ours [E8]; the driver hands the run back with a backoff.
// paused: what executes is let finish, then the run is handed back [X5].
enum class Closing { open, ending, suspended, cancelled, lease_lost, shutdown, fault, paused, finished };

struct Settled {
  std::string result;   // JSON, as recorded
  std::string outcome;  // waits: approved | denied | changes_requested | answered | signal | woke | expired
};
struct Failed {
  std::string error;   // JSON: {"code","message",…}
  std::string name;    // of the step
  bool tried = false;  // as the caller asked
};
struct Execute {
  std::int64_t step = 0;  // the entry's seq: how complete and fail name it
  std::string nonce;
  std::string idempotency_key;  // J6
  std::int64_t execution = 1;
  bool offered = false;  // nothing is written yet: the caller makes a holder ready, and begins with hold()
};
struct AskProbe {
  std::int64_t step = 0;
  std::string nonce;
  std::string idempotency_key;
  std::string probe;
};
// Remote: not settled yet. The same operation asked for again goes on waiting.
struct Waiting {
  WaitId wait;  // invalid: a retry, a task
  std::optional<TimeMs> until;
};
struct Closed {
  Closing why = Closing::open;
};
// What was said is taken; what comes of the step is to be waited for: await() goes on with it. Only for a caller that
// must not wait.
struct Later {};
// A call that does not fit the protocol. Problem codes: step_unknown 404, stale_nonce 409; busy 503: as many verbs of
// this attempt wait for a step's turn as may; remote besides: branch_busy 409, bad_seq 409.
using Outcome = std::variant<Settled, Failed, Execute, AskProbe, Closed, Later, Problem, Waiting>;

enum class ProbeVerdict { ran, did_not_run, cannot_tell };

}  // namespace bide::flow
