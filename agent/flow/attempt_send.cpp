// Messages of an attempt: an entry of the journal whose delivery nobody waits for [O1, O2].
#include "agent/base/destination.h"
#include "agent/base/json.h"
#include "agent/flow/attempt.h"
#include "agent/flow/attempt_impl.h"
#include "agent/kernel/messages.h"

namespace bide::flow {

Outcome Attempt::send(const SendAsk& ask) {
  Guard guard(mutex_);
  if (const auto wrong = wrong_destination(ask.url)) return end_locked(guard, error_json("Usage", *wrong + "."));
  StepAsk step;
  step.branch = ask.branch;
  step.seq = ask.seq;
  step.name = ask.name;
  step.key = ask.key;
  step.effect = kernel::Effect::idempotent;
  step.request = json::Writer().begin_object().member("url", ask.url).member_raw("data", ask.data).end_object().take();
  step.caller = ask.caller;
  step.verb = ask.verb;
  auto located = locate(guard, kernel::StepKind::message, step);
  if (auto* outcome = std::get_if<Outcome>(&located)) return std::move(*outcome);
  Entry& entry = *std::get<Entry*>(located);
  const Opening opening(entry, changed_);
  if (entry.stored) {
    entry.open = false;
    return Settled{entry.row.result.value_or("null"), {}};
  }
  const std::string key = kernel::idempotency_key(run_.uid, entry.row.position, entry.row.name, entry.row.request_hash);
  const bool reset = std::exchange(reset_marks_, false);
  bool flagged = false;
  std::string result;
  const auto sent = persist(guard, [&, intent = intent_of(entry)](db::Tx& tx) -> kernel::IntentOutcome {
    flagged = cancel_met(tx);
    if (flagged) return StepId();
    const auto outcome = kernel::send_message(tx, fence_, {intent, ask.url, ask.data, key}, reset, tx.now());
    if (const auto* id = std::get_if<StepId>(&outcome)) result = kernel::read_step(tx, *id)->result.value_or("null");
    return outcome;
  });
  if (flagged) return cancelled_outcome(entry);
  if (std::holds_alternative<kernel::LeaseLost>(sent)) return lost();
  entry.row.id = std::get<StepId>(sent);
  return settle(entry, std::move(result));
}

}  // namespace bide::flow
