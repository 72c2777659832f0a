// Positions in a journal [J5, V3].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/kernel/states.h"

namespace bide::flow {

// Native and remote code: "branch/seq", the main branch is "". seq counts from 1 in its branch.
[[nodiscard]] std::string native_position(std::string_view branch, std::int64_t seq);

// Programs: "branch/kind/name/key/n", each part percent-encoded; n counts the same (branch, kind, name, key) from 1.
[[nodiscard]] std::string program_position(std::string_view branch, kernel::StepKind kind, std::string_view name,
                                           std::string_view key, std::int64_t n);
// The same without n: what two open verbs must not share.
[[nodiscard]] std::string program_place(std::string_view branch, kernel::StepKind kind, std::string_view name,
                                        std::string_view key);

}  // namespace bide::flow
