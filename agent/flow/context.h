// Context: what the author of a native workflow sees. Every call is journaled; replay answers it at once.
//
// Threads: one Context a branch; a branch is sequential. branches() runs several side by side.
// Failures: StepFailed when a step finally failed (its error was recorded; code may catch it and go on).
// std::invalid_argument for a name over 128 bytes or a document that is not JSON or over 1 MiB: nothing was asked.
// AttemptClosed when the attempt is over (suspended, cancelled, lease lost, shutdown): let it pass. Code that swallows
// it changes nothing: every later call throws it again, and what the code returns is ignored [A13].
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include "agent/flow/ask.h"
#include "agent/kernel/usage_numbers.h"

namespace bide {
class Random;
}

namespace bide::flow {

class Attempt;

// Not a std::exception, so that `catch (const std::exception&)` does not take it.
struct AttemptClosed {
  Closing why = Closing::open;
};

// A step, or a wait, that finally failed; `error` is JSON: {"code","message",…}.
struct StepFailed : std::runtime_error {
  explicit StepFailed(std::string error_json);
  std::string error;
};

// Thrown by an effect: a failure that no retry can cure [E2].
struct Final : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What an effect is told. Send `idempotency_key` along with the request, as Idempotency-Key [J6].
struct EffectInfo {
  std::string idempotency_key;
  std::int64_t execution = 1;  // 1 the first time; counts executions over crashes and retries
  // What this execution cost: numbers by name, recorded with its result [J7].
  void report(const std::string& name, double amount) const {
    if (usage != nullptr) (*usage)[name] += amount;
  }
  kernel::Usage* usage = nullptr;
};
using EffectFn = std::function<std::string(const EffectInfo&)>;  // returns JSON

// What a probe says about an execution whose outcome nobody knows [E1].
struct ProbeAnswer {
  ProbeVerdict verdict = ProbeVerdict::cannot_tell;
  std::string result = "null";  // JSON, with `ran`
};
using ProbeFn = std::function<ProbeAnswer(const EffectInfo&)>;

struct StepOptions {
  std::string request = "null";  // JSON: what the effect depends on; hashed for determinism [J4]
  std::optional<int> retries;    // default: 5 for pure and idempotent, 0 for non_idempotent [E2]
  DurationMs backoff = 0;        // 0: 1 s doubling to 5 min ±20 %
  // 0: none. Code cannot be ended: one that is 30 s late is left behind [K3], and its step has failed with `Timeout`, a
  // failure like any other; a non_idempotent one is in doubt, unless `fail_on_timeout` [E5].
  DurationMs timeout = 0;
  bool fail_on_timeout = false;
  ProbeFn probe;  // asked after a crash; it has as long as its step, 30 s at most, then it cannot tell
  std::optional<std::string> assume;  // JSON: the result if a person says "ran" [E4]
  // What takes it back if the run ends failed or cancelled: a name that the workflow registered, and its argument [E6].
  std::string compensate;
  std::string compensate_argument = "null";  // JSON
};

struct TaskOptions {
  kernel::Effect effect = kernel::Effect::idempotent;
  std::optional<int> retries;         // as StepOptions
  std::optional<std::string> assume;  // JSON
};

struct ApprovalOptions {
  std::string name = "approval";
  std::optional<DurationMs> timeout;
  std::optional<std::string> fallback;  // "approved" (needs the permission) or "denied"
  int quorum = 1;
  std::string policy = "any";       // any | initiator | not_initiator
  std::optional<std::string> data;  // JSON shown to the person
};

struct QuestionOptions {
  std::string name = "question";
  std::vector<std::string> options;
  std::optional<std::string> schema;  // JSON Schema
  std::optional<DurationMs> timeout;
  std::optional<std::string> fallback;  // JSON
};

// One of a group of waits, for first_of.
struct Alternative {
  WaitAsk ask;
  static Alternative approval(const std::string& text, const ApprovalOptions& options = {});
  static Alternative question(const std::string& text, const QuestionOptions& options = {});
  static Alternative signal(const std::string& name);
  static Alternative timer(DurationMs length, const std::string& name = "timer");
};

// all: when a branch fails, the run fails: its error is written at once, the others begin nothing more, what they have
// under way is let finish and recorded [P1]. settle: all branches go on to their ends; then the first failure (by
// order) is thrown, and the code may go on.
enum class Join { all, settle };

class Context {
 public:
  Context(Attempt& attempt, Random& random, std::string branch = "");

  [[nodiscard]] const std::string& input() const;  // JSON
  [[nodiscard]] RunId run() const;

  // Runs `effect` once (by its class) and returns its recorded result, JSON.
  std::string step(const std::string& name, kernel::Effect effect, const EffectFn& run,
                   const StepOptions& options = {});
  // {"decision":"approved"|"denied"|"changes_requested","by","at","comment"?} or {"expired":true,…} [A4, A7]
  std::string approval(const std::string& text, const ApprovalOptions& options = {});
  // {"answer":…,"by","at"} or {"expired":true,…} [A8]
  std::string question(const std::string& text, const QuestionOptions& options = {});
  // {"signal":id,"payload":…} or {"expired":true} [A9]
  std::string signal(const std::string& name, std::optional<DurationMs> timeout = std::nullopt);
  // Has a function of that name done by any worker, and returns its result, JSON; the run needs no worker of its own
  // meanwhile [K8]. StepFailed when it finally failed.
  std::string task(const std::string& function, const std::string& request = "null", const TaskOptions& options = {});
  // The first that is settled wins, the others are closed with it: {"won":name,"value":…}. Names differ; timeouts of
  // the single ones do not count, a timer among them is a deadline of all [A10].
  std::string first_of(const std::vector<Alternative>& alternatives, const std::string& name = "first_of");
  // Runs another workflow as a child and returns its result, JSON; StepFailed with its code when it did not complete,
  // or could not be started. `name` of the step: the workflow's if empty [A11].
  std::string call(const std::string& workflow, const std::string& input = "{}", const std::string& name = "");
  void sleep(DurationMs length);                                                         // A5
  std::string value(const std::string& name, const std::function<std::string()>& make);  // J8: JSON
  // A message to a URL through the outbox [O1]; {"delivery","key"}. The run does not wait for its delivery.
  std::string send(const std::string& url, const std::string& data = "{}", const std::string& name = "send");
  // J10: what the run says of itself. Others read the latest with the run; the run reads what it set, in this branch or
  // in one that was joined: JSON, nullopt if it set nothing yet.
  void set_state(const std::string& name, const std::string& value);
  [[nodiscard]] std::optional<std::string> state(const std::string& name) const;
  // X7: the run ends completed and a new one of the same workflow begins with this input. Does not return.
  [[noreturn]] void continue_as_new(const std::string& input);
  TimeMs now();        // J8
  std::string uuid();  // J8

  // Runs each function on a branch of its own, side by side; returns their results in order. Names of branches:
  // parent's name, a dot, and the number from 1.
  std::vector<std::string> branches(const std::vector<std::function<std::string(Context&)>>& functions,
                                    Join join = Join::all);

 private:
  friend struct UndoContext;
  std::string take(Outcome outcome);
  std::string wait_for(WaitAsk ask);
  std::string run_effect(Outcome outcome, const EffectFn& run, const StepOptions& options, kernel::Effect effect);

  Attempt& attempt_;
  Random& random_;
  std::string branch_;
  int forks_ = 0;
  std::map<std::string, std::string> state_;
};

}  // namespace bide::flow
