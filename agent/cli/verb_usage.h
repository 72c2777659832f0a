// Whether the verbs of a script are called as they can be: each call is handed to `bide` itself, which looks at its
// words and does nothing else (BIDE_CHECK). So what is found is what the run would end with.
#pragma once

#include <string>
#include <vector>

#include "agent/work/script_check.h"

namespace bide::cli {

// Code "usage"; a call that names no verb, a flag that is none, a value that cannot be. Needs `bide` beside this
// executable; throws ConfigFault if it cannot be started.
[[nodiscard]] std::vector<work::ScriptFinding> check_usage(const std::string& file,
                                                           const std::vector<work::VerbCall>& calls);

}  // namespace bide::cli
