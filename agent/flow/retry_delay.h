// How long a failed attempt of a step waits for the next one [E2].
#pragma once

#include <algorithm>
#include <cstdint>

#include "agent/base/limits.h"
#include "agent/base/time.h"

namespace bide::flow {

// A declared backoff is kept exactly; else 1 s, doubling, at most 5 min, ±20 %.
[[nodiscard]] inline DurationMs retry_delay(DurationMs declared, std::int64_t failures, std::uint64_t chance) {
  if (declared > 0) return declared;
  DurationMs delay = limits::kRetryFirstMs;
  for (std::int64_t i = 1; i < failures && delay < limits::kRetryMaxMs; ++i) delay *= 2;
  delay = std::min(delay, limits::kRetryMaxMs);
  return delay * static_cast<DurationMs>(80 + chance % 41) / 100;
}

}  // namespace bide::flow
