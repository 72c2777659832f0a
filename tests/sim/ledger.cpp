#include "tests/sim/ledger.h"

#include <algorithm>

#include "agent/base/json.h"

namespace bide::sim {

std::optional<Violation>& first_violation() {
  thread_local std::optional<Violation> first;
  return first;
}

void violated(const std::string& invariant, const std::string& what) {
  if (!first_violation()) first_violation() = Violation{invariant, what};
  throw Violation{invariant, what};
}

bool Effect::running() const {
  return std::any_of(executions.begin(), executions.end(),
                     [](const Execution& e) { return e.ending == Ending::running; });
}

int Effect::threw() const {
  return static_cast<int>(std::count_if(executions.begin(), executions.end(),
                                        [](const Execution& e) { return e.ending == Ending::threw; }));
}

std::string result_of(const Effect& effect) {
  return "{\"did\":\"" + effect.op->name + "\",\"run\":" + std::to_string(effect.run.value) + "}";
}

Effect& Ledger::effect(RunId run, const Op& op) {
  Effect& effect = effects[{run.value, op.index}];
  effect.run = run;
  effect.op = &op;
  return effect;
}

std::size_t Ledger::begin(Effect& effect, const std::string& key, std::int64_t failures, TimeMs now) {
  const std::string where = effect.op->name + " of run " + std::to_string(effect.run.value);
  if (effect.key.empty()) effect.key = key;
  if (effect.key != key) violated("I2", where + " was executed under another key: " + effect.key + ", then " + key);
  if (failures > effect.failures) {
    effect.licences += static_cast<int>(failures - effect.failures);
    effect.failures = failures;
  }
  if (effect.op->effect == kernel::Effect::non_idempotent) {
    if (static_cast<int>(effect.executions.size()) >= effect.licences)
      violated("I2", where + " (non_idempotent) was executed again though nobody said that it did not run");
    if (effect.running()) violated("I2", where + " (non_idempotent) was begun while an execution of it was going on");
  }
  check_again(effect, now);
  effect.executions.push_back({now, Ending::running, false, 0, 0});
  counts.add("executions");
  if (effect.executions.size() > 1) counts.add("executions again");
  return effect.executions.size() - 1;
}

// E2: an execution after a failure that was recorded waits for its time, and does not follow a final one.
void Ledger::check_again(const Effect& effect, TimeMs now) const {
  const auto found = runs.find(effect.run.value);
  if (effect.executions.empty() || found == runs.end()) return;
  const RunOutside& outside = found->second;
  const Execution& last = effect.executions.back();
  if (outside.retries > 0 || outside.abandoned || last.ending != Ending::threw) return;
  if (last.interruptions != outside.interruptions) return;  // it may not have been recorded
  const std::string where = effect.op->name + " of run " + std::to_string(effect.run.value);
  if (effect.op->final_failure) violated("I2", where + " was executed again after a final failure");
  if (!clock_stepped && effect.op->backoff > 0 && now - last.ended_at < effect.op->backoff - 1'000)
    violated("I7", where + " was executed again " + std::to_string(now - last.ended_at) + " ms after a failure");
}

void Ledger::end(Effect& effect, std::size_t execution, Ending ending, TimeMs now) {
  effect.executions[execution].ending = ending;
  effect.executions[execution].ended_at = now;
  effect.executions[execution].interruptions = runs[effect.run.value].interruptions;
}

void Ledger::apply(Effect& effect, std::size_t execution) {
  effect.executions[execution].applied = true;
  ++effect.applied;
  if (effect.op->effect == kernel::Effect::non_idempotent && effect.applied > 1)
    violated("I2", effect.op->name + " of run " + std::to_string(effect.run.value) + " happened twice");
}

void Ledger::saw(RunId run, const Op& op, const std::string& result) {
  const auto [it, fresh] = runs[run.value].seen.emplace(op.index, result);
  if (fresh) {
    counts.add("seen");
    return;
  }
  counts.add("seen again");
  if (it->second != result) {
    violated("I1", "run " + std::to_string(run.value) + " was given " + it->second + " for " + op.name +
                       ", and in a later attempt " + result);
  }
}

void Ledger::saw_signal(RunId run, const Op& op, const std::string& result) {
  RunOutside& outside = runs[run.value];
  const bool fresh = !outside.seen.contains(op.index);
  saw(run, op, result);
  const auto id = json::int_member(result, "signal");
  if (!fresh || !id) return;
  counts.add("signals read");
  for (const auto& [sent, payload] : outside.signals[op.name]) {
    if (sent == *id && json::member(result, "payload") != payload)
      violated("I4", "signal " + std::to_string(*id) + " arrived with another payload");
  }
}

void Ledger::process_died() {
  for (auto& [id, effect] : effects) {
    if (effect.held) continue;  // its holder says how it ended
    // Nobody drives the run of a task: its worker's death interrupts it all the same.
    if (effect.running() && effect.op->kind == OpKind::task) ++runs[id.first].interruptions;
    for (Execution& execution : effect.executions) {
      if (execution.ending == Ending::running) execution.ending = Ending::gone;
    }
  }
}

}  // namespace bide::sim
