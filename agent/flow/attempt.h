// Attempt: one claim of a run, from the claim until it is handed back. Replay, gate, retries, doubt and waits for
// native code (through Context) and for programs (through the routes below /v1/runs/{id}/attempt/).
//
// Threads: any; calls of different branches run side by side. A call that must wait blocks its thread until it is
// answered or the attempt is closed.
// Failures: a lost lease, a suspension, a cancel or a shutdown is the value Closed: nothing may go on [A13].
// Faults of the store are thrown. Ownership: the Store and Random outlive it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/mutex.h"
#include "agent/base/random.h"
#include "agent/flow/ask.h"
#include "agent/flow/journal.h"
#include "agent/kernel/endings.h"
#include "agent/kernel/runs.h"
#include "db/store.h"

namespace bide::flow {

enum class Style { native, program };

struct AttemptOptions {
  Style style = Style::native;
  DurationMs inline_sleep = limits::kInlineSleepMs;  // A5
  bool allow_default_approved = false;               // A4: the manifest's permission
  std::function<void()> on_ring;  // called by ring() and at a change of closing; obeys the rules of bells [C2]
  std::function<void()> on_requeued;  // the run was queued again by this attempt: the dispatcher may claim
};

class Attempt {
 public:
  // Loads run and journal. The fence is the claim's.
  Attempt(db::Store& store, Random& random, kernel::Fence fence, AttemptOptions options);

  [[nodiscard]] const kernel::RunRow& run() const { return run_; }
  [[nodiscard]] const kernel::Fence& fence() const { return fence_; }
  [[nodiscard]] Style style() const { return options_.style; }

  // -- What code asks. Positions: native code's are counted by the branch; programs' by V3.
  [[nodiscard]] Outcome begin_step(const StepAsk& ask, const Caller& caller = {});
  [[nodiscard]] Outcome probe_said(std::int64_t step, std::string_view nonce, ProbeVerdict verdict,
                                   const std::optional<std::string>& result, const Caller& caller = {});
  // The outcome of an execution: durable when it returns Settled.
  [[nodiscard]] Outcome complete(std::int64_t step, std::string_view nonce, std::string_view result,
                                 const std::optional<std::string>& usage = std::nullopt);
  // retryable: false ends the retries at once [E2]. unknown: ended by a signal, no outcome [E7].
  // stays_pending: not found, the step did not begin (programs): pending, the caller ends the run.
  struct FailureReport {
    std::string error;  // JSON
    bool retryable = true;
    bool unknown = false;
    bool stays_pending = false;
  };
  [[nodiscard]] Outcome fail(std::int64_t step, std::string_view nonce, const FailureReport& report, const Caller& caller = {});
  [[nodiscard]] Outcome wait(const WaitAsk& ask, const Caller& caller = {});
  // J8: a recorded value; `make` is asked once in the life of the run.
  [[nodiscard]] Outcome value(const std::string& branch, const std::string& name, const std::string& key,
                              const std::function<std::string()>& make);

  // -- Ends.
  // E6, V1: the error is written first; from then on nothing is answered. The first error stays.
  Closed end(std::string_view error_json);
  // J9 (native), then finish_run. `finish.error` absent: completed.
  [[nodiscard]] kernel::Finished finish(const kernel::Finish& finish);
  // A2 for programs: everybody waits, the tree is stopped. True: suspended and closed. False: go on.
  [[nodiscard]] bool try_suspend();
  // K5, E8: hand the run back. False: the lease was lost.
  bool hand_back(TimeMs run_at, std::string_view reason, Closing why);
  // K3: given up by the executor; the run is fenced off.
  void abandon();

  // -- What happens around it.
  // A bell: something of the run changed (an answer, a cancel, an abandonment). Never blocks.
  void ring();
  // Reads the cancel flag and the lease if rung; true: something changed since the last call.
  bool refresh();
  void close(Closing why);
  [[nodiscard]] Closing closing() const;
  [[nodiscard]] bool cancel_requested() const;

