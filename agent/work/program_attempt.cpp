#include "agent/work/program_attempt.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <csignal>

#include "agent/base/log.h"
#include "agent/flow/failure_json.h"

namespace bide::work {
namespace {

constexpr DurationMs kLookMs = 250;  // how often a tree that does not wait as a whole is looked at (guess)
constexpr DurationMs kCannotLookMs = 1'000;
constexpr DurationMs kRegularMs = 1'000;  // a log that a loop fills grows by a gigabyte in that time, at most
constexpr DurationMs kLostVerbMs = 500;   // a verb that vanished while its program ends is no lost verb (guess)

}  // namespace

EventBell::EventBell() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_.valid()) throw Bug("no descriptors left");
}
void EventBell::ring() {
  const std::uint64_t one = 1;
  if (::write(fd_.get(), &one, sizeof one) < 0) return;  // full: rung already
}
void EventBell::clear() {
  std::uint64_t count = 0;
  if (::read(fd_.get(), &count, sizeof count) < 0) return;  // nothing to clear
}

ProgramAttempt::ProgramAttempt(flow::Attempt& attempt, GuardedProcess& guard, Holders& holders, Clock& clock,
                               EventBell& bell, Graces graces, std::function<void(const std::string&)> held_by)
    : attempt_(attempt),
      guard_(guard),
      clock_(clock),
      bell_(bell),
      graces_(graces),
      held_by_(std::move(held_by)),
      watch_(guard.scope()),
      steps_(attempt, holders) {}

ProgramAttempt::Waiting ProgramAttempt::waiting() const {
  Waiting waiting;
  for (const auto& call : attempt_.open_calls()) {
    if (!call.waiting) continue;
    waiting.steps.insert(call.step);
    if (call.verb.pid > 0) waiting.pids.insert(call.verb.pid);
  }
  return waiting;
}

void ProgramAttempt::run() {
  while (!looked()) wait();
  end_tree();
}

// Without descriptors nothing can be said of the tree: it goes on as it is, and is looked at again [E8].
bool ProgramAttempt::looked() {
  try {
    return step();
  } catch (const CannotLook& e) {
    log::warn("program.cannot_look", {{"run", attempt_.run().id.value}, {"error", e.what()}});
    next_look_ = kCannotLookMs;
    return false;
  }
}

// One look at everything; true: the tree is to end now.
bool ProgramAttempt::step() {
  next_look_ = -1;
  attempt_.refresh();
  const GuardReport& report = guard_.poll_reports();
  if (report.program && !std::exchange(program_told_, true)) attempt_.set_program(*report.program);
  if (report.over() || report.start_error) return true;
  if (!steps_.look()) {
    crashed_ = true;
    return true;
  }
  if (report.exit && !exit_) exit_ = report.exit;
  const flow::Closing why = attempt_.closing();
  if (why != flow::Closing::open) return closing_down(why);
  if (attempt_.cancel_requested()) return cancelled();
  if (exit_) return program_ended();
  look_for_lost_verbs();
  if (attempt_.closing() == flow::Closing::open) look_for_suspension();
  return attempt_.closing() == flow::Closing::suspended;
}

// Its guard may not have said so yet.
bool ProgramAttempt::program_is_ending() const {
  const auto& program = guard_.report().program;
  return program && is_ending(*program);
}

// Steps that execute in other branches are let finish and recorded; then the rest is ended.
bool ProgramAttempt::program_ended() {
  // What a program made of a verb that was killed is no result, and closing_down() goes on. One that a signal ended
  // made nothing of it: that is a crash [K6].
  if (!exit_->signalled && attempt_.end_if_verb_killed()) {
    next_look_ = 0;
    return false;
  }
  // Now, while they live: the end of the tree takes the verbs with it.
  if (!unfinished_) {
    const auto calls =
        attempt_.open_calls();  // a step that goes on by itself, and that nobody has asked for, is no verb
    unfinished_ = std::any_of(calls.begin(), calls.end(), [](const auto& c) { return !c.adopted || c.verb.pid != 0; });
  }
  if (steps_.alive() > 0) {
    next_look_ = kLookMs;
    return false;
  }
  return true;
}

bool ProgramAttempt::closing_down(flow::Closing why) {
  if (why == flow::Closing::suspended || why == flow::Closing::lease_lost || why == flow::Closing::finished)
    return true;
  if (steps_.alive() == 0) return true;
  if (why == flow::Closing::shutdown && !steps_.without_holder()) return true;  // K5: holders go on
  next_look_ = kLookMs;
  if (why != flow::Closing::shutdown) return false;
  if (!told_at_) told_at_ = clock_.boot_ms();
  return clock_.boot_ms() - *told_at_ >= graces_.shutdown;
}

