// What must hold for the gate whatever bytes come in. Returns what is broken; empty if nothing is.
#pragma once

#include <string>
#include <string_view>

namespace bide::test {

[[nodiscard]] std::string gate_breaks(std::string_view bytes);

}  // namespace bide::test
