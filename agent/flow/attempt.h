// Attempt: one claim of a run, from the claim until it is handed back. Replay, gate, retries, doubt and waits for
// native code (through Context), and for programs and remote workers (through the routes below
// /v1/runs/{id}/attempt/).
//
// Threads: any; calls of different branches run side by side. A call that must wait blocks its thread until it is
// answered or the attempt is closed.
// Failures: a lost lease, a suspension, a cancel or a shutdown is the value Closed: nothing may go on [A13].
// Faults of the store are thrown. Ownership: the Store and Random outlive it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/base/mutex.h"
#include "agent/base/random.h"
#include "agent/flow/ask.h"
#include "agent/flow/journal.h"
#include "agent/flow/pace.h"
#include "agent/kernel/endings.h"
#include "agent/kernel/holders.h"
#include "agent/kernel/runs.h"
#include "agent/kernel/undo.h"
#include "agent/kernel/usage.h"
#include "db/store.h"

namespace bide::flow {

class Rehearsal;  // rehearsal_port.h
struct Replayed;  // nondeterminism.h

enum class Style { native, program, remote };

struct AttemptOptions {
  Style style = Style::native;
  DurationMs inline_sleep = limits::kInlineSleepMs;  // A5
  DurationMs deadline = 0;                           // of the attempt; 0: none [X5]
  kernel::Usage budget;                              // J7: more than that ends the run
  std::string version;                               // of the code that drives it, for people [J4]
  // Remote: an attempt that an earlier process of the agent began; its worker goes on with it [K4].
  bool resumed = false;
  DurationMs longest_poll = 0;                       // remote: below its lease
  bool undoing = false;                              // the code has ended: its compensations run [E6]
  bool allow_default_approved = false;               // A4: the manifest's permission
  std::int64_t retries = 0;                          // E2: of pure and idempotent steps that name none
  DurationMs backoff = 0;                            // of steps that name none
  DurationMs settle_after = limits::kSettleAfterMs;  // K7: before a native probe is asked
  std::string secret;                                // of its token: who speaks for this attempt
  std::string outcomes;                              // programs: the folder in which holders keep what they hand in
  std::string outputs;                               // … and what steps print that is too large for the journal
  FindWorkflow find_workflow;                        // of a child [A11]; absent: there is none
  // Rings after the commit whom an end of this attempt touched.
  std::function<void(db::Tx& tx, const kernel::Ripples& ripples)> on_ripples;
  std::function<void(StepId)> on_task;      // a task may be done: a bell [K8]
  std::function<void()> on_requeued;        // the run was queued again by this attempt: the dispatcher may claim
  std::function<void(BootMs)> on_deadline;  // something has to end by then [E5]; called under the attempt's lock
  Rehearsal* rehearsal = nullptr;           // the program is only tried out
  Pace* pace = nullptr;                     // tests
};

class Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  // Loads run and journal. The fence is the claim's. Held by shared_ptr: bells may outlive the driver.
  Attempt(db::Store& store, Random& random, kernel::Fence fence, AttemptOptions options);

  [[nodiscard]] const kernel::RunRow& run() const { return run_; }
  [[nodiscard]] const kernel::Fence& fence() const { return fence_; }
  [[nodiscard]] Style style() const { return options_.style; }
  [[nodiscard]] const std::string& secret() const { return options_.secret; }
  [[nodiscard]] const AttemptOptions& options() const { return options_; }
  [[nodiscard]] std::string outcome_file(const std::string& nonce) const { return options_.outcomes + "/" + nonce; }
  [[nodiscard]] const std::string& outputs() const { return options_.outputs; }
  [[nodiscard]] std::string output_file(const std::string& nonce) const {
    return options_.outputs + "/" + std::to_string(run_.id.value) + "/" + nonce;
  }
  [[nodiscard]] TimeMs now() const { return store_.now(); }
  // Remote: when a request that may wait for so long is to be answered at the latest.
  [[nodiscard]] BootMs poll_end(DurationMs wanted) const;

