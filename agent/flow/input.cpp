// The input of a run and the schema of its workflow's manifest.
#include "agent/flow/ask.h"
#include "agent/kernel/schema_check.h"

namespace bide::flow {

std::optional<Problem> input_refused(const std::string& workflow, const Startable& version, std::string_view input) {
  if (version.input_schema.empty()) return std::nullopt;
  auto errors = kernel::schema_errors(version.input_schema, input);
  if (errors.empty()) return std::nullopt;
  Problem refused = problem("input_invalid", "the input does not fit the schema in the manifest of " + workflow);
  refused.errors = std::move(errors);
  return refused;
}

}  // namespace bide::flow
