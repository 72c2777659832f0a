#include "agent/work/rehearsal.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/kernel/steps.h"

namespace bide::work {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kStarter = "rehearsal";
constexpr std::string_view kDecider = "somebody";  // another one: --not-initiator is about who started the run
constexpr DurationMs kLookMs = 50;                 // how soon an interrupt is seen; commits ring
constexpr int kWaitsMost = 200;                    // of a program that opens more at once, the rest is answered next
constexpr DurationMs kEndAllMs = 30'000;

kernel::Principal person(std::string name) {
  return {std::move(name), static_cast<std::uint8_t>(kernel::Scope::admin), RunId()};
}

std::string label(kernel::StepKind kind, const std::string& name, std::int64_t seq) {
  const std::string what(to_text(kind));
  return what + (name == what ? "" : " " + name) + " (verb " + std::to_string(seq) + ")";
}

// JSON as it was typed, else a text.
std::string as_json(const std::string& typed) { return json::check(typed) ? json::quote(typed) : typed; }

std::string called(const kernel::WaitRow& wait) {
  const std::string text = json::string_member(wait.payload, "text").value_or("");
  return std::string(to_text(wait.kind)) + " " + wait.name + (text.empty() ? "" : " \"" + text + "\"");
}

}  // namespace

// -- What the agent calls.

void RehearsalWatch::begin(bool killed) {
  Lock lock(mutex_);
  killed_ = killed;
  RehearsalTrace fresh;
  std::swap(trace_, fresh);
  last_epoch_ = 0;
  still_.clear();
  ended_.clear();
}

bool RehearsalWatch::stands_still_now(RunId run) const {
  Lock lock(mutex_);
  return still_.contains(run);
}

void RehearsalWatch::stir(RunId run) {
  Lock lock(mutex_);
  still_.erase(run);
}

std::size_t RehearsalWatch::verbs_so_far() const {
  Lock lock(mutex_);
  return trace_.marks.size();
}

RehearsalTrace RehearsalWatch::take() {
  Lock lock(mutex_);
  return std::move(trace_);
}

// The first one that is heard of is the run itself, the others are its children.
bool RehearsalWatch::is_of(RunId run) {
  if (!trace_.run.valid()) trace_.run = run;
  return trace_.run == run;
}

bool RehearsalWatch::ends_at(const Answering& answering) {
  Lock lock(mutex_);
  still_.erase(answering.run);
  if (is_of(answering.run)) {
    last_epoch_ = answering.epoch;
    trace_.last = {answering.seq, label(answering.kind, answering.name, answering.seq)};
    trace_.attempts = answering.epoch;
    if (answering.recorded) trace_.marks.push_back({trace_.last, shoot_workspace(folder_of_(answering.run))});
  }
  return killed_ && answering.recorded;
}

// It is not suspended: what is run again then is no matter of a straight run, and the killed one is killed anyway.
bool RehearsalWatch::stands_still(RunId run) {
  Lock lock(mutex_);
  still_.insert(run);
  return true;
}

bool RehearsalWatch::ends_again(RunId run) {
  Lock lock(mutex_);
  const bool again = killed_ && ended_.insert(run).second;
  if (is_of(run)) {
    auto shot = shoot_workspace(folder_of_(run));
    if (again) {
      trace_.first_end = std::move(shot);
    } else {
      trace_.end = std::move(shot);
    }
  }
  return again;
}

std::optional<std::string> RehearsalWatch::answer(const std::string& name) {
  Lock lock(mutex_);
  const auto found = answers_.by_name.find(name);
  if (found == answers_.by_name.end()) return std::nullopt;
  used_.insert(name);
  return found->second;
}

std::optional<std::string> RehearsalWatch::stub_of(std::string_view step) {
  if (!answers_.stub_steps) return std::nullopt;
  const auto given = answer(std::string(step));
  return json::quote(given ? *given + "\n" : "");  // as a command prints it
}

