// Tasks of an attempt: the intent is written and offered, and the run waits for whoever does it [K8].
#include "agent/base/json.h"
#include "agent/flow/attempt.h"
#include "agent/flow/attempt_impl.h"
#include "agent/kernel/tasks.h"
#include "agent/kernel/waits.h"

namespace bide::flow {

Outcome Attempt::task(const StepAsk& ask, const Caller& caller) {
  Guard guard(mutex_);
  auto located = locate(guard, kernel::StepKind::task, ask);
  if (auto* outcome = std::get_if<Outcome>(&located)) return std::move(*outcome);
  Entry& entry = *std::get<Entry*>(located);
  const Opening opening(entry, changed_);
  if (!entry.stored) {
    const bool reset = std::exchange(reset_marks_, false);
    bool flagged = false;
    const auto outcome = persist(guard, [&, intent = intent_of(entry)](db::Tx& tx) -> kernel::IntentOutcome {
      flagged = cancel_met(tx);
      if (flagged) return StepId();
      const auto opened = kernel::open_task(tx, fence_, intent, reset, tx.now());
      if (const auto* step = std::get_if<StepId>(&opened)) offer(tx, *step);
      return opened;
    });
    if (flagged) return cancelled_outcome(entry);
    if (std::holds_alternative<kernel::LeaseLost>(outcome)) return lost();
    entry.row.id = std::get<StepId>(outcome);
    entry.row.status = kernel::StepStatus::pending;
    entry.stored = true;
  }
  return drive_task(guard, entry, caller);
}

void Attempt::offer(db::Tx& tx, StepId step) {
  if (options_.on_task) tx.after_commit([bell = options_.on_task, step] { bell(step); });
}

// Its outcome is written by the worker that has it: each look reads the entry anew.
Outcome Attempt::drive_task(Guard& guard, Entry& entry, const Caller& caller) {
  for (;;) {
    const std::uint64_t seen = changes_;
    refresh_locked(guard);
    if (closing_ != Closing::open) return closed_outcome(entry);
    if (!settled(entry.row.status)) {
      guard.unlock();
      auto row = store_.read([&](db::ReadTx& tx) { return kernel::read_step(tx, entry.row.id); });
      guard.lock();
      if (!row) throw Bug("a task is not in the journal any more");
      entry.row = std::move(*row);
    }
    switch (entry.row.status) {
      case kernel::StepStatus::completed:
        entry.open = false;
        return charged(guard, entry, Settled{entry.row.result.value_or("null"), {}});
      case kernel::StepStatus::failed:
        entry.open = false;
        return Failed{entry.row.error.value_or("{}"), entry.row.name, entry.ask.tried};
      case kernel::StepStatus::cancelled: return closed_outcome(entry);
      case kernel::StepStatus::pending:
      case kernel::StepStatus::started:
        if (cancelled_) return closed_outcome(entry);
        if (auto outcome = block(guard, entry, caller, seen, std::nullopt, WaitId())) return *outcome;
        break;
      case kernel::StepStatus::needs_reconcile:
        if (cancelled_) return closed_outcome(entry);
        if (auto outcome = task_in_doubt(guard, entry, caller, seen)) return *outcome;
        break;
    }
  }
}

// E4: what a person said about a task whose worker was lost.
std::optional<Outcome> Attempt::task_in_doubt(Guard& guard, Entry& entry, const Caller& caller, std::uint64_t seen) {
  guard.unlock();
  const auto wait = store_.read([&](db::ReadTx& tx) { return kernel::latest_wait(tx, entry.row.id); });
  guard.lock();
  if (!wait) throw Bug("a task in doubt has no question");
  if (wait->status == kernel::WaitStatus::pending) return block(guard, entry, caller, seen, std::nullopt, wait->id);
  if (wait->status != kernel::WaitStatus::resolved) return closed_outcome(entry);
  const std::string answer = json::string_member(*wait->resolution, "answer").value_or("");
  if (answer != "run" && answer != "ran") return closed_outcome(entry);
  std::string result = entry.row.assume.value_or(R"({"assumed":true})");
  if (auto given = json::member(*wait->resolution, "result")) result = std::move(*given);
  bool flagged = false;
  const bool held = persist(guard, [&, id = entry.row.id](db::Tx& tx) {
    flagged = cancel_met(tx);
    if (flagged) return true;
    if (answer == "ran") return kernel::settle_step(tx, fence_, id, result, tx.now());
    const bool open = kernel::reopen_task(tx, fence_, id, tx.now());
    if (open) offer(tx, id);
    return open;
  });
  if (flagged) return cancelled_outcome(entry);
  if (!held) return lost();
  return std::nullopt;
}

}  // namespace bide::flow
