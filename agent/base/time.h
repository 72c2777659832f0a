// Points in time and lengths of time as plain milliseconds, and their text forms.
// The file stores INTEGER milliseconds since 1970-01-01 UTC; the API speaks RFC 3339 in UTC with milliseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bide {

using TimeMs = std::int64_t;      // milliseconds since 1970-01-01 UTC, on the store's clock [C6]
using BootMs = std::int64_t;      // milliseconds of CLOCK_BOOTTIME: never steps, counts suspend
using DurationMs = std::int64_t;  // a length of time

// "2026-11-29T14:38:12.020Z" (RFC 3339, always UTC, always three decimals).
[[nodiscard]] std::string format_time(TimeMs at);
// Accepts RFC 3339 with any offset and 0 to 9 decimals. nullopt: not such a time.
[[nodiscard]] std::optional<TimeMs> parse_time(std::string_view text);

// "1h30m", "250ms", "2d", "10s" (units w d h m s ms, largest first, each once) or ISO 8601 ("PT1H30M", "P2D").
// A bare number is refused: it has no unit. nullopt: not such a duration, negative, or over 100 years.
[[nodiscard]] std::optional<DurationMs> parse_duration(std::string_view text);
// The shortest form that parse_duration reads back: "1h30m", "0s".
[[nodiscard]] std::string format_duration(DurationMs length);

}  // namespace bide
