// NonDeterminism: the recorded and the attempted entry side by side, what has probably happened, and the ways out
// [J4, J9, V3].
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
struct Replayed {
  RunId run;
  std::string version;  // of the code that runs now
  const Journal& journal;
};
// recorded may be null: the journal has nothing there that fits. {"code","message","version","recorded"?,"attempted",
// "nearest"?,"guess"?,"hint"}: guess in words, such as: renamed? "fetch" is "get" now. Where only the request differs,
// the message names the argument or the text, what it was and what it is, and what to write instead.
[[nodiscard]] std::string nondeterminism(const Replayed& replayed, const Entry* recorded, const Attempted& attempted,
                                         std::string_view message);
// V3: the same request was done at `done`, which this attempt has not asked for, and is asked for at `asked` now: what
// of the two positions differs. "key was 17959 and is 17963: …"
[[nodiscard]] std::string moved_request(std::string_view done, std::string_view asked);

}  // namespace bide::flow
