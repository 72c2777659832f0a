#include "agent/flow/position.h"

#include "agent/base/text.h"

namespace bide::flow {

std::string native_position(std::string_view branch, std::int64_t seq) {
  return percent_encode(branch) + "/" + std::to_string(seq);
}

std::string program_place(std::string_view branch, kernel::StepKind kind, std::string_view name, std::string_view key) {
  return percent_encode(branch) + "/" + std::string(to_text(kind)) + "/" + percent_encode(name) + "/" +
         percent_encode(key);
}

std::string program_position(std::string_view branch, kernel::StepKind kind, std::string_view name,
                             std::string_view key, std::int64_t n) {
  return program_place(branch, kind, name, key) + "/" + std::to_string(n);
}

}  // namespace bide::flow
