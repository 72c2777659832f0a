// Failures as they stand in the journal: {"code","message",…}. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace bide::flow {

// {"code":…,"message":…}
[[nodiscard]] std::string error_json(std::string_view code, std::string_view message);
[[nodiscard]] std::string verb_killed_error();  // V1
// E9: the effect is known to have happened; what cannot be kept is a final failure that says so. nullopt: it can.
[[nodiscard]] std::optional<std::string> unusable(std::string_view result);
// E9: it did what it does, though what it said of it cannot be kept.
[[nodiscard]] bool effect_happened(std::string_view error);

}  // namespace bide::flow