// V2: the commands of running steps get SIGTERM, SIGKILL after the grace, then the program SIGKILL.
bool ProgramAttempt::cancelled() {
  if (steps_.alive() == 0) return true;
  next_look_ = kLookMs;
  if (!told_at_) told_at_ = clock_.boot_ms();
  if (!term_sent_) {
    steps_.terminate();
    term_sent_ = true;
  }
  if (clock_.boot_ms() - *told_at_ < graces_.cancel) return false;
  steps_.end();
  return true;
}

// V1: a verb that was killed has returned something that is no answer: the program must not go on with it.
void ProgramAttempt::look_for_lost_verbs() {
  bool lost = attempt_.vanished() > 0;
  for (const auto& call : attempt_.open_calls()) {
    if (call.executing) next_look_ = kLookMs;
    if (call.executing && call.verb.pid > 0 && !is_alive(call.verb)) lost = true;
  }
  if (!lost) return;
  next_look_ = 50;
  if (!lost_since_) lost_since_ = clock_.boot_ms();
  if (clock_.boot_ms() - *lost_since_ < kLostVerbMs || program_is_ending()) return;
  (void)attempt_.end_if_verb_killed();
}

// What works beside waiting verbs is ended with the rest, once it had as long as the manifest gives it.
bool ProgramAttempt::busy_for_too_long() {
  if (!busy_since_) busy_since_ = clock_.boot_ms();
  return graces_.busy > 0 && clock_.boot_ms() - *busy_since_ >= graces_.busy;
}

void ProgramAttempt::look_for_suspension() {
  Waiting seen = waiting();
  for (const auto& call : attempt_.open_calls()) {
    if (call.executing || !call.waiting) {
      busy_since_.reset();
      held_by_("");
      // A step executes, an inline sleep is under way, or a verb is about to be answered: its end may ring nobody.
      if (next_look_ < 0) next_look_ = kLookMs;
      return;
    }
  }
  if (seen.pids.empty()) {
    busy_since_.reset();
    return;
  }
  switch (watch_.look(seen.pids, clock_.boot_ms())) {
    case ProcessWatch::Verdict::empty: next_look_ = kLookMs; return;
    case ProcessWatch::Verdict::held:
      held_by_(watch_.held_by());
      next_look_ = kLookMs;
      if (busy_for_too_long()) {
        log::info("program.suspended_busy", {{"run", attempt_.run().id.value}, {"by", watch_.held_by()}});
        (void)attempt_.try_suspend(seen.steps);
      }
      return;
    case ProcessWatch::Verdict::lingering:
      busy_since_.reset();
      held_by_("");
      next_look_ = std::max<DurationMs>(1, watch_.ready_at() - clock_.boot_ms());
      return;
    case ProcessWatch::Verdict::ready: break;
  }
  next_look_ = kLookMs;
  if (attempt_.rehearsal_goes_on()) return;
  const auto look_again = [&] {
    seen = waiting();
    return seen.pids;
  };
  if (watch_.stop_and_look(look_again) && !attempt_.try_suspend(seen.steps)) watch_.thaw();
}

void ProgramAttempt::wait() {
  pollfd fds[] = {{guard_.report_fd(), POLLIN, 0}, {bell_.fd(), POLLIN, 0}};
  const DurationMs longest = next_look_ < 0 ? kRegularMs : std::min(next_look_, kRegularMs);
  ::poll(fds, 2, static_cast<int>(longest));
  if (fds[1].revents != 0) bell_.clear();
  if (regular_) regular_();
}

// But for the holders of steps that execute [K7].
void ProgramAttempt::end_tree() {
  for (const ProcessKey& holder : guard_.scope().spared) {
    if (!steps_.executes_under(holder)) guard_.spare_not(holder);
  }
  guard_.end();
  while (!guard_.poll_reports().over()) {
    if (!guard_.wait_report(std::chrono::milliseconds(1'000))) guard_.end();  // wakes a guard that somebody stopped
    if (!guard_.report().alive.empty()) held_by_("being ended: " + guard_.report().alive);
  }
  if (guard_.report().exit && !exit_) exit_ = guard_.report().exit;
  if (!guard_.report().lost) return;
  std::string alive;
  const auto none_left = [&] {
    try {
      return end_leftovers(guard_.scope(), &alive);
    } catch (const CannotLook&) {
      return false;
    }
  };
  for (int wait = limits::kEndLookMs; !none_left(); wait = std::min(wait * 2, limits::kEndLookMostMs))
    ::poll(nullptr, 0, wait);
}

}  // namespace bide::work
