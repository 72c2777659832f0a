// What `bide VERB --help` says of a workflow verb, inside a run and outside. Plain data, one thread.
#pragma once

#include <string_view>

namespace bide::verb {

// Empty: there is no such verb.
[[nodiscard]] std::string_view help_of(std::string_view verb);
// The flags that name a place in the journal; empty for a verb that has none.
[[nodiscard]] std::string_view place_help(std::string_view verb);

}  // namespace bide::verb
