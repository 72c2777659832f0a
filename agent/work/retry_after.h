// Retry-After (RFC 9110, 10.2.3), both forms, as a wait from `now`. Rubbish, the past and negative numbers are
// nothing; longer than an hour is an hour [O5].
#pragma once

#include <optional>
#include <string_view>

#include "agent/base/time.h"

namespace bide::work {

[[nodiscard]] DurationMs retry_after(std::string_view field, TimeMs now);
// An HTTP-date in any of the three forms; nullopt: not one.
[[nodiscard]] std::optional<TimeMs> parse_http_date(std::string_view text);

}  // namespace bide::work
