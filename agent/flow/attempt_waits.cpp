// Waits of an attempt, the gate, suspension.
#include <algorithm>
#include <chrono>

#include "agent/base/json.h"
#include "agent/base/planted.h"
#include "agent/flow/attempt.h"
#include "agent/flow/attempt_impl.h"
#include "agent/kernel/first_of.h"

namespace bide::flow {
namespace {

kernel::StepKind step_kind_of(kernel::WaitKind kind) {
  switch (kind) {
    case kernel::WaitKind::approval: return kernel::StepKind::approval;
    case kernel::WaitKind::question: return kernel::StepKind::question;
    case kernel::WaitKind::timer: return kernel::StepKind::timer;
    case kernel::WaitKind::signal: return kernel::StepKind::signal;
    case kernel::WaitKind::child: return kernel::StepKind::child;
    case kernel::WaitKind::reconcile: break;
  }
  throw Bug("code does not ask reconcile questions");
}

std::string outcome_word(kernel::StepKind kind, std::string_view result) {
  const bool expired = json::bool_member(result, "expired").value_or(false);
  switch (kind) {
    case kernel::StepKind::approval: return json::string_member(result, "decision").value_or("expired");
    case kernel::StepKind::timer: return "woke";
    case kernel::StepKind::signal: return expired ? "expired" : "signal";
    case kernel::StepKind::question: return expired && !json::member(result, "answer") ? "expired" : "answered";
    case kernel::StepKind::first_of: return json::string_member(result, "won").value_or("");
    case kernel::StepKind::step:
    case kernel::StepKind::task:
    case kernel::StepKind::child:
    case kernel::StepKind::message:
    case kernel::StepKind::value: break;
  }
  return "";
}

// What a wait asks, with its default: what people are shown and hold their decision to.
std::string payload_of(const WaitAsk& ask) {
  if (!ask.fallback) return ask.request;
  std::string payload = ask.request;
  const auto brace = payload.rfind('}');
  const bool empty = json::canonical(ask.request) == "{}";
  payload.insert(brace, (empty ? "\"default\":" : ",\"default\":") + *ask.fallback);
  return payload;
}

std::optional<TimeMs> deadline_of(const WaitAsk& ask, TimeMs now) {
  if (ask.kind == kernel::WaitKind::timer) {
    if (const auto length = json::int_member(ask.request, "sleep_ms"))
      return now + *length - (BIDE_PLANTED(timer_early) ? 5'000 : 0);
    const auto until = json::string_member(ask.request, "until");
    return until ? parse_time(*until) : std::nullopt;
  }
  if (!ask.timeout) return std::nullopt;
  return now + *ask.timeout;
}

}  // namespace

Outcome Attempt::wait(const WaitAsk& ask, const Caller& caller) {
  Guard guard(mutex_);
  if (ask.kind == kernel::WaitKind::timer && !deadline_of(ask, 0)) {
    return end_locked(guard, error_json("Usage", "A timer needs a length or a time."));
  }
  if (ask.kind == kernel::WaitKind::approval && ask.fallback && json::as_string(*ask.fallback) == "approved" &&
      !options_.allow_default_approved) {
    return end_locked(
        guard,
        error_json("Usage", "A default of \"approved\" needs allow_default_approved in the workflow's manifest."));
  }
  StepAsk step;
  step.branch = ask.branch;
  step.seq = ask.seq;
  step.name = ask.name;
  step.key = ask.key;
  step.effect = kernel::Effect::pure;
  step.request = ask.request;
  step.caller = ask.caller;
  step.verb = ask.verb;
  auto located = locate(guard, step_kind_of(ask.kind), step);
  if (auto* outcome = std::get_if<Outcome>(&located)) return std::move(*outcome);
  Entry& entry = *std::get<Entry*>(located);
  const Opening opening(entry, changed_);
  entry.verb = caller.process;
  if (!entry.stored) {
    if (auto outcome = open_wait(guard, entry, ask)) return *outcome;
  }
  return drive_wait(guard, entry, caller);
}

Outcome Attempt::first_of(const FirstOfAsk& ask, const Caller& caller) {
  Guard guard(mutex_);
  json::Writer asked;
  asked.begin_object().key("any").begin_array();
  for (const WaitAsk& one : ask.alternatives) {
    if (one.kind == kernel::WaitKind::timer && !deadline_of(one, 0))
      return end_locked(guard, error_json("Usage", "A timer needs a length or a time."));
    asked.begin_object().member("kind", std::string(to_text(one.kind))).member("name", one.name);
    asked.member_raw("request", one.request).end_object();
  }
  StepAsk step;
  step.branch = ask.branch;
  step.seq = ask.seq;
  step.name = ask.name;
  step.key = ask.key;
  step.effect = kernel::Effect::pure;
  step.request = asked.end_array().end_object().take();
  step.caller = ask.caller;
  step.verb = ask.verb;
  auto located = locate(guard, kernel::StepKind::first_of, step);
  if (auto* outcome = std::get_if<Outcome>(&located)) return std::move(*outcome);
  Entry& entry = *std::get<Entry*>(located);
  const Opening opening(entry, changed_);
  entry.verb = caller.process;
  if (!entry.stored) {
    if (auto outcome = open_group(guard, entry, ask)) return *outcome;
  }
  return drive_wait(guard, entry, caller);
}

std::optional<Outcome> Attempt::open_group(Guard& guard, Entry& entry, const FirstOfAsk& ask) {
  const bool reset = std::exchange(reset_marks_, false);
  bool flagged = false;
  const auto outcome = persist(guard, [&, intent = intent_of(entry)](db::Tx& tx) -> kernel::OpenOutcome {
    flagged = cancel_met(tx);
    if (flagged) return kernel::WaitOpened{};
    std::vector<kernel::Alternative> alternatives;
    for (const WaitAsk& one : ask.alternatives) {
      std::optional<TimeMs> due;  // a timer's only: it is the deadline of all [A10]
      if (one.kind == kernel::WaitKind::timer) due = deadline_of(one, tx.now());
      alternatives.push_back({one.kind, one.name, one.request, due});
    }
    return kernel::open_first_of(tx, fence_, intent, alternatives, reset, tx.now());
  });
  if (flagged) return cancelled_outcome(entry);
  if (std::holds_alternative<kernel::LeaseLost>(outcome)) return lost();
  entry.row.id = std::get<kernel::WaitOpened>(outcome).step;
  entry.stored = true;
  return std::nullopt;
}

std::optional<Outcome> Attempt::open_wait(Guard& guard, Entry& entry, const WaitAsk& ask) {
  const bool reset = std::exchange(reset_marks_, false);
  const std::string payload = payload_of(ask);
  bool flagged = false;
  const auto outcome = persist(guard, [&, intent = intent_of(entry)](db::Tx& tx) -> kernel::OpenOutcome {
    flagged = cancel_met(tx);
    if (flagged) return kernel::WaitOpened{};
    return kernel::open_wait(tx, fence_, kernel::WaitAsk{intent, ask.kind, payload, deadline_of(ask, tx.now())}, reset,
                             tx.now());
  });
  if (flagged) return cancelled_outcome(entry);
  if (std::holds_alternative<kernel::LeaseLost>(outcome)) return lost();
  const auto& opened = std::get<kernel::WaitOpened>(outcome);
  entry.row.id = opened.step;
  entry.stored = true;
  return std::nullopt;
}

Outcome Attempt::drive_wait(Guard& guard, Entry& entry, const Caller& caller) {
  const int turn = entry.turn;
  for (;;) {
    const std::uint64_t seen = changes_;
    refresh_locked(guard);
    if (entry.turn != turn) return Closed{Closing::open};
    if (closing_ != Closing::open) return closed_outcome(entry);
    if (entry.row.status == kernel::StepStatus::completed) {
      entry.open = false;
      const std::string result = entry.row.result.value_or("null");
      return charged(guard, entry, Settled{result, outcome_word(entry.row.kind, result)});
    }
    if (entry.row.status == kernel::StepStatus::failed) {
      entry.open = false;
      return Failed{entry.row.error.value_or("{}"), entry.row.name, entry.ask.tried};
    }
    if (cancelled_ || settled(entry.row.status)) return closed_outcome(entry);
    guard.unlock();
    const auto wait = store_.read([&](db::ReadTx& tx) { return kernel::deciding_wait(tx, entry.row.id); });
    guard.lock();
    if (!wait) throw Bug("a step that waits has no wait");
    if (wait->status == kernel::WaitStatus::cancelled) return closed_outcome(entry);
    const bool timer_due = wait->kind == kernel::WaitKind::timer && *wait->resolve_by <= store_.now();
    if (wait->status == kernel::WaitStatus::pending && !timer_due) {
      const auto until = wait->kind == kernel::WaitKind::timer ? wait->resolve_by : std::nullopt;
      if (auto outcome = block(guard, entry, caller, seen, until, wait->id)) return *outcome;
      continue;
    }
    if (wait->kind == kernel::WaitKind::child) {
      read_settled(guard, entry);
      continue;
    }
    std::string result;
    bool flagged = false;
    bool another = false;  // of a group: it was decided between the look and the transaction
    const bool held = persist(guard, [&](db::Tx& tx) {
      flagged = cancel_met(tx);
      if (flagged) return true;
      const bool pending_timer = wait->status == kernel::WaitStatus::pending;
      another = pending_timer && kernel::read_wait(tx, wait->id)->status != kernel::WaitStatus::pending;
      if (another) return true;
      const bool ok = pending_timer ? kernel::settle_timer(tx, fence_, *wait, tx.now())
                                    : kernel::settle_from_wait(tx, fence_, *wait, tx.now());
      if (ok) result = kernel::read_step(tx, wait->step)->result.value_or("null");
      return ok;
    });
    if (flagged) return cancelled_outcome(entry);
    if (!held) return lost();
    if (!another) (void)settle(entry, std::move(result));
  }
}

// Waits until something changes, the time comes, or the caller hangs up; suspends native code when all of it waits.
// nullopt: look again. `holds_run`: this wait is short and must not suspend the run.
std::optional<Outcome> Attempt::block(Guard& guard, Entry& entry, const Caller& caller, std::uint64_t seen,
                                      std::optional<TimeMs> until, WaitId wait, bool holds_run) {
  if (caller.must_not_wait) return Later{};
  const bool inline_wait = holds_run || (until && *until - store_.now() <= options_.inline_sleep);
  Waiter waiter{&entry, wait, caller.process, !inline_wait};
  waiters_.push_back(&waiter);
  struct Leave {
    std::vector<Waiter*>& waiters;
    Waiter* self;
    ~Leave() { waiters.erase(std::find(waiters.begin(), waiters.end(), self)); }
  } leave{waiters_, &waiter};
  const int turn = entry.turn;
  if (options_.style == Style::remote) {
    entry.waits_on = wait;
    entry.may_suspend = !inline_wait;
    parked_.insert(&entry);
    if (caller.branches > 0) branches_ = caller.branches;
  }
  if (options_.style != Style::program) {
    suspend_if_all_wait(guard);
  } else if (bell_) {
    bell_();  // the driver looks whether everybody waits
  }
  // A short wait that holds the run is measured by the clock that nobody sets [C6].
  const BootMs over_at = until ? store_.system_clock().boot_ms() + (*until - store_.now()) : 0;
  const auto to_go = [&] { return holds_run ? over_at - store_.system_clock().boot_ms() : *until - store_.now(); };
  while (closing_ == Closing::open && changes_ == seen && (!until || to_go() > 0)) {
    // Set back, the clock has made a short sleep long: that one is no reason to keep the run.
    if (inline_wait && !holds_run && to_go() > options_.inline_sleep) return std::nullopt;
    const DurationMs left = caller.poll_until - store_.system_clock().boot_ms();
    if (options_.style == Style::remote) {
      if ((left <= 0 && (holds_run || !inline_wait)) || (caller.gone && caller.gone())) return Waiting{wait, until};
    } else if (caller.gone && caller.gone()) {
      if (entry.turn != turn) return Closed{Closing::open};
      return vanished(entry);
    }
    // An inline sleep looks at the store's clock in small steps (it may be a test's); a verb is watched for its end.
    DurationMs longest = caller.gone ? kGoneLookMs : 60'000;
    if (left > 0) longest = std::min(longest, left);
    if (until)
      longest = std::min(longest, std::max<DurationMs>(1, inline_wait ? std::min<DurationMs>(to_go(), 50) : to_go()));
    wait_for_change(guard, longest);
  }
  return std::nullopt;
}

Outcome Attempt::vanished(Entry& entry) {
  ++vanished_;
  entry.open = false;
  if (bell_) bell_();
  return Closed{Closing::open};
}

void Attempt::suspend_if_all_wait(Guard& guard) {
  if (closing_ != Closing::open || suspending_ || waiters_.empty()) return;
  const bool somebody_acts = executing_ > 0 || static_cast<int>(waiting().size()) < branches_;
  if (somebody_acts && !BIDE_PLANTED(gate_open)) return;
  suspend_locked(guard);
}

void Attempt::suspend_locked(Guard& guard) {
  const std::vector<Waiter> all = waiting();
  if (std::any_of(all.begin(), all.end(), [](const Waiter& w) { return !w.may_suspend; })) return;
  kernel::Awaited awaited;
  for (const Waiter& waiter : all) {
    if (waiter.wait.valid()) {
      awaited.waits.push_back(waiter.wait);
    } else if (waiter.entry->row.kind == kernel::StepKind::task) {
      awaited.tasks.push_back(waiter.entry->row.id);
    } else {
      awaited.retries.push_back(waiter.entry->row.id);
    }
  }
  suspending_ = true;
  struct Over {
    Attempt& attempt;
    ~Over() {
      attempt.suspending_ = false;
      attempt.changed_.notify_all();
    }
  } over{*this};
  const auto outcome =
      persist(guard, [&](db::Tx& tx) { return kernel::suspend_run(tx, fence_, awaited, tx.now(), options_.undoing); });
  if (std::holds_alternative<kernel::GoOn>(outcome)) {
    // Remote: one of them may be settled that nobody asks for just now. Those wait again when they are asked for again.
    parked_.clear();
    for (const Waiter* waiter : waiters_) parked_.insert(waiter->entry);
    rung_.store(true);
    ++changes_;
    changed_.notify_all();
    return;
  }
  close_locked(std::holds_alternative<kernel::Suspended>(outcome) ? Closing::suspended : Closing::lease_lost);
  if (options_.on_requeued) options_.on_requeued();
}

bool Attempt::try_suspend(const std::set<std::int64_t>& looked_at) {
  Guard guard(mutex_);
  if (closing_ != Closing::open || suspending_ || executing_ > 0 || waiters_.empty()) return false;
  if (rung_.load()) return false;  // somebody has been answered, and may not know it yet
  // Each open verb waits: one that has just been answered stands in no waiter, and its branch would be forgotten.
  const auto& entries = journal_.at_work();
  const bool all_wait = std::all_of(entries.begin(), entries.end(), [this](const auto& one) {
    const Entry* entry = one.second;
    return !entry->open ||
           std::any_of(waiters_.begin(), waiters_.end(), [entry](const Waiter* w) { return w->entry == entry; });
  });
  if (!all_wait) return false;
  // One that was answered whole since the look is open no more, and its process has yet to go on.
  std::set<std::int64_t> waiting;
  for (const Waiter* waiter : waiters_) waiting.insert(waiter->entry->row.seq);
  if (!std::includes(waiting.begin(), waiting.end(), looked_at.begin(), looked_at.end())) return false;
  suspend_locked(guard);
  return closing_ == Closing::suspended;
}

}  // namespace bide::flow
