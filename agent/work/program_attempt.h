// One program process tree under its attempt: the loop that watches it. Used by program_driver.cpp only.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "agent/base/fd.h"
#include "agent/flow/attempt.h"
#include "agent/work/guard.h"
#include "agent/work/holder_watch.h"
#include "agent/work/process_watch.h"

namespace bide::work {

// A doorbell that poll(2) can wait on. ring() is a bell [C2].
class EventBell {
 public:
  EventBell();
  void ring();
  void clear();
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

class ProgramAttempt {
 public:
  struct Graces {
    DurationMs cancel = limits::kCancelGraceMs;
    DurationMs shutdown = limits::kProgramShutdownMs;
    DurationMs busy = 0;  // the manifest's suspend_after_busy; 0: what works on holds the attempt for ever
  };
  ProgramAttempt(flow::Attempt& attempt, GuardedProcess& guard, Holders& holders, Clock& clock, EventBell& bell,
                 Graces graces, std::function<void(const std::string&)> held_by);

  // Watches until the tree is to end (the program ended, suspension, cancel, shutdown, an end that was written), then
  // ends it and returns when nothing of it is left.
  void run();
  // Called now and then while it is watched: for what grows by itself.
  void set_regular(std::function<void()> regular) { regular_ = std::move(regular); }
  [[nodiscard]] const std::optional<ExitStatus>& exit() const { return exit_; }
  // A holder of its own died without a word: as if the attempt had crashed.
  [[nodiscard]] bool crashed() const { return crashed_; }
  // Verbs were open when the program exited, such as one that had read and not yet asked.
  [[nodiscard]] bool unfinished() const { return unfinished_.value_or(false) || attempt_.reader_came_too_late(); }
  [[nodiscard]] std::optional<int> start_error() const { return guard_.report().start_error; }

 private:
  [[nodiscard]] bool looked();
  [[nodiscard]] bool step();
  [[nodiscard]] bool program_ended();
  [[nodiscard]] bool program_is_ending() const;
  [[nodiscard]] bool closing_down(flow::Closing why);
  [[nodiscard]] bool cancelled();
  void look_for_suspension();
  [[nodiscard]] bool busy_for_too_long();
  void look_for_lost_verbs();
  void wait();
  void end_tree();
  struct Waiting {
    std::set<int> pids;            // of the verbs that wait
    std::set<std::int64_t> steps;  // seq of what they wait for
  };
  [[nodiscard]] Waiting waiting() const;

  flow::Attempt& attempt_;
  GuardedProcess& guard_;
  Clock& clock_;
  EventBell& bell_;
  const Graces graces_;
  const std::function<void(const std::string&)> held_by_;
  std::function<void()> regular_;
  ProcessWatch watch_;
  HolderWatch steps_;
  std::optional<ExitStatus> exit_;
  std::optional<bool> unfinished_;
  std::optional<BootMs> busy_since_;  // every verb waits, and something else works on
  std::optional<BootMs> told_at_;     // cancel or shutdown: graces run from here
  std::optional<BootMs> lost_since_;  // a verb vanished
  bool program_told_ = false;
  bool term_sent_ = false;
  bool crashed_ = false;
  DurationMs next_look_ = -1;  // -1: nothing to look at before something rings
};

}  // namespace bide::work
