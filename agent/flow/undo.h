// Compensations of native code: registered under a name, asked for by a step, run when the run ends failed or
// cancelled [E6]. The step keeps the name and an argument; the function must be there in the version that ends the run.
//
// Threads: the worker's, after the code's end: nothing of the code runs beside it. Failures: one that fails is an entry
// of the journal and the next runs; a fault of the store is thrown.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "agent/flow/context.h"

namespace bide::flow {

struct UndoInfo {
  std::string argument;  // JSON, as the step gave it
  std::string result;    // JSON: what the step that is taken back had brought
  EffectInfo effect;     // its own key and count: send the key along [J6]
};
struct Compensation {
  std::function<std::string(const UndoInfo&)> run;  // returns JSON
  kernel::Effect effect = kernel::Effect::idempotent;
  int retries = limits::kNativeRetries;
};
using Compensations = std::map<std::string, Compensation>;

// Runs what is not done yet, the step that settled last first. `attempt` was made with AttemptOptions::undoing.
// True: all is done or noted, finish the run. False: the attempt is closed (suspended, lost, shutdown).
[[nodiscard]] bool run_compensations(Attempt& attempt, Random& random, const Compensations& registered);

}  // namespace bide::flow
