// Steps of an attempt: begin, execute, record, retry, doubt.
#include "agent/base/json.h"
#include "agent/base/planted.h"
#include "agent/flow/attempt.h"
#include "agent/flow/attempt_impl.h"
#include "agent/flow/retry_delay.h"
#include "agent/kernel/evidence.h"
#include "agent/kernel/steps.h"
#include "agent/kernel/waits.h"

namespace bide::flow {

DurationMs backoff_of(const StepAsk& ask, std::int64_t failures, std::uint64_t chance) {
  return retry_delay(ask.backoff, failures, chance);
}

Outcome Attempt::begin_step(const StepAsk& ask, const Caller& caller) {
  Guard guard(mutex_);
  // Each of them holds a connection and a thread: beyond these a verb asks again [P1].
  if (options_.style == Style::program && in_line_ >= limits::kStepsInLine && !over() && !cancelled_)
    return problem("busy", "as many steps of this run wait for their turn as may");
  auto located = locate(guard, kernel::StepKind::step, ask);
  if (auto* outcome = std::get_if<Outcome>(&located)) return std::move(*outcome);
  Entry& entry = *std::get<Entry*>(located);
  const Opening opening(entry, changed_);
  entry.verb = caller.process;
  return drive_step(guard, entry, caller);
}

Outcome Attempt::settle(Entry& entry, std::string result) {
  entry.row.status = kernel::StepStatus::completed;
  entry.row.result = std::move(result);
  entry.row.error.reset();
  entry.stored = true;
  entry.open = false;
  ++changes_;
  changed_.notify_all();
  return Settled{*entry.row.result, {}};
}

// V1, V2: a program that is being ended would go on with the next line if it were answered; native code is answered and
// met at its next operation [X1].
bool Attempt::silent() const { return options_.style == Style::program && (over() || cancelled_); }

Outcome Attempt::closed_outcome(Entry& entry) {
  entry.open = false;
  return Closed{over() ? why() : Closing::cancelled};
}

Outcome Attempt::cancelled_outcome(Entry& entry) {
  if (!over()) cancelled_ = true;  // else it was the end of the run, which another branch has written
  ++changes_;
  changed_.notify_all();
  return closed_outcome(entry);
}

Outcome Attempt::drive_step(Guard& guard, Entry& entry, const Caller& caller) {
  const int turn = entry.turn;
  for (;;) {
    const std::uint64_t seen = changes_;
    refresh_locked(guard);
    if (entry.turn != turn) return Closed{Closing::open};  // a newer connection of the same verb has it
    if (entry.executing && !entry.probed) {
      if (entry.starting) {
        wait_for_change(guard);
        continue;
      }
      if (entry.holder.pid == 0) return execution_of(entry);
      if (entry.adopted) read_adopted(guard, entry);
    }
    if (closing_ != Closing::open || silent()) return closed_outcome(entry);
    if (entry.executing && entry.probed && options_.style == Style::remote)  // asked again: it is the same probe
      return AskProbe{entry.row.seq, *entry.row.nonce, execution_key(entry), *entry.ask.probe};
    if (entry.executing && !entry.probed) {  // its holder has it
      if (auto outcome = block(guard, entry, caller, seen, std::nullopt, WaitId(), true)) return *outcome;
      continue;
    }
    switch (entry.row.status) {
      case kernel::StepStatus::completed:
        entry.open = false;
        return charged(guard, entry, Settled{entry.row.result.value_or("null"), {}});
      case kernel::StepStatus::failed:
        entry.open = false;
        return Failed{entry.row.error.value_or("{}"), entry.row.name, entry.ask.tried};
      case kernel::StepStatus::cancelled: return closed_outcome(entry);
      case kernel::StepStatus::pending: {
        if (cancelled_) return closed_outcome(entry);
        const TimeMs due = entry.row.not_before.value_or(0);
        if (due <= store_.now()) return execute(guard, entry, caller);
        if (auto outcome = block(guard, entry, caller, seen, due, WaitId())) return *outcome;
        break;
      }
      case kernel::StepStatus::started:
      case kernel::StepStatus::needs_reconcile: {
        if (cancelled_) return closed_outcome(entry);
        const bool sure =
            entry.row.status == kernel::StepStatus::started &&
            (BIDE_PLANTED(repeat_in_silence) || !entry.stored || entry.row.effect != kernel::Effect::non_idempotent);
        if (sure) return execute(guard, entry, caller);
        if (auto outcome = in_doubt(guard, entry, caller, seen)) return *outcome;
        break;
      }
    }
  }
}

void Attempt::ride_intent(Entry& entry, const std::optional<kernel::ProcessRow>& holder) {
  auto superseded = std::make_shared<std::atomic<bool>>(false);
  auto refused = std::make_shared<std::atomic<bool>>(false);
  entry.superseded = superseded;
  const bool reset = std::exchange(reset_marks_, false);
  const ProcessKey key = entry.holder;
  store_.ride(
      [fence = fence_, intent = intent_of(entry), refused, reset, holder](db::Tx& tx) {
        const auto outcome = kernel::write_intent(tx, fence, intent, reset, tx.now());
        const auto* step = std::get_if<StepId>(&outcome);
        if (step == nullptr) refused->store(true);
        if (step != nullptr && holder) add_holder(tx, fence, *holder, *step);
      },
      [weak = weak_from_this(), refused, superseded, key](const std::optional<std::string>& fault) {
        const auto self = weak.lock();
        if (!self) return;
        // A fault is met again, and told, by the outcome's job, which carries the intent.
        if (refused->load()) {
          self->refused_.store(true);
          self->ring();
        } else if (!fault && !superseded->load() && key.pid != 0) {
          Guard guard(self->mutex_);
          if (self->held_bell_) self->held_bell_(key);
        }
      },
      superseded);
}

// nullopt: fewer than P1 allows execute, or the attempt is over.
std::optional<Outcome> Attempt::wait_in_line(Guard& guard, Entry& entry, const Caller& caller) {
  const int turn = entry.turn;
  ++in_line_;
  struct Leave {
    int& in_line;
    ~Leave() { --in_line; }
  } leave{in_line_};
  while (executing_ >= limits::kStepsAtOnce && !over() && !cancelled_) {
    if (caller.must_not_wait) return Later{};
    wait_for_change(guard, caller.gone ? kGoneLookMs : 60'000);
    refresh_locked(guard);
    if (entry.turn != turn) return Closed{Closing::open};  // a newer connection of the same verb stands in line
    if (!caller.gone || !caller.gone()) continue;
    if (options_.style == Style::remote) return Waiting{};  // it may ask again
    return vanished(entry);
  }
  return std::nullopt;
}

Outcome Attempt::execute(Guard& guard, Entry& entry, const Caller& caller) {
  if (auto outcome = wait_in_line(guard, entry, caller)) return *outcome;
  if (over() || cancelled_) return closed_outcome(entry);
  ++executing_;
  entry.executing = true;
  journal_.begins(entry);
  entry.verb = caller.process;
  entry.row.nonce = random_.uid();
  entry.probed = false;
  entry.holder = {};
  entry.adopted = false;
  if (entry.ask.holder) {
    entry.offered = true;
    return execution_of(entry);
  }
  if (auto outcome = write_beginning(guard, entry, nullptr)) return *outcome;
  return execution_of(entry);
}

std::optional<Outcome> Attempt::write_beginning(Guard& guard, Entry& entry, const ProcessKey* key) {
  entry.starting = true;
  struct Begun {
    Entry& entry;
    Condition& changed;
    ~Begun() {
      entry.starting = false;
      changed.notify_all();
    }
  } begun{entry, changed_};
  std::optional<kernel::ProcessRow> holder;
  if (key != nullptr) holder = holder_row(*key, *entry.row.nonce);
  try {
    return write_intent(guard, entry, std::move(holder));
  } catch (...) {  // nothing says that it began: whoever asks again must not be told that it may [J1]
    stop_executing(entry);
    throw;
  }
}

std::optional<Outcome> Attempt::write_intent(Guard& guard, Entry& entry, std::optional<kernel::ProcessRow> holder) {
  bool held = true;
  bool flagged = false;
  // Its guard hears of a holder before the file does: an end that comes meanwhile leaves it alone [K5]. One that is in
  // no row is never let go, and ends by itself.
  // A remote one's number leaves the process: not before it is on disk [C3].
  const bool rides = !entry.stored && options_.style != Style::remote &&
                     (entry.row.effect != kernel::Effect::non_idempotent || BIDE_PLANTED(intent_rides));
  if (holder && !rides && held_bell_) held_bell_(entry.holder);
  if (entry.stored) {
    const StepId id = entry.row.id;
    const std::string nonce = *entry.row.nonce;
    if (BIDE_PLANTED(crash_counts_as_failure) && entry.row.status == kernel::StepStatus::started)
      entry.row.failures = entry.ask.retries;
    held = persist(guard, [&](db::Tx& tx) {
      flagged = cancel_met(tx);
      if (flagged) return true;
      if (!kernel::start_again(tx, fence_, id, nonce, tx.now())) return false;
      if (holder) add_holder(tx, fence_, *holder, id);
      return true;
    });
    if (!flagged) ++entry.row.executions;
  } else if (!rides) {
    const bool reset = std::exchange(reset_marks_, false);
    const auto outcome = persist(guard, [&, intent = intent_of(entry)](db::Tx& tx) -> kernel::IntentOutcome {
      flagged = cancel_met(tx);
      if (flagged) return StepId();
      auto written = kernel::write_intent(tx, fence_, intent, reset, tx.now());
      if (const auto* step = std::get_if<StepId>(&written); step != nullptr && holder)
        add_holder(tx, fence_, *holder, *step);
      return written;
    });
    held = std::holds_alternative<StepId>(outcome);
    if (held) entry.row.id = std::get<StepId>(outcome);
    entry.stored = held && !flagged;
  } else {
    ride_intent(entry, holder);  // not in the file yet: until it is, its holder ends with its attempt
  }
  if (!held || flagged) {
    stop_executing(entry);
    return flagged ? cancelled_outcome(entry) : lost();
  }
  entry.row.status = kernel::StepStatus::started;
  entry.row.epoch = fence_.epoch;
  entry.signalled = false;
  must_end_within(entry, entry.ask.timeout);
  return std::nullopt;
}

std::string Attempt::execution_key(const Entry& entry) const {
  const std::string& root = entry.key_uid.empty() ? run_.uid : entry.key_uid;
  return kernel::idempotency_key(BIDE_PLANTED(key_per_attempt) ? fence_.owner : root, entry.row.position,
                                 entry.row.name, entry.row.request_hash);
}

void Attempt::must_end_within(Entry& entry, DurationMs most) {
  entry.deadline_boot_ms = most > 0 ? store_.system_clock().boot_ms() + most : 0;
  if (most > 0 && options_.on_deadline) options_.on_deadline(entry.deadline_boot_ms);
}

Execute Attempt::execution_of(const Entry& entry) const {
  return Execute{entry.row.seq, *entry.row.nonce, execution_key(entry), entry.row.executions, entry.offered};
}

void Attempt::stop_executing(Entry& entry) {
  if (!entry.executing) return;
  entry.executing = false;
  entry.offered = false;
  entry.adopted = false;
  entry.holder = {};
  entry.deadline_boot_ms = 0;
  --executing_;
  ++changes_;
  changed_.notify_all();
}

// E1: an earlier execution may have had its effect: the probe, then the question.
std::optional<Outcome> Attempt::in_doubt(Guard& guard, Entry& entry, const Caller& caller, std::uint64_t seen) {
  if (entry.row.status == kernel::StepStatus::needs_reconcile) return answered_doubt(guard, entry, caller, seen);
  if (entry.ask.probe && !entry.probed && !BIDE_PLANTED(probe_not_asked)) {
    const DurationMs left = loaded_boot_ms_ + options_.settle_after - store_.system_clock().boot_ms();
    if (options_.style != Style::program && left > 0)
      return block(guard, entry, caller, seen, store_.now() + left, WaitId(), true);
    entry.probed = true;
    entry.executing = true;  // the gate is held while a probe runs
    journal_.begins(entry);
    entry.verb = caller.process;
    ++executing_;
    entry.row.nonce = random_.uid();
    // A probe that hangs must not hold the run for ever: it has as long as its step, 30 s at most.
    must_end_within(entry, entry.ask.timeout > 0 ? std::min(entry.ask.timeout, limits::kProbeMs) : limits::kProbeMs);
    return AskProbe{entry.row.seq, *entry.row.nonce, execution_key(entry), *entry.ask.probe};
  }
  const std::string_view probe = entry.ask.probe ? "could not tell" : "none";
  const auto outcome = persist(
      guard, [&, id = entry.row.id](db::Tx& tx) { return kernel::put_in_doubt(tx, fence_, id, probe, tx.now()); });
  if (std::holds_alternative<kernel::LeaseLost>(outcome)) return lost();
  entry.row.status = kernel::StepStatus::needs_reconcile;
  return std::nullopt;
}

// E4: what a person said about a step in doubt.
std::optional<Outcome> Attempt::answered_doubt(Guard& guard, Entry& entry, const Caller& caller, std::uint64_t seen) {
  guard.unlock();
  const auto wait = store_.read([&](db::ReadTx& tx) { return kernel::latest_wait(tx, entry.row.id); });
  guard.lock();
  if (!wait) throw Bug("a step in doubt has no question");
  if (wait->status == kernel::WaitStatus::pending) return block(guard, entry, caller, seen, std::nullopt, wait->id);
  if (wait->status != kernel::WaitStatus::resolved) return closed_outcome(entry);
  const std::string answer = json::string_member(*wait->resolution, "answer").value_or("");
  if (answer == "run" || BIDE_PLANTED(ran_runs_again)) return execute(guard, entry, caller);
  if (answer != "ran") return closed_outcome(entry);
  std::string result = R"({"assumed":true})";
  if (entry.row.assume) result = *entry.row.assume;
  if (auto given = json::member(*wait->resolution, "result")) result = std::move(*given);
  bool flagged = false;
  const bool held = persist(guard, [&, id = entry.row.id](db::Tx& tx) {
    flagged = cancel_met(tx);
    return flagged || kernel::settle_step(tx, fence_, id, result, tx.now());
  });
  if (flagged) return cancelled_outcome(entry);
  if (!held) return lost();
  return settle(entry, std::move(result));
}

Outcome Attempt::probe_said(std::int64_t step, std::string_view nonce, ProbeVerdict verdict,
                            const std::optional<std::string>& result, const Caller& caller) {
  Guard guard(mutex_);
  Entry* entry = journal_.by_seq(step);
  if (entry == nullptr) return problem("step_unknown", "This run has no step " + std::to_string(step) + ".");
  if (!entry->executing || !entry->probed || entry->row.nonce != nonce)
    return problem("stale_nonce", "This probe is not asked any more.");
  stop_executing(*entry);
  if (verdict == ProbeVerdict::did_not_run) return execute(guard, *entry, caller);
  if (verdict == ProbeVerdict::cannot_tell) return drive_step(guard, *entry, caller);
  std::string value = result.value_or("null");
  if (unusable(value)) value = entry->row.assume.value_or(R"({"assumed":true})");
  const bool held = persist(
      guard, [&, id = entry->row.id](db::Tx& tx) { return kernel::settle_step(tx, fence_, id, value, tx.now()); });
  if (!held) return lost();
  Outcome settled = settle(*entry, std::move(value));
  return silent() ? closed_outcome(*entry) : std::move(settled);
}

Outcome Attempt::complete(std::int64_t step, std::string_view nonce, std::string_view result,
                          const std::optional<std::string>& usage) {
  if (const auto error = unusable(result)) return fail(step, nonce, FailureReport{*error, false});
  Guard guard(mutex_);
  Entry* entry = journal_.by_seq(step);
  if (entry == nullptr) return problem("step_unknown", "This run has no step " + std::to_string(step) + ".");
  if (entry->row.nonce == nonce && entry->row.status == kernel::StepStatus::completed) {
    return silent() ? closed_outcome(*entry) : Settled{entry->row.result.value_or("null"), {}};
  }
  if (!entry->executing || entry->row.nonce != nonce)
    return problem("stale_nonce", "Another execution of this step is under way, or it is settled.");
  if (entry->superseded) entry->superseded->store(true);
  kernel::Completion done{intent_of(*entry), entry->row.id, std::string(result), usage};
  std::optional<kernel::RecordOutcome> outcome;
  try {
    outcome = persist(guard, [&](db::Tx& tx) { return kernel::complete_step(tx, fence_, done, tx.now()); });
  } catch (const CorruptData&) {  // the file refuses the entry: its effect has happened all the same [J1]
    stop_executing(*entry);
    persist(guard, [&](db::Tx& tx) {
      kernel::keep_late_outcome(tx, fence_.run, done.known, fence_.epoch, done.intent.name, {done.result}, tx.now());
    });
    throw;
  }
  stop_executing(*entry);
  if (std::holds_alternative<kernel::LateOutcome>(*outcome)) return lost();
  const auto& recorded = std::get<kernel::Recorded>(*outcome);
  entry->row.id = recorded.step;
  entry->row.usage = usage;
  Outcome settled = settle(*entry, std::string(result));
  if (usage && !options_.budget.empty()) settled = charged(guard, *entry, std::move(settled));
  if (recorded.cancel_asked && options_.style == Style::program && !options_.undoing) return cancelled_outcome(*entry);
  return silent() ? closed_outcome(*entry) : std::move(settled);
}

Outcome Attempt::fail(std::int64_t step, std::string_view nonce, const FailureReport& report, const Caller& caller) {
  Guard guard(mutex_);
  Entry* entry = journal_.by_seq(step);
  if (entry == nullptr) return problem("step_unknown", "This run has no step " + std::to_string(step) + ".");
  const bool told = entry->row.status == kernel::StepStatus::pending || entry->row.status == kernel::StepStatus::failed;
  if (!entry->executing && entry->row.nonce == nonce && told) return drive_step(guard, *entry, caller);
  if (!entry->executing || entry->row.nonce != nonce)
    return problem("stale_nonce", "Another execution of this step is under way, or it is settled.");
  if (entry->offered) {  // no holder could be made: nothing is written, and nothing has begun
    stop_executing(*entry);
    entry->open = false;
    close_locked(Closing::fault);
    return Closed{why()};
  }
  if (report.unknown || (entry->signalled && !effect_happened(report.error))) {
    // E7: no outcome. At a suspension or shutdown nothing at all; for non_idempotent as after a crash.
    const bool ours = closing_ == Closing::shutdown || closing_ == Closing::suspended;
    if (ours || entry->row.effect == kernel::Effect::non_idempotent) {
      stop_executing(*entry);
      return drive_step(guard, *entry, caller);
    }
  }
  return record_failure(guard, *entry, report, caller);
}

Outcome Attempt::record_failure(Guard& guard, Entry& entry, const FailureReport& report, const Caller& caller) {
  if (!write_failure(guard, entry, report, nullptr)) return lost();
  if (report.fault || report.stays_pending) return Closed{why()};
  return drive_step(guard, entry, caller);
}

bool Attempt::write_failure(Guard& guard, Entry& entry, const FailureReport& report, const kernel::HeldOutcome* held) {
  if (entry.superseded) entry.superseded->store(true);
  const bool begun = !report.stays_pending && !report.fault && !report.not_begun;
  kernel::Failure failure{intent_of(entry), entry.row.id, report.error, std::nullopt, begun};
  const std::int64_t failures = entry.row.failures + (begun ? 1 : 0);
  const bool ended_by_us = entry.signalled && !effect_happened(report.error);
  const bool curable = report.retryable || BIDE_PLANTED(final_is_retried);
  const bool again = !begun || ended_by_us || (curable && failures <= entry.ask.retries);
  const bool at_once = !begun || BIDE_PLANTED(backoff_ignored);
  if (again) failure.retry_at = store_.now() + (at_once ? 0 : backoff_of(entry.ask, failures, random_.next()));
  const auto job = [&, nonce = *entry.row.nonce](db::Tx& tx) -> std::optional<kernel::RecordOutcome> {
    // What a holder hands in is not lost with the lease: the kernel takes it by the nonce.
    if (held != nullptr && !kernel::holds(tx, fence_)) return std::nullopt;
    auto recorded = kernel::fail_step(tx, fence_, failure, tx.now());
    if (held != nullptr) kernel::mark_handed_in(tx, nonce, *held, tx.now());
    return recorded;
  };
  const auto outcome = persist(guard, job, db::Purpose::normal, held == nullptr);
  stop_executing(entry);
  if (!outcome || std::holds_alternative<kernel::LateOutcome>(*outcome)) return false;
  entry.row.id = std::get<kernel::Recorded>(*outcome).step;
  entry.stored = true;
  entry.row.failures = failures;
  entry.row.error = report.error;
  entry.row.status = again ? kernel::StepStatus::pending : kernel::StepStatus::failed;
  entry.row.not_before = failure.retry_at;
  if (report.fault) {
    entry.open = false;
    close_locked(Closing::fault);
  } else if (report.stays_pending) {
    entry.open = false;
    (void)end_locked(guard, report.error);
  }
  return true;
}

}  // namespace bide::flow
