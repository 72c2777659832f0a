#include "agent/flow/undo.h"

#include <stdexcept>

#include "agent/base/json.h"
#include "agent/flow/attempt.h"

namespace bide::flow {
namespace {

// What a step's intent holds: {"name":…,"argument":…}.
std::string name_of(const kernel::Compensation& open) {
  return json::string_member(open.compensate, "name").value_or("compensation");
}
std::string argument_of(const kernel::Compensation& open) {
  return json::member(open.compensate, "argument").value_or("null");
}

}  // namespace

// Has access to the Context's loop over an effect; a compensation is a step like any other.
struct UndoContext {
  Attempt& attempt;
  Random& random;

  void one(const kernel::Compensation& open, const Compensations& registered) {
    const auto found = registered.find(name_of(open));
    StepAsk ask;
    ask.branch = std::string(kernel::kUndoBranch);
    ask.name = name_of(open);
    ask.effect = found == registered.end() ? kernel::Effect::idempotent : found->second.effect;
    ask.retries = found == registered.end() ? 0 : found->second.retries;
    ask.request = json::Writer()
                      .begin_object()
                      .member("step", open.seq)
                      .member("name", open.step)
                      .member_raw("argument", argument_of(open))
                      .end_object()
                      .take();
    Context context(attempt, random, ask.branch);
    const auto run = [&](const EffectInfo& effect) -> std::string {
      if (found == registered.end())
        throw Final("No compensation is registered as \"" + ask.name + "\" in this version.");
      return found->second.run(UndoInfo{argument_of(open), open.result, effect});
    };
    (void)context.run_effect(attempt.begin_undo(open.seq, open.key_uid, ask), run, {}, ask.effect);
  }
};

bool run_compensations(Attempt& attempt, Random& random, const Compensations& registered) {
  UndoContext undo{attempt, random};
  for (;;) {
    // Read anew each time: an operator may have said meanwhile that the rest is to be left [X1].
    const auto open = attempt.open_compensations();
    if (open.empty()) return true;
    try {
      undo.one(open.front(), registered);
    } catch (const StepFailed&) {
      // Noted in the journal: the next one runs, and the run ends with its first error.
    } catch (const AttemptClosed&) {
      return false;
    }
  }
}

}  // namespace bide::flow