  // -- What code asks. Positions: native code's are counted by the branch; programs' by V3; remote workers say theirs:
  // branch and seq. The same operation again, in one attempt, has the same answer; what lasts is answered with Waiting
  // when Caller::poll_until is over [J5].
  [[nodiscard]] Outcome begin_step(const StepAsk& ask, const Caller& caller = {});
  // Programs: the outcome of the entry that this ask would come to, if it is settled. nullopt: it is not, and nothing
  // was asked for; begin_step() will find the same.
  [[nodiscard]] std::optional<Outcome> replay_step(const StepAsk& ask);
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
    bool fault = false;      // of ours: it could not be started; pending, and the run is handed back [E8]
    bool not_begun = false;  // its holder was never let go: pending, due now
  };
  [[nodiscard]] Outcome fail(std::int64_t step, std::string_view nonce, const FailureReport& report,
                             const Caller& caller = {});
  // -- A command under a holder [K7]: begin_step() offers the execution, the verb makes a holder ready and calls
  // hold(), lets it go and calls await(); the holder hands in. An attempt that meets a step whose holder lives waits
  // for that. Intent and the holder's row are one commit; Execute: it may go.
  [[nodiscard]] Outcome hold(std::int64_t step, std::string_view nonce, const ProcessKey& holder);
  [[nodiscard]] Outcome await(std::int64_t step, std::string_view nonce, const Caller& caller);
  // The same again changes nothing. not_here: this attempt knows of no such execution, or has lost its lease: the
  // kernel decides by the nonce alone [K2].
  enum class HandIn { recorded, again, not_here };
  [[nodiscard]] HandIn hand_in(std::int64_t step, std::string_view nonce, const kernel::HeldOutcome& outcome);
  // An adopted holder is gone and has left nothing: the step is as after a crash.
  void holder_gone(std::int64_t step, std::string_view nonce);
  // Rung before a holder's row is committed (of an intent that rides: after): it outlives the attempt from here on, if
  // the commit succeeds; else open_calls() does not have it. A bell.
  void set_held_bell(std::function<void(const ProcessKey&)> bell);

  [[nodiscard]] Outcome wait(const WaitAsk& ask, const Caller& caller = {});
  // A message through the outbox; settled with {"delivery","key"} when entry and row are durable [O1].
  [[nodiscard]] Outcome send(const SendAsk& ask);
  // A11: starts the child once, and waits until it has ended. Failed: with the child's code.
  [[nodiscard]] Outcome call(const CallAsk& ask, const Caller& caller = {});
  // A10: the first that is settled wins. {"won":name,"value":…}
  [[nodiscard]] Outcome first_of(const FirstOfAsk& ask, const Caller& caller = {});
  // K8: waits for whoever does it. Its name is the function's.
  [[nodiscard]] Outcome task(const StepAsk& ask, const Caller& caller = {});
  // J8: a recorded value; `make` is asked once in the life of the run.
  [[nodiscard]] Outcome value(const std::string& branch, const std::string& name, const std::string& key,
                              const std::function<std::string()>& make, std::int64_t seq = 0);
  // J10: a named value that others see. Its change is an event.
  [[nodiscard]] Outcome set_state(const std::string& branch, const std::string& name, const std::string& value);
  [[nodiscard]] Outcome set_state(const StateAsk& ask);
  // Programs: what this attempt has set so far, by replay too, JSON. A branch reads what it set itself, else what the
  // main branch set; the main branch reads what stands last in the journal, of all branches (it joins them).
  [[nodiscard]] std::optional<std::string> state(std::string_view branch, std::string_view name) const;
  // X7: from here on nothing is answered; a completed finish begins the run's successor with this input. A program must
  // have joined its branches: another verb that is open is UnfinishedBranch.
  Closed continue_as_new(std::string input);

  // E6, of an attempt that undoes: what is not taken back yet, and the step of ~undo for one of them.
  [[nodiscard]] std::vector<kernel::Compensation> open_compensations() const;
  [[nodiscard]] Outcome begin_undo(std::int64_t seq, const std::string& key_uid, const StepAsk& ask,
                                   const Caller& caller = {});
  [[nodiscard]] bool undoing() const { return options_.undoing; }
  // 0: none.
  [[nodiscard]] BootMs deadline_boot_ms() const { return deadline_boot_ms_; }

  // -- Ends.
  // E6, V1: the error is written first; from then on nothing is answered. The first error stays.
  // `from_step`: the step (seq) whose command said so. It stays in its verb for ever, so that step is not waited for.
  Closed end(std::string_view error_json, std::int64_t from_step = 0);
  // J9 (native), then finish_run. `finish.error` absent: completed. queued_again: an entry was open [J9].
  // Finished::compensate: the attempt is closed, and one that undoes goes on under the same fence.
  [[nodiscard]] kernel::Finished finish(const kernel::Finish& finish);
  // finish() said that there is something to take back first.
  [[nodiscard]] bool compensates() const;
  // A2 for programs: everybody waits, the tree is stopped. True: suspended and closed. False: go on.
  // `looked_at`: the steps (seq) that were waited for when the tree was looked at. One that nobody waits for any more
  // has been answered since, and its process is to go on.
  [[nodiscard]] bool try_suspend(const std::set<std::int64_t>& looked_at);
  // K5, E8: hand the run back. False: the lease was lost.
  bool hand_back(TimeMs run_at, std::string_view reason, Closing why);
  // K6: the code was killed by nobody of ours. The run is as after a crash of the agent, and the attempt is closed.
  void crash();
  // K3: given up by the executor; the run is fenced off. What is past its timeout is recorded in that transaction:
  // a step as a failure [E5], a probe as one that cannot tell [E1].
  void abandon();

  // Rung once, at the first thing that is asked for and was not settled when the attempt began: from here on it is no
  // replay. Called under the attempt's lock: it must not wait.
  void set_fresh_bell(std::function<void()> bell);

  // -- What happens around it.
  // Rung by ring() and at a change of closing; obeys the rules of bells [C2]. A driver sets and clears its own.
  void set_bell(std::function<void()> bell);
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
    ProcessKey verb;         // programs: who asks; pid 0: nobody
    bool waiting = false;    // its request is open and may last: counts for suspension
    bool executing = false;  // its effect runs
    BootMs deadline_boot_ms = 0;
    ProcessKey holder;     // of its command; pid 0: none
    std::string nonce;     // of the execution
    bool adopted = false;  // the holder is an earlier attempt's
    bool undoes = false;   // it takes a step back [E6]
  };
  [[nodiscard]] std::vector<OpenCall> open_calls() const;
  // The command of this step is about to get a signal of ours: if it ends with an error now, that is no outcome [E7].
  void will_signal(std::int64_t step);
  // Whether this nonce is that of the present execution of the entry: what speaks for a step's command.
  [[nodiscard]] bool executes(std::int64_t step, std::string_view nonce) const;
  // An effect runs, or a probe: whatever else ends, they are let finish first.
  [[nodiscard]] bool executes_any() const;
  // Native branches: the gate suspends when all of them wait.
  void branch_began();
  void branch_ended();
  // On threads of their own, or as the pace says; returns when all have ended.
  void run_branches(const std::vector<std::function<void()>>& branches);

  // -- Programs: the process that the attempt is there for, known once its guard has said so [K7].
  void set_program(const ProcessKey& program);
  // What a verb has read may be cut: a program that dies closes its pipes, and their ends look like any other. One that
  // lives when the verb asks has closed none by dying.
  // too_late: it is ending, so nothing begins; the verb was open when it ended. unknown: cannot be told yet.
  enum class Reader { may_ask, too_late, unknown };
  [[nodiscard]] Reader reader_asks();
  // A verb was told too_late.
  [[nodiscard]] bool reader_came_too_late() const;

  // Verbs whose process hung up while they waited (programs: V1 turns that into the run's end).
  [[nodiscard]] int vanished() const;
  // A verb's process was killed before it had its answer. Writes VerbKilled as the run's end and says true [V1].
  bool end_if_verb_killed();

  // Of a rehearsal: called before a verb is answered. True: the attempt is closed, this verb is not answered any more.
  [[nodiscard]] bool rehearsal_ends_here();
  // Of a rehearsal: all of the program waits. True: it is not suspended.
  [[nodiscard]] bool rehearsal_goes_on() const;
  // Of a rehearsal: the result of the step instead of running its command.
  [[nodiscard]] std::optional<std::string> rehearsal_stub(std::int64_t step) const;

  // The result that a program set so far; the last one wins.
  void set_result(std::string result);
  [[nodiscard]] std::optional<std::string> result() const;

 private:
  // The following hold mutex_ through the guard, and give it up while they write or wait.
  using Guard = std::unique_lock<Mutex>;
  [[nodiscard]] std::variant<Entry*, Outcome> locate(Guard& guard, kernel::StepKind kind, const StepAsk& ask);
  // Remote: whether the branch may ask for this place; nullopt: it may.
  [[nodiscard]] std::optional<Outcome> take_place(Guard& guard, const StepAsk& ask);
  void resume();
  class Opening;
  [[nodiscard]] std::optional<Outcome> mismatch(Guard& guard, kernel::StepKind kind, const StepAsk& ask,
                                                const Entry* entry, std::string_view place, std::string_view position);
  [[nodiscard]] Outcome drive_step(Guard& guard, Entry& entry, const Caller& caller);
  [[nodiscard]] Outcome drive_wait(Guard& guard, Entry& entry, const Caller& caller);
  [[nodiscard]] Outcome execute(Guard& guard, Entry& entry, const Caller& caller);
  [[nodiscard]] std::optional<Outcome> wait_in_line(Guard& guard, Entry& entry, const Caller& caller);
  [[nodiscard]] Outcome vanished(Entry& entry);  // its caller hung up
  [[nodiscard]] std::optional<Outcome> in_doubt(Guard& guard, Entry& entry, const Caller& caller, std::uint64_t seen);
  [[nodiscard]] std::optional<Outcome> answered_doubt(Guard& guard, Entry& entry, const Caller& caller,
                                                      std::uint64_t seen);
  [[nodiscard]] Execute execution_of(const Entry& entry) const;
  [[nodiscard]] std::string execution_key(const Entry& entry) const;  // J6
  [[nodiscard]] Outcome record_failure(Guard& guard, Entry& entry, const FailureReport& report, const Caller& caller);
  // The recording alone. True: recorded; false: the lease was lost, nothing of it is written.
  [[nodiscard]] bool write_failure(Guard& guard, Entry& entry, const FailureReport& report,
                                   const kernel::HeldOutcome* held);
  // What a holder hands in. False: the lease was lost.
  [[nodiscard]] bool take_result(Guard& guard, Entry& entry, const kernel::HeldOutcome& outcome);
  [[nodiscard]] bool take_failure(Guard& guard, Entry& entry, const kernel::HeldOutcome& outcome,
                                  const FailureReport& report);
  // The execution's beginning in the file, durable or riding [J1], with its holder's row. nullopt: it may begin.
  [[nodiscard]] std::optional<Outcome> write_beginning(Guard& guard, Entry& entry, const ProcessKey* holder);
  [[nodiscard]] std::optional<Outcome> write_intent(Guard& guard, Entry& entry,
                                                    std::optional<kernel::ProcessRow> holder);
  void adopt(std::vector<kernel::ProcessRow> holders);
  // What was recorded of an adopted execution by its nonce alone.
  void read_adopted(Guard& guard, Entry& entry);
  [[nodiscard]] std::optional<Outcome> open_wait(Guard& guard, Entry& entry, const WaitAsk& ask);
  [[nodiscard]] std::optional<Outcome> open_group(Guard& guard, Entry& entry, const FirstOfAsk& ask);
  [[nodiscard]] std::optional<Outcome> open_child(Guard& guard, Entry& entry, const CallAsk& ask);
  [[nodiscard]] Outcome drive_task(Guard& guard, Entry& entry, const Caller& caller);
  [[nodiscard]] std::optional<Outcome> task_in_doubt(Guard& guard, Entry& entry, const Caller& caller,
                                                     std::uint64_t seen);
  void offer(db::Tx& tx, StepId step);
  [[nodiscard]] bool has_child(Guard& guard, const Entry& entry);
  // What the kernel wrote into the step itself, in the transaction of the child's end.
  void read_settled(Guard& guard, Entry& entry);
  void tell(db::Tx& tx, const kernel::Ripples& ripples);
  [[nodiscard]] bool cancel_met(db::ReadTx& tx) const;
  // `seen`: changes_ from before the caller looked, so that what changed meanwhile is not slept over [A2].
  [[nodiscard]] std::optional<Outcome> block(Guard& guard, Entry& entry, const Caller& caller, std::uint64_t seen,
                                             std::optional<TimeMs> until, WaitId wait, bool holds_run = false);
  [[nodiscard]] Outcome record(Guard& guard, const StepAsk& ask, const std::function<std::string()>& make);
  // J7: counts an entry that was visited; the outcome is the end when the budget does not bear it.
  [[nodiscard]] Outcome charged(Guard& guard, Entry& entry, Outcome outcome);
  void ride_intent(Entry& entry, const std::optional<kernel::ProcessRow>& holder);
  [[nodiscard]] Outcome settle(Entry& entry, std::string result);
  [[nodiscard]] Outcome end_locked(Guard& guard, std::string_view error_json);
  struct Overdue;
  [[nodiscard]] Overdue overdue();
  void must_end_within(Entry& entry, DurationMs most);
  [[nodiscard]] Outcome lost();
  void stop_executing(Entry& entry);
  struct Waiter;
  [[nodiscard]] std::vector<Waiter> waiting() const;  // who holds nothing back: the gate's view
  void suspend_if_all_wait(Guard& guard);
  void suspend_locked(Guard& guard);
  void close_locked(Closing why);
  // Waits for a suspension that is under way: until its transaction has answered nobody may go on [A2].
  void refresh_locked(Guard& guard);
  [[nodiscard]] bool over() const { return closing_ != Closing::open || ends_; }  // nothing more begins
  [[nodiscard]] Closing why() const { return closing_ != Closing::open ? closing_ : Closing::ending; }
  [[nodiscard]] bool silent() const;
  [[nodiscard]] bool verb_killed() const;
  [[nodiscard]] Outcome closed_outcome(Entry& entry);
  // The cancel flag was met in a transaction, before its bell [A4, X1].
  [[nodiscard]] Outcome cancelled_outcome(Entry& entry);
  [[nodiscard]] kernel::StepIntent intent_of(const Entry& entry) const;
  [[nodiscard]] Replayed replayed() const;
  // Runs a job of the store without the lock; waits and tries again while the disk is full or the file is locked [C4].
  // Not `patient`: throws then. A holder tries again by itself, and must not hold one of the few threads for it.
  // The lock is given up meanwhile; may return before anything changed.
  void wait_for_change(Guard& guard, DurationMs longest = 60'000);
  template <class Job>
  auto persist(Guard& guard, Job job, db::Purpose purpose = db::Purpose::normal, bool patient = true);

  // Constant after construction.
  db::Store& store_;
  Random& random_;
  const kernel::Fence fence_;
  const AttemptOptions options_;
  kernel::RunRow run_;
  BootMs deadline_boot_ms_ = 0;

  // Guarded by mutex_.
  struct Waiter {
    Entry* entry = nullptr;
    WaitId wait;  // invalid: a retry's backoff
    ProcessKey verb;
    bool may_suspend = false;
  };
  mutable Mutex mutex_;
  Condition changed_;
  Journal journal_;
  std::map<std::string, std::int64_t> counts_;  // n of a place, or seq of a branch
  std::vector<Waiter*> waiters_;
  std::set<Entry*> parked_;  // remote: operations that were answered with Waiting, or are about to be
  std::function<void()> bell_;
  std::function<void(const ProcessKey&)> held_bell_;
  std::function<void()> fresh_bell_;
  std::optional<std::string> result_;
  std::optional<std::string> continue_input_;  // X7
  kernel::Usage spent_;                        // by the entries that this attempt visited
  Closing closing_ = Closing::open;
  bool ends_ = false;         // its end is being written
  bool compensates_ = false;  // its end is written, and compensations are next [E6]
  bool cancelled_ = false;
  bool reset_marks_ = false;  // recoveries or a re-drive mark stand on the run [K6, W5]
  bool suspending_ = false;
  int executing_ = 0;
  int in_line_ = 0;  // calls that wait until fewer execute [P1]
  int branches_ = 1;
  int vanished_ = 0;    // callers that hung up in a wait
  ProcessKey program_;  // pid 0: not known yet
  bool reader_came_too_late_ = false;
  BootMs loaded_boot_ms_ = 0;
  std::uint64_t changes_ = 0;

  std::atomic<bool> rung_{false};
  std::atomic<bool> refused_{false};  // a riding intent was refused [J1]
};

// J6 and the hash of a request.
[[nodiscard]] std::string request_hash(std::string_view request);

}  // namespace bide::flow
