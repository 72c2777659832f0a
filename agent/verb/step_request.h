// What a step's entry in the journal is known by: its request, and who asked [J4, V3]; and its recorded output as
// bytes. Shared by bide step and bide each, which must say the same of the same step. One thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bide::verb {

// JSON: what the entry's hash covers, the command and its input.
[[nodiscard]] std::string step_request(const std::vector<std::string>& command,
                                       const std::optional<std::string>& input);
// cwd and the exported variables that the attempt was not given: no part of the request, but it tells two equal
// steps apart that come back in the other order [V3]. The agent keeps its hash only.
[[nodiscard]] std::string caller_of_environment();

}  // namespace bide::verb
