// What is different between the request that an entry was recorded with and the one that this attempt asks with, in
// words that name the place and what to write instead [J4]: "argument 3 of fetch was /tmp/tmp.A and is /tmp/tmp.B: use
// a file in the workspace, or `bide value tmpdir`". Plain functions; they never fail.
#pragma once

#include <string>
#include <string_view>

namespace bide::flow {

// `name`: of the entry. `recorded`, `attempted`: checked JSON, as StepAsk::request; empty if they say the same.
[[nodiscard]] std::string request_difference(std::string_view name, std::string_view recorded,
                                             std::string_view attempted);
// "was A and is B: advice", the differing part alone of texts that are long.
[[nodiscard]] std::string was_and_is(std::string_view recorded, std::string_view attempted);

}  // namespace bide::flow
