// Usage as a value: numbers by name that steps report [J7]. What the file makes of them: usage.h.
#pragma once

#include <map>
#include <string>

namespace bide::kernel {

using Usage = std::map<std::string, double>;

}  // namespace bide::kernel
