// The version of bide, as `bide version` and /v1/info tell it.
#pragma once

namespace bide {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace bide