std::string RehearsalWatch::unused() const {
  Lock lock(mutex_);
  std::string names;
  for (const auto& [name, text] : answers_.by_name) {
    if (!used_.contains(name)) names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

// -- The run.

Rehearser::Rehearser(Commands& commands, MovableClock& clock, RehearsalWatch& watch, DurationMs most,
                     std::function<bool()> interrupted)
    : commands_(commands), clock_(clock), watch_(watch), most_(most), interrupted_(std::move(interrupted)) {}

// All that is looked at is of one moment: time must not pass over a wait that has just begun.
struct Rehearser::Look {
  kernel::RunRow run;
  std::vector<kernel::WaitRow> waits;
  bool busy = false;  // something runs
  std::vector<RunId> driven;
  std::optional<TimeMs> due;

  void is_due(const std::optional<TimeMs>& at) {
    if (at) due = std::min(due.value_or(*at), *at);
  }
};

Rehearser::Look Rehearser::look(RunId id) {
  return commands_.store().read([&](db::ReadTx& tx) {
    Look seen;
    auto run = kernel::read_run(tx, id);
    if (!run) throw CannotRehearse("the run is not there any more");
    seen.run = std::move(*run);
    kernel::WaitFilter pending;
    pending.status = kernel::WaitStatus::pending;
    pending.limit = kWaitsMost;
    seen.waits = kernel::list_waits(tx, pending);
    kernel::RunFilter running;
    running.status = kernel::RunStatus::running;
    for (const auto& live : kernel::list_runs(tx, running)) {
      seen.driven.push_back(live.id);
      if (!watch_.stands_still_now(live.id)) seen.busy = true;
      for (const auto& step : kernel::load_journal(tx, live.id)) {
        if (step.status == kernel::StepStatus::pending) seen.is_due(step.not_before);
      }
    }
    seen.is_due(kernel::next_due(tx));
    for (const auto& wait : seen.waits) seen.is_due(wait.resolve_by);
    return seen;
  });
}

RunId Rehearser::start(const std::string& workflow, const std::string& input) {
  StartRequest request;
  request.workflow = workflow;
  request.input = input;
  RunId run;
  const auto answered = commands_.start_run(request, person(std::string(kStarter)), std::nullopt,
                                            [&](const kernel::StartOutcome& outcome) {
                                              const auto* started = std::get_if<kernel::RunStarted>(&outcome);
                                              if (started != nullptr) run = started->run;
                                              return Answer{};
                                            });
  if (const auto* refused = std::get_if<Problem>(&answered)) throw CannotRehearse(*refused);
  return run;
}

void Rehearser::check(const Look& look, BootMs until, bool killed) const {
  const std::string reason = look.run.reason.value_or("");
  if (reason.starts_with("environment_") || reason.starts_with("secret"))
    throw CannotRehearse("it needs what this agent does not have: " + reason);
  if (interrupted_()) throw CannotRehearse("it was interrupted");
  if (clock_.real_boot_ms() > until) {
    throw CannotRehearse("the " + std::string(killed ? "killed" : "straight") + " run has not ended within " +
                         format_duration(most_) + " (--timeout)");
  }
}

RehearsalTrace Rehearser::run(const std::string& workflow, const std::string& input, bool killed,
                              std::size_t most_verbs) {
  watch_.begin(killed);
  const RunId run = start(workflow, input);
  const BootMs until = clock_.real_boot_ms() + most_;
  bool grows = false;
  for (;;) {
    const auto seen = commands_.feed().seen();
    const Look now = look(run);
    if (kernel::terminal(now.run.status)) break;
    check(now, until, killed);
    if (most_verbs > 0 && watch_.verbs_so_far() > most_verbs) {
      grows = true;
      break;
    }
    if (!answer(now)) let_time_pass(now);
    (void)commands_.feed().wait(seen, kLookMs);
  }
  end_all_runs();
  RehearsalTrace trace = trace_of(run);
  if (grows) {
    trace.error = json::Writer()
                      .begin_object()
                      .member("code", "MoreAndMore")
                      .member("message", "each attempt asks for more than the one before")
                      .end_object()
                      .take();
  }
  return trace;
}

bool Rehearser::answer(const Look& look) {
  unanswered_.clear();
  bool answered = false;
  for (const kernel::WaitRow& wait : look.waits) {
    switch (wait.kind) {
      case kernel::WaitKind::approval: answered |= approve(wait); break;
      case kernel::WaitKind::question: answered |= answer_question(wait); break;
      case kernel::WaitKind::signal: answered |= send_signal(wait); break;
      case kernel::WaitKind::reconcile:
        throw CannotRehearse("nobody can tell whether " + wait.name + " ran: its holder was killed from outside");
      case kernel::WaitKind::timer:
      case kernel::WaitKind::child: break;
    }
  }
  return answered;
}

// What was decided meanwhile, or is not asked any more, is no matter.
bool Rehearser::decide(const kernel::WaitRow& wait, const kernel::Decision& decision) {
  const std::string policy = json::string_member(wait.payload, "policy").value_or("any");
  const auto quorum = json::int_member(wait.payload, "quorum").value_or(1);
  std::optional<Problem> refused;
  for (std::int64_t voter = 1; voter <= quorum; ++voter) {
    const std::string name(policy == "initiator" ? kStarter : kDecider);
    const auto done = commands_.resolve(wait.id, decision, person(voter == 1 ? name : name + std::to_string(voter)),
                                        std::nullopt, [&](const kernel::ResolveOutcome& outcome) {
                                          if (const auto* bad = std::get_if<Problem>(&outcome)) refused = *bad;
                                          return Answer{};
                                        });
    if (const auto* bad = std::get_if<Problem>(&done)) refused = *bad;
    if (!refused) {
      watch_.stir(wait.run);
      continue;
    }
    if (refused->code == "wait_decided" || refused->code == "wait_cancelled" || refused->code == "wait_expired")
      return true;
    throw CannotRehearse("the answer to " + called(wait) + " is not taken: " + refused->detail + " (--answer " +
                         wait.name + "=…)");
  }
  return true;
}

bool Rehearser::approve(const kernel::WaitRow& wait) {
  kernel::Decision decision;
  decision.decision = watch_.answer(wait.name).value_or("approved");
  if (*decision.decision != "approved" && *decision.decision != "denied" && *decision.decision != "changes_requested")
    throw CannotRehearse("--answer " + wait.name + "=" + *decision.decision +
                         ": an approval is answered with approved, denied or changes_requested");
  if (*decision.decision == "changes_requested") decision.comment = "rehearsed";
  return decide(wait, decision);
}

bool Rehearser::answer_question(const kernel::WaitRow& wait) {
  const Json asked = Json::parse(wait.payload, nullptr, false);
  const Json options = asked.is_object() ? asked.value("options", Json::array()) : Json::array();
  const auto given = watch_.answer(wait.name);
  kernel::Decision decision;
  if (given) {
    const bool is_option = std::find(options.begin(), options.end(), Json(*given)) != options.end();
    decision.answer = is_option ? json::quote(*given) : as_json(*given);
  } else if (options.is_array() && !options.empty()) {
    decision.answer = options[0].dump();
  } else if (asked.is_object() && asked.contains("default")) {
    decision.answer = json::member(wait.payload, "default");
  } else {
    unanswered_ = "the " + called(wait) + " has no options and no default: say --answer " + wait.name + "=VALUE";
    return false;
  }
  return decide(wait, decision);
}

bool Rehearser::send_signal(const kernel::WaitRow& wait) {
  if (signalled_.contains(wait.id)) return false;  // it is being read
  const auto given = watch_.answer(wait.name);
  if (!given) {
    unanswered_ = "nobody sends the signal " + wait.name + ": say --answer " + wait.name + "=JSON";
    return false;
  }
  const auto sent = commands_.signal(wait.run, wait.name, as_json(*given), std::nullopt, person(std::string(kDecider)),
                                     std::nullopt, [](const kernel::SignalOutcome&) { return Answer{}; });
  signalled_.insert(wait.id);
  watch_.stir(wait.run);
  return !std::holds_alternative<Problem>(sent);
}

// Timers, deadlines and backoffs are due as soon as nothing runs.
void Rehearser::let_time_pass(const Look& look) {
  if (look.busy) return;
  const TimeMs now = commands_.store().now();
  if (look.due && *look.due > now) {
    clock_.move_on(*look.due - now);
    commands_.executor().ring();
    for (const RunId run : look.driven) {
      watch_.stir(run);
      commands_.executor().ring(run);
    }
    commands_.sweep().ring();
  } else if (!look.due && !unanswered_.empty()) {
    throw CannotRehearse(unanswered_);
  }
}

// What the run has started beside itself: children that nobody waits for, its successor.
void Rehearser::end_all_runs() {
  const BootMs until = clock_.real_boot_ms() + kEndAllMs;
  for (;;) {
    const auto seen = commands_.feed().seen();
    bool left = false;
    for (const auto status : {kernel::RunStatus::queued, kernel::RunStatus::running, kernel::RunStatus::waiting}) {
      kernel::RunFilter live;
      live.status = status;
      for (const auto& run : commands_.store().read([&](db::ReadTx& tx) { return kernel::list_runs(tx, live); })) {
        left = true;
        if (run.cancel_requested_at) continue;
        (void)commands_.cancel(run.id, {std::string(kStarter), "the rehearsal is over", true}, std::nullopt,
                               [](const kernel::CancelOutcome&) { return Answer{}; });
      }
    }
    if (!left || clock_.real_boot_ms() > until) return;
    (void)commands_.feed().wait(seen, kLookMs);
  }
}

RehearsalTrace Rehearser::trace_of(RunId id) {
  RehearsalTrace trace = watch_.take();
  const std::string folder = watch_.folder_of(id);
  commands_.store().read([&](db::ReadTx& tx) {
    const auto run = kernel::read_run(tx, id);
    if (!run) throw CannotRehearse("the run is not there any more");
    trace.status = run->status;
    trace.result = without_path(run->result.value_or("null"), folder);
    trace.error = without_path(run->error.value_or("{}"), folder);
    // An attempt that asked for nothing came to its end before the first verb.
    if (run->epoch != trace.attempts) trace.last = {};
    trace.attempts = run->epoch;
    for (const auto& step : kernel::load_journal(tx, id)) {
      trace.journal.push_back({without_path(step.position, percent_encode(folder)),
                               {step.seq, label(step.kind, step.name, step.seq)},
                               step.executions});
    }
    return 0;
  });
  trace.run = id;
  if (!trace.completed()) trace.end = shoot_workspace(folder);
  return trace;
}

}  // namespace bide::work
