// Steps whose command runs under a holder: a process that outlives the attempt and hands in [K2, K7].
#include "agent/base/json.h"
#include "agent/flow/attempt.h"
#include "agent/flow/attempt_impl.h"
#include "agent/kernel/evidence.h"
#include "agent/kernel/steps.h"

namespace bide::flow {

kernel::ProcessRow holder_row(const ProcessKey& key, const std::string& nonce) {
  kernel::ProcessRow row;
  row.nonce = nonce;
  row.pid = key.pid;
  row.pid_start = static_cast<std::int64_t>(key.start);
  row.boot_id = boot_id();
  return row;
}

void add_holder(db::Tx& tx, const kernel::Fence& fence, kernel::ProcessRow row, StepId step) {
  row.step = step;
  if (!kernel::add_process(tx, fence, row, tx.now()).valid()) throw Bug("add_holder: the lease was there just now");
}

// Steps that execute still, though their attempt is over. Whoever asks for one waits for its holder; until it has
// handed in the run is not suspended [A3].
void Attempt::adopt(std::vector<kernel::ProcessRow> holders) {
  const ProcessKey gone{-1, 0};  // of a boot that is over: it may have left its file
  for (const kernel::ProcessRow& holder : holders) {
    if (!holder.holds) continue;
    const bool this_boot = holder.boot_id == boot_id();
    for (const auto& [seq, entry] : journal_.all()) {
      if (entry->row.id != *holder.step) continue;
      entry->executing = true;
      journal_.begins(*entry);
      entry->adopted = true;
      entry->holder =
          this_boot ? ProcessKey{static_cast<int>(holder.pid), static_cast<std::uint64_t>(holder.pid_start)} : gone;
      entry->ask.retries = entry->row.retries;  // until its verb says it again
      ++executing_;
    }
  }
}

Outcome Attempt::hold(std::int64_t step, std::string_view nonce, const ProcessKey& holder) {
  Guard guard(mutex_);
  Entry* entry = journal_.by_seq(step);
  if (entry == nullptr) return problem("step_unknown", "This run has no step " + std::to_string(step) + ".");
  while (entry->starting) wait_for_change(guard);
  if (!entry->executing || entry->row.nonce != nonce || (!entry->offered && entry->holder != holder))
    return problem("stale_nonce", "Another execution of this step is under way, or it is settled.");
  if (!entry->offered) return execution_of(*entry);  // asked again over a new connection
  refresh_locked(guard);
  if (over() || silent()) {
    stop_executing(*entry);
    return closed_outcome(*entry);
  }
  entry->offered = false;
  entry->holder = holder;
  if (auto outcome = write_beginning(guard, *entry, &holder)) return *outcome;
  return execution_of(*entry);
}

Outcome Attempt::await(std::int64_t step, std::string_view nonce, const Caller& caller) {
  Guard guard(mutex_);
  Entry* entry = journal_.by_seq(step);
  if (entry == nullptr) return problem("step_unknown", "This run has no step " + std::to_string(step) + ".");
  if (entry->row.nonce != nonce) return problem("stale_nonce", "Another execution of this step is under way.");
  return drive_step(guard, *entry, caller);
}

Attempt::HandIn Attempt::hand_in(std::int64_t step, std::string_view nonce, const kernel::HeldOutcome& outcome) {
  Guard guard(mutex_);
  Entry* entry = journal_.by_seq(step);
  if (entry == nullptr || closing_ == Closing::lease_lost) return HandIn::not_here;
  while (entry->starting || entry->taking) wait_for_change(guard);  // taking: it asks again over a new connection
  if (entry->row.nonce != nonce || entry->offered || entry->probed) return HandIn::not_here;
  if (!entry->executing) return entry->row.status == kernel::StepStatus::started ? HandIn::not_here : HandIn::again;
  entry->taking = true;
  struct Taken {
    Entry& entry;
    Condition& changed;
    ~Taken() {
      entry.taking = false;
      changed.notify_all();
    }
  } taken{*entry, changed_};
  if (entry->ask.backoff == 0) entry->ask.backoff = outcome.backoff;
  const auto error = outcome.result ? unusable(*outcome.result) : std::nullopt;
  bool held = false;
  if (outcome.result && !error) {
    held = take_result(guard, *entry, outcome);
  } else {
    FailureReport report;
    report.error = error.value_or(outcome.error);
    report.retryable = !error && outcome.retryable;
    report.unknown = !error && outcome.unknown;
    if (!outcome.begun) {
      const auto code = json::string_member(outcome.error, "code");
      report.stays_pending = code == "NotFound";
      report.fault = code == "SpawnFailed";
      report.not_begun = true;
    }
    held = take_failure(guard, *entry, outcome, report);
  }
  if (!held) (void)lost();
  if (bell_) bell_();
  return held ? HandIn::recorded : HandIn::not_here;
}

bool Attempt::take_result(Guard& guard, Entry& entry, const kernel::HeldOutcome& outcome) {
  if (entry.superseded) entry.superseded->store(true);
  const kernel::Completion done{intent_of(entry), entry.row.id, *outcome.result, std::nullopt};
  std::optional<kernel::RecordOutcome> recorded;
  try {
    const auto job = [&, nonce = *entry.row.nonce](db::Tx& tx) -> std::optional<kernel::RecordOutcome> {
      if (!kernel::holds(tx, fence_)) return std::nullopt;
      auto written = kernel::complete_step(tx, fence_, done, tx.now());
      kernel::mark_handed_in(tx, nonce, outcome, tx.now());
      return written;
    };
    recorded = persist(guard, job, db::Purpose::normal, false);
  } catch (const CorruptData&) {  // the file refuses the entry: its effect has happened all the same [J1]
    stop_executing(entry);
    persist(guard, [&](db::Tx& tx) {
      kernel::keep_late_outcome(tx, fence_.run, done.known, fence_.epoch, done.intent.name, {done.result}, tx.now());
    });
    throw;
  }
  stop_executing(entry);
  if (!recorded) return false;
  const auto& written = std::get<kernel::Recorded>(*recorded);
  entry.row.id = written.step;
  if (written.cancel_asked && !options_.undoing) cancelled_ = true;
  (void)settle(entry, *outcome.result);
  return true;
}

bool Attempt::take_failure(Guard& guard, Entry& entry, const kernel::HeldOutcome& outcome,
                           const FailureReport& report) {
  const bool unknown = report.unknown || (entry.signalled && !effect_happened(report.error));
  const bool no_failure = entry.row.effect == kernel::Effect::non_idempotent || closing_ == Closing::shutdown;
  if (!unknown || !outcome.begun || !no_failure) return write_failure(guard, entry, report, &outcome);
  // E7: no outcome, as after a crash.
  const auto job = [&, nonce = *entry.row.nonce](db::Tx& tx) {
    if (!kernel::holds(tx, fence_)) return false;
    kernel::mark_handed_in(tx, nonce, outcome, tx.now());
    return true;
  };
  const bool held = persist(guard, job, db::Purpose::normal, false);
  stop_executing(entry);
  return held;
}

void Attempt::holder_gone(std::int64_t step, std::string_view nonce) {
  Guard guard(mutex_);
  Entry* entry = journal_.by_seq(step);
  if (entry == nullptr || !entry->executing || entry->row.nonce != nonce) return;
  // It may have handed in before it ended, to an agent that did not know this attempt yet: the file has it then.
  read_adopted(guard, *entry);
  stop_executing(*entry);
  if (bell_) bell_();
}

// Handed in while nobody drove the run, or just before this attempt stood in the table.
void Attempt::read_adopted(Guard& guard, Entry& entry) {
  guard.unlock();
  auto row = store_.read([&](db::ReadTx& tx) { return kernel::read_step(tx, entry.row.id); });
  guard.lock();
  if (!row || !entry.adopted || (row->status == kernel::StepStatus::started && row->nonce == entry.row.nonce)) return;
  row->caller_hash = entry.row.caller_hash;
  entry.row = std::move(*row);
  stop_executing(entry);
}

void Attempt::set_held_bell(std::function<void(const ProcessKey&)> bell) {
  Guard guard(mutex_);
  held_bell_ = std::move(bell);
}

}  // namespace bide::flow
