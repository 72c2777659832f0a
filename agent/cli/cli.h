// The operators' verbs. One thread. What they throw ends in run(), as an exit code and a line on stderr.
#pragma once

#include <string>
#include <vector>

#include "agent/cli/console.h"
#include "agent/flow/registry.h"

namespace bide::cli {

// Exit codes of the operators' verbs. Inside a workflow other laws hold [V1].
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kNotFound = 3;
inline constexpr int kConflict = 4;  // already decided, lease lost
inline constexpr int kStillGoing = 5;
inline constexpr int kNoAgent = 6;
inline constexpr int kCancelled = 7;
inline constexpr int kDenied = 10;
inline constexpr int kChangesRequested = 11;
inline constexpr int kExpired = 12;

// The whole command line, with the program's name first. `registry`: the native workflows that `serve` has.
int run(const std::vector<std::string>& argv, Console& console, flow::Registry registry = {});

}  // namespace bide::cli
