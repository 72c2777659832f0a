// NonDeterminism: the recorded and the attempted entry side by side, and the ways out [J4, V3].
#pragma once

#include <string>
#include <string_view>

#include "agent/flow/ask.h"
#include "agent/flow/journal.h"

namespace bide::flow {

struct Attempted {
  std::string position;
  kernel::StepKind kind;
  const StepAsk& ask;
};
// recorded may be null: the journal has nothing there that fits.
[[nodiscard]] std::string nondeterminism(RunId run, const Entry* recorded, const Attempted& attempted,
                                         std::string_view message);

}  // namespace bide::flow
