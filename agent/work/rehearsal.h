// Rehearser: tries a program out on an agent of its own: a straight run, and one in which the program is killed after
// every verb that recorded something and once more after its end. Waits are answered, time passes at once, messages are
// not sent. What the two runs left is compared elsewhere (rehearsal_differences.h).
//
// Threads: run() on one; RehearsalWatch is called by the agent's. Failures: CannotRehearse says what is missing.
// Ownership: the clock and the watch outlive the Service, which outlives the Rehearser.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/mutex.h"
#include "agent/flow/rehearsal_port.h"
#include "agent/kernel/waits.h"
#include "agent/work/commands.h"
#include "agent/work/workspace_shot.h"

namespace bide::work {

struct CannotRehearse : std::runtime_error {
  using std::runtime_error::runtime_error;
  explicit CannotRehearse(const Problem& refused) : std::runtime_error(refused.detail), why(refused) {}
  std::optional<Problem> why;  // the start was refused
};

// Goes with the system's, and can be moved on. Thread-safe.
class MovableClock final : public Clock {
 public:
  TimeMs wall_ms() override { return real_.wall_ms() + ahead_.load(); }
  BootMs boot_ms() override { return real_.boot_ms() + ahead_.load(); }
  [[nodiscard]] BootMs real_boot_ms() { return real_.boot_ms(); }
  void move_on(DurationMs by) { ahead_.fetch_add(by); }

 private:
  SystemClock real_;
  std::atomic<DurationMs> ahead_{0};
};

// What is known of one run.
struct RehearsalTrace {
  struct Asked {
    std::int64_t seq = 0;  // of its entry in the journal; 0: none
    std::string verb;      // "step fetch (verb 2)"
  };
  struct Mark {
    Asked asked;
    WorkspaceShot workspace;
  };
  struct Entry {
    std::string position;
    Asked asked;
    std::int64_t executions = 0;
  };
  RunId run;
  std::vector<Mark> marks;                 // at each verb that recorded something, before it was answered
  std::optional<WorkspaceShot> first_end;  // the program had come to its end once
  WorkspaceShot end;
  Asked last;  // that the last attempt has asked for
  std::int64_t attempts = 0;
  kernel::RunStatus status = kernel::RunStatus::queued;
  std::string result = "null";  // JSON, without the workspace's path
  std::string error = "{}";     // JSON
  std::vector<Entry> journal;
  [[nodiscard]] bool completed() const { return status == kernel::RunStatus::completed; }
};

struct RehearsalAnswers {
  std::map<std::string, std::string> by_name;  // of a wait, or of a step that is not run
  bool stub_steps = false;
};

// What the agent calls. Children of the run are killed as it is, and not looked at.
class RehearsalWatch final : public flow::Rehearsal {
 public:
  // `folder_of`: the workspace of a run.
  RehearsalWatch(RehearsalAnswers answers, std::function<std::string(RunId)> folder_of)
      : answers_(std::move(answers)), folder_of_(std::move(folder_of)) {}

  bool ends_at(const Answering& answering) override;
  bool stands_still(RunId run) override;
  bool ends_again(RunId run) override;
  std::optional<std::string> stub_of(std::string_view step) override;

  void begin(bool killed);
  // Whether all of the run's attempt waits, since it was last stirred.
  [[nodiscard]] bool stands_still_now(RunId run) const;
  void stir(RunId run);
  [[nodiscard]] std::size_t verbs_so_far() const;
  [[nodiscard]] RehearsalTrace take();
  [[nodiscard]] std::string folder_of(RunId run) const { return folder_of_(run); }
  // Text as it was given, and that it was asked for; nullopt: not given.
  [[nodiscard]] std::optional<std::string> answer(const std::string& name);
  // Names of answers that nobody asked for, with commas.
  [[nodiscard]] std::string unused() const;

 private:
  [[nodiscard]] bool is_of(RunId run) REQUIRES(mutex_);

  const RehearsalAnswers answers_;
  const std::function<std::string(RunId)> folder_of_;
  mutable Mutex mutex_;
  bool killed_ GUARDED_BY(mutex_) = false;
  RehearsalTrace trace_ GUARDED_BY(mutex_);
  std::int64_t last_epoch_ GUARDED_BY(mutex_) = 0;
  std::set<RunId> still_ GUARDED_BY(mutex_);
  std::set<RunId> ended_ GUARDED_BY(mutex_);
  std::set<std::string> used_ GUARDED_BY(mutex_);
};

class Rehearser {
 public:
  // `interrupted`: asked now and then; true: the rehearsal is given up (CannotRehearse).
  Rehearser(Commands& commands, MovableClock& clock, RehearsalWatch& watch, DurationMs most,
            std::function<bool()> interrupted);

  // `most_verbs`: a run that has recorded more than these grows with each attempt, and is given up: 0: however many.
  [[nodiscard]] RehearsalTrace run(const std::string& workflow, const std::string& input, bool killed,
                                   std::size_t most_verbs = 0);

 private:
  struct Look;
  [[nodiscard]] Look look(RunId run);
  [[nodiscard]] RunId start(const std::string& workflow, const std::string& input);
  // True: an answer was given.
  [[nodiscard]] bool answer(const Look& look);
  [[nodiscard]] bool decide(const kernel::WaitRow& wait, const kernel::Decision& decision);
  [[nodiscard]] bool approve(const kernel::WaitRow& wait);
  [[nodiscard]] bool answer_question(const kernel::WaitRow& wait);
  [[nodiscard]] bool send_signal(const kernel::WaitRow& wait);
  void let_time_pass(const Look& look);
  void end_all_runs();
  [[nodiscard]] RehearsalTrace trace_of(RunId run);
  void check(const Look& look, BootMs until, bool killed) const;

  Commands& commands_;
  MovableClock& clock_;
  RehearsalWatch& watch_;
  const DurationMs most_;
  const std::function<bool()> interrupted_;
  std::string unanswered_;      // the wait that nobody has an answer for, as a sentence
  std::set<WaitId> signalled_;  // their signal is sent
};

}  // namespace bide::work
