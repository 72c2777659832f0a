// A step whose result is a secret (bide step --secret-result): the journal has the entry without its result, and the
// command runs again in each attempt [D4]. So it is pure or idempotent, runs in the verb itself and under no holder,
// and is not written down again. One thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/base/time.h"
#include "agent/verb/attempt.h"

namespace bide::verb {

struct SecretStep {
  std::string name;
  std::string begin;  // the body that begins it
  std::vector<std::string> command;
  std::function<std::vector<std::string>(const std::string& reply)> environment;
  std::int64_t retries = 0;
  DurationMs backoff_ms = 0;
  DurationMs timeout_ms = 0;
};

// Prints what the command says, and returns 0. What fails finally ends the run; in an attempt that finds the entry
// completed, the run is queued again with the reason secret_step_failed.
int run_secret_step(const Attempt& attempt, const SecretStep& step);

}  // namespace bide::verb
