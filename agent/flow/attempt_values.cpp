// Values of an attempt: recorded once, read for ever; what a run says of itself; what it may spend [J7, J8, J10].
#include "agent/base/json.h"
#include "agent/base/planted.h"
#include "agent/base/text.h"
#include "agent/flow/attempt.h"
#include "agent/flow/attempt_impl.h"
#include "agent/flow/position.h"
#include "agent/kernel/steps.h"

namespace bide::flow {

Outcome Attempt::value(const std::string& branch, const std::string& name, const std::string& key,
                       const std::function<std::string()>& make, std::int64_t seq) {
  StepAsk ask;
  ask.branch = branch;
  ask.seq = seq;
  ask.name = name;
  ask.key = key;
  ask.effect = kernel::Effect::pure;
  Guard guard(mutex_);
  return record(guard, ask, make);
}

Outcome Attempt::set_state(const std::string& branch, const std::string& name, const std::string& value) {
  StepAsk ask;
  ask.branch = branch;
  ask.name = name;
  ask.effect = kernel::Effect::pure;
  ask.request = json::Writer().begin_object().member("state", name).end_object().take();
  Guard guard(mutex_);
  return record(guard, ask, [&] { return value; });
}

Outcome Attempt::set_state(const StateAsk& ask) {
  StepAsk step;
  step.branch = ask.branch;
  step.seq = ask.seq;
  step.name = ask.name;
  step.key = ask.key;
  step.effect = kernel::Effect::pure;
  step.request =
      json::Writer().begin_object().member("state", ask.name).member_raw("value", ask.value).end_object().take();
  step.caller = ask.caller;
  step.verb = ask.verb;
  Guard guard(mutex_);
  return record(guard, step, [&] { return ask.value; });
}

std::optional<std::string> Attempt::state(std::string_view branch, std::string_view name) const {
  const std::string own = percent_encode(branch) + "/";
  const Entry* found = nullptr;
  const Entry* of_main = nullptr;
  Guard guard(mutex_);
  for (const auto& [seq, entry] : journal_.all()) {
    const kernel::StepRow& row = entry->row;
    if (!entry->visited || row.kind != kernel::StepKind::value || row.name != name || !row.result ||
        !json::member(row.request, "state"))
      continue;
    if (branch.empty() || row.position.starts_with(own)) found = entry.get();
    if (row.position.starts_with('/')) of_main = entry.get();
  }
  if (found == nullptr) found = of_main;
  return found == nullptr ? std::nullopt : found->row.result;
}

Outcome Attempt::record(Guard& guard, const StepAsk& ask, const std::function<std::string()>& make) {
  auto located = locate(guard, kernel::StepKind::value, ask);
  if (auto* outcome = std::get_if<Outcome>(&located)) return std::move(*outcome);
  Entry& entry = *std::get<Entry*>(located);
  const Opening opening(entry, changed_);
  if (entry.stored) {
    entry.open = false;
    return Settled{BIDE_PLANTED(value_made_anew) ? make() : entry.row.result.value_or("null"), {}};
  }
  // Whatever `make` does, a bell must not wait for it.
  guard.unlock();
  std::string made;
  try {
    made = make();
  } catch (...) {
    guard.lock();
    if (options_.style == Style::native) {  // in no file, and nobody asks again: not an open step. A program does ask
      entry.open = false;
      entry.row.status = kernel::StepStatus::cancelled;
    }
    throw;
  }
  guard.lock();
  const bool reset = std::exchange(reset_marks_, false);
  const auto outcome = persist(guard, [&, intent = intent_of(entry)](db::Tx& tx) {
    return kernel::record_value(tx, fence_, intent, made, reset, tx.now());
  });
  if (std::holds_alternative<kernel::LeaseLost>(outcome)) return lost();
  entry.row.id = std::get<StepId>(outcome);
  return settle(entry, made);
}

std::optional<Outcome> Attempt::replay_step(const StepAsk& ask) {
  Guard guard(mutex_);
  const std::string place = program_place(ask.branch, kernel::StepKind::step, ask.name, ask.key);
  const auto count = counts_.find(place);
  const std::int64_t n = count == counts_.end() ? 1 : count->second + 1;
  const Entry* there = journal_.find(program_position(ask.branch, kernel::StepKind::step, ask.name, ask.key, n));
  if (there == nullptr || there->open || !settled(there->row.status)) return std::nullopt;
  auto located = locate(guard, kernel::StepKind::step, ask);
  if (auto* outcome = std::get_if<Outcome>(&located)) return std::move(*outcome);
  return drive_step(guard, *std::get<Entry*>(located), {});
}

Outcome Attempt::charged(Guard& guard, Entry& entry, Outcome outcome) {
  if (options_.budget.empty() || entry.charged || !entry.row.usage) return outcome;
  entry.charged = true;
  kernel::add_usage(spent_, kernel::parse_usage(*entry.row.usage));
  for (const auto& [name, most] : options_.budget) {
    if (spent_[name] <= most) continue;
    json::Writer w;
    w.begin_object().member("code", "BudgetExceeded");
    w.member("message", "The budget of " + name + " does not bear entry " + std::to_string(entry.row.seq) + " (" +
                            entry.row.name + ").");
    w.member_raw("spent", kernel::to_json(spent_)).member_raw("budget", kernel::to_json(options_.budget)).end_object();
    return end_locked(guard, w.text());
  }
  return outcome;
}

}  // namespace bide::flow
