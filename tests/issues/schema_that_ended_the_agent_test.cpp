// A question, or a manifest, with a JSON Schema that the library does not understand (a type that is none) ended the
// whole agent: the library calls abort() unless it is told to throw. It is a refusal.
#include <catch2/catch.hpp>

#include "agent/kernel/schema_check.h"

namespace bide::kernel {
namespace {

TEST_CASE("A schema that is not understood is refused with a reason, and ends nothing") {
  CHECK(schema_fault(R"({"type":"objct"})").find("objct") != std::string::npos);
  CHECK_FALSE(schema_fault(R"({"type":7})").empty());
  CHECK(schema_fault(R"({"type":"object"})").empty());
  // What was asked with such a schema cannot be answered, and says why.
  const auto errors = schema_errors(R"({"type":"objct"})", "{}");
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].detail.find("objct") != std::string::npos);
}

}  // namespace
}  // namespace bide::kernel
