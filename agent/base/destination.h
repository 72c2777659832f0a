// Where a message may go, as far as its text says: what is wrong with a URL that a workflow gives. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace bide {

// nullopt: http://, https://, mqtt:// or mqtts://, and no password in a broker's. Who sends it reads the rest [O6]. The
// text says what was expected, without the URL.
[[nodiscard]] std::optional<std::string> wrong_destination(std::string_view url);

}  // namespace bide