  // -- What a driver wants to know.
  struct OpenCall {
    std::int64_t step = 0;
    int pid = 0;             // programs
    bool waiting = false;    // its request is open and may last: counts for suspension
    bool executing = false;  // its effect runs
    BootMs deadline_boot_ms = 0;
  };
  [[nodiscard]] std::vector<OpenCall> open_calls() const;
  // Native branches: the gate suspends when all of them wait.
  void branch_began();
  void branch_ended();

  // The result that a program set so far; the last one wins.
  void set_result(std::string result);
  [[nodiscard]] std::optional<std::string> result() const;

 private:
  struct Located {
    Entry* entry = nullptr;
    bool fresh = false;
  };
  // Each of the following expects mutex_ to be held, and gives it up while it writes or waits.
  using Guard = std::unique_lock<Mutex>;
  [[nodiscard]] std::variant<Located, Outcome> locate(Guard& guard, kernel::StepKind kind, const StepAsk& ask);
  [[nodiscard]] std::string position_of(kernel::StepKind kind, const StepAsk& ask, std::string& place);
  [[nodiscard]] std::optional<Outcome> mismatch(Guard& guard, kernel::StepKind kind, const StepAsk& ask, Entry* entry,
                                                std::string_view place, std::string_view position);
  [[nodiscard]] Outcome drive_step(Guard& guard, Entry& entry, const Caller& caller);
  [[nodiscard]] Outcome drive_wait(Guard& guard, Entry& entry, const Caller& caller);
  [[nodiscard]] Outcome execute(Guard& guard, Entry& entry, const Caller& caller);
  [[nodiscard]] std::optional<Outcome> resolve_doubt(Guard& guard, Entry& entry, const Caller& caller);
  [[nodiscard]] std::optional<Outcome> open_wait(Guard& guard, Entry& entry, const WaitAsk& ask);
  [[nodiscard]] std::optional<Outcome> block(Guard& guard, Entry& entry, const Caller& caller, std::optional<TimeMs> until,
                                             WaitId wait);
  [[nodiscard]] Outcome settled_outcome(Entry& entry);
  [[nodiscard]] Outcome end_locked(Guard& guard, std::string error_json);
  [[nodiscard]] Outcome lost(Guard& guard);
  void suspend_if_all_wait(Guard& guard);
  bool suspend_locked(Guard& guard);
  void close_locked(Closing why);
  void refresh_locked(Guard& guard);
  [[nodiscard]] kernel::StepIntent intent_of(const Entry& entry) const;
  [[nodiscard]] bool take_reset();

  // Constant after construction.
  db::Store& store_;
  Random& random_;
  const kernel::Fence fence_;
  const AttemptOptions options_;
  kernel::RunRow run_;

  mutable Mutex mutex_;
  Condition changed_;
  std::optional<Journal> journal_ GUARDED_BY(mutex_);
  Closing closing_ GUARDED_BY(mutex_) = Closing::open;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  bool reset_marks_ GUARDED_BY(mutex_) = false;  // recoveries or re-drive marks stand on the run [K6, W5]
  int executing_ GUARDED_BY(mutex_) = 0;
  int branches_ GUARDED_BY(mutex_) = 1;
  int waiting_ GUARDED_BY(mutex_) = 0;      // calls that wait and may be suspended
  int busy_waits_ GUARDED_BY(mutex_) = 0;   // inline sleeps: hold the run
  struct Waiter {
    Entry* entry;
    WaitId wait;
    int pid;
    bool may_suspend;
  };
  std::vector<Waiter> waiters_ GUARDED_BY(mutex_);
  std::map<std::string, std::int64_t> counts_ GUARDED_BY(mutex_);  // n of a place, or seq of a branch
  std::optional<std::string> result_ GUARDED_BY(mutex_);
  std::atomic<bool> rung_{false};
  std::uint64_t changes_ GUARDED_BY(mutex_) = 0;
};

// J6 and the hash of a request.
[[nodiscard]] std::string request_hash(std::string_view request);

}  // namespace bide::flow
