// Planted bugs: faults that a build with BIDE_PLANTED_BUGS can switch on one at a time, to show that a test would see
// them. Without that option (the default, and every release) BIDE_PLANTED(name) is the constant false and nothing of
// this is in the program. Only .cpp files that hold the word BIDE_PLANTED( are built with the option: see
// CMakeLists.txt. `bide-sim --planted all` prints which check catches which.
#pragma once

#include <string_view>

// name, rule, what is wrong
#define BIDE_PLANTED_LIST(X)                                                           \
  X(answer_before_sync, "C3", "commits are answered before they are on the disk")      \
  X(epoch_unchecked, "K2", "a write of an attempt does not compare the epoch")         \
  X(epoch_stands_still, "K1", "a claim does not raise the epoch")                      \
  X(late_outcome_written, "K2", "an outcome under a lost lease is recorded")           \
  X(recovery_of_the_driven, "W4", "the orphan scan takes runs that are driven")        \
  X(orphans_left, "W4", "runs of a dead process are not taken over")                   \
  X(key_per_attempt, "J6", "the idempotency key changes with the epoch")               \
  X(intent_rides, "J1", "the intent of a non_idempotent step is not durable first")    \
  X(repeat_in_silence, "E1", "a non_idempotent step in doubt is run again")            \
  X(probe_not_asked, "E1", "a step in doubt is asked about though it has a probe")     \
  X(ran_runs_again, "E4", "the answer \"ran\" executes the step")                      \
  X(crash_counts_as_failure, "E2", "a crash uses up the retries")                      \
  X(failures_forgotten, "E2", "a recorded failure is not counted")                     \
  X(final_is_retried, "E2", "a failure that no retry can cure is retried")             \
  X(backoff_ignored, "E2", "a retry does not wait for its time")                       \
  X(answer_dropped_before_wait, "A2", "a suspension does not look for an answer")      \
  X(gate_open, "A3", "a run is suspended while a step of it executes")                 \
  X(late_answer_taken, "A4", "an answer after the deadline is taken")                  \
  X(expiry_wakes_nobody, "A4", "an expired wait does not wake its run")                \
  X(decision_wakes_nobody, "A6", "a decision does not wake its run")                   \
  X(timer_not_armed, "A12", "a sleeping run is left waiting")                          \
  X(timer_early, "A5", "a timer is due five seconds early")                            \
  X(quorum_of_one, "A7", "the first approval is enough")                               \
  X(initiator_decides, "A7", "the policy not_initiator is not looked at")              \
  X(signals_backwards, "A9", "the newest signal is read first")                        \
  X(signal_read_twice, "A9", "a signal is not marked as read")                         \
  X(cancel_forgotten, "X1", "a run that was cancelled ends as its code says")          \
  X(waits_left_open, "X1", "the waits of a cancelled run stay open")                   \
  X(command_done_twice, "M1", "the answer under an Idempotency-Key is not looked for") \
  X(value_made_anew, "J8", "a recorded value is made again")                           \
  X(too_many_at_once, "K1", "max_running is not looked at")                            \
  X(commit_forgotten, "C2", "a batch is answered though it was rolled back")           \
  X(child_tells_nobody, "A11", "the end of a child does not reach its parent")         \
  X(children_go_on, "P1", "a run that fails or is cancelled leaves its children be")   \
  X(losers_left_open, "A10", "the waits that lost a race stay open")                   \
  X(group_time_ignored, "A10", "an answer after a race's time is taken")               \
  X(nothing_taken_back, "E6", "a run that fails does not take back what it did")       \
  X(taken_back_forwards, "E6", "what was done first is taken back first")              \
  X(failed_is_delivered, "O5", "a delivery that failed is deleted")                    \
  X(key_per_delivery, "O3", "each try of a delivery has a key of its own")             \
  X(task_never_lapses, "K8", "a task of a dead worker is not taken up again")          \
  X(lapsed_is_repeated, "K8", "a non_idempotent task in doubt is run again")           \
  X(pause_forgotten, "X5", "a pause is acknowledged and not written")

namespace bide {

#if defined(BIDE_PLANTED_BUGS)
enum class Planted {
  none,
#define BIDE_PLANTED_NAME(name, rule, what) name,
  BIDE_PLANTED_LIST(BIDE_PLANTED_NAME)
#undef BIDE_PLANTED_NAME
};
[[nodiscard]] bool planted(Planted bug);
// Switches one on, and the others off; "none" is none. False: no such bug. Before any thread of the agent runs.
bool plant(std::string_view name);
#define BIDE_PLANTED(name) (::bide::planted(::bide::Planted::name))
#else
#define BIDE_PLANTED(name) false
#endif

}  // namespace bide
