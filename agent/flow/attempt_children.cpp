// A child run of an attempt: started once, waited for until it has ended [A11].
#include "agent/base/json.h"
#include "agent/flow/attempt.h"
#include "agent/flow/attempt_impl.h"
#include "agent/kernel/children.h"
#include "agent/kernel/waits.h"

namespace bide::flow {

Outcome Attempt::call(const CallAsk& ask, const Caller& caller) {
  Guard guard(mutex_);
  StepAsk step;
  step.branch = ask.branch;
  step.seq = ask.seq;
  step.name = ask.name;
  step.key = ask.key;
  step.effect = kernel::Effect::pure;
  step.request =
      json::Writer().begin_object().member("workflow", ask.workflow).member_raw("input", ask.input).end_object().take();
  step.caller = ask.caller;
  step.verb = ask.verb;
  step.tried = ask.tried;
  auto located = locate(guard, kernel::StepKind::child, step);
  if (auto* outcome = std::get_if<Outcome>(&located)) return std::move(*outcome);
  Entry& entry = *std::get<Entry*>(located);
  const Opening opening(entry, changed_);
  entry.verb = caller.process;
  if (!entry.stored || (entry.row.status == kernel::StepStatus::started && !has_child(guard, entry))) {
    if (auto outcome = open_child(guard, entry, ask)) return *outcome;
  }
  return drive_wait(guard, entry, caller);
}

// A retry opens a step again whose workflow was not there: it has no child yet [X3].
bool Attempt::has_child(Guard& guard, const Entry& entry) {
  guard.unlock();
  const auto wait = store_.read([&](db::ReadTx& tx) { return kernel::latest_wait(tx, entry.row.id); });
  guard.lock();
  return wait.has_value();
}

std::optional<Outcome> Attempt::open_child(Guard& guard, Entry& entry, const CallAsk& ask) {
  // A program's files are read and pinned before the transaction: a bell must not wait for that.
  std::variant<Startable, Problem> found = problem("workflow_unknown", "There is no workflow " + ask.workflow + ".");
  if (options_.find_workflow) {
    guard.unlock();
    struct Relock {
      Guard& guard;
      ~Relock() { guard.lock(); }
    } relock{guard};
    found = options_.find_workflow(ask.workflow);
    if (const auto* there = std::get_if<Startable>(&found)) {
      if (auto refused = input_refused(ask.workflow, *there, ask.input)) found = std::move(*refused);
    }
  }
  const bool reset = std::exchange(reset_marks_, false);
  bool flagged = false;
  if (const auto* refused = std::get_if<Problem>(&found)) {
    // Journaled like any failure: a replay must not find the workflow that was not there.
    std::string why = refused->detail;
    for (const auto& error : refused->errors) why += "; at \"" + error.pointer + "\": " + error.detail;
    kernel::Failure failure{intent_of(entry), {}, error_json(refused->code, why), std::nullopt, true};
    failure.known = entry.row.id;
    const auto outcome = persist(guard, [&](db::Tx& tx) -> kernel::RecordOutcome {
      flagged = cancel_met(tx);
      if (flagged) return kernel::Recorded{};
      return kernel::fail_step(tx, fence_, failure, tx.now());
    });
    if (flagged) return cancelled_outcome(entry);
    if (std::holds_alternative<kernel::LateOutcome>(outcome)) return lost();
    entry.row.id = std::get<kernel::Recorded>(outcome).step;
    entry.row.status = kernel::StepStatus::failed;
    entry.row.error = failure.error;
    entry.stored = true;
    return std::nullopt;
  }
  const auto& startable = std::get<Startable>(found);
  // Its own, also of an entry that was copied: the key of the run that it was copied from names that one's child.
  const std::string key = kernel::idempotency_key(run_.uid, entry.row.position, entry.row.name, entry.row.request_hash);
  kernel::ChildAsk child{intent_of(entry), entry.row.id, startable.workflow, startable.version, ask.workflow,
                         ask.input,        key,          startable.deadline};
  const auto outcome = persist(guard, [&](db::Tx& tx) -> kernel::ChildOutcome {
    flagged = cancel_met(tx);
    if (flagged) return kernel::ChildOpened{};
    auto opened = kernel::open_child(tx, fence_, child, reset, tx.now());
    if (std::holds_alternative<kernel::ChildOpened>(opened)) tell(tx, kernel::Ripples{{}, {}, true});
    return opened;
  });
  if (flagged) return cancelled_outcome(entry);
  if (std::holds_alternative<kernel::LeaseLost>(outcome)) return lost();
  entry.row.id = std::get<kernel::ChildOpened>(outcome).step;
  entry.stored = true;
  return std::nullopt;
}

void Attempt::read_settled(Guard& guard, Entry& entry) {
  guard.unlock();
  auto row = store_.read([&](db::ReadTx& tx) { return kernel::read_step(tx, entry.row.id); });
  guard.lock();
  if (!row || !settled(row->status)) throw Bug("a child has ended and its step is open");
  entry.row.status = row->status;
  entry.row.result = std::move(row->result);
  entry.row.error = std::move(row->error);
  entry.row.usage = std::move(row->usage);
  ++changes_;
  changed_.notify_all();
}

}  // namespace bide::flow
