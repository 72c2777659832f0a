// What the tests of real processes share: a name that no other process on the machine carries, and who carries it.
#pragma once

#include <string>
#include <vector>

#include "agent/base/process_tree.h"

namespace bide::test {

// Digits of a fraction: `sleep 300.<tag>` is a process that can be found by its command line.
[[nodiscard]] std::string unique_tag();
// Pids (not zombies) of processes of that name whose command line holds the text.
[[nodiscard]] std::vector<int> running_with(const std::string& text, const std::string& name = "sleep");
// An attempt's environment: PATH, BIDE_AGENT, BIDE_RUN, BIDE_ATTEMPT.
[[nodiscard]] std::vector<std::string> attempt_environment(const std::string& socket, int run = 7, int epoch = 1);

}  // namespace bide::test
