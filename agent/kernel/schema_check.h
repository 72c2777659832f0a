// JSON Schema (draft 7) of a question's answer [A8].
#pragma once

#include <string_view>
#include <vector>

#include "agent/base/errors.h"

namespace bide::kernel {

// Where `document` does not fit `schema`, as JSON Pointers; empty: it fits. Both are checked JSON.
[[nodiscard]] std::vector<PointerError> schema_errors(std::string_view schema, std::string_view document);
// Why the text cannot be used as a schema; empty: it can.
[[nodiscard]] std::string schema_fault(std::string_view schema);

}  // namespace bide::kernel
