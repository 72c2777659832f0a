// Golden files: what people read (schema, help, JSON, problem documents) is kept under tests/golden/ and compared.
// BIDE_GOLDEN_WRITE=1 in the environment rewrites the files instead; a reviewer then sees the change as a diff.
#pragma once

#include <string_view>

namespace bide::test {

// Fails the running test case, with the first line that differs, unless the text is the content of
// tests/golden/<name>. A missing file fails too.
void check_golden(std::string_view name, std::string_view text);

}  // namespace bide::test
