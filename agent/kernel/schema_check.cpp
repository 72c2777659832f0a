#include "agent/kernel/schema_check.h"

// Else it ends the process with abort() at a schema that it does not understand.
#define VALIJSON_USE_EXCEPTIONS 1

#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

namespace bide::kernel {
namespace {

// valijson names a place as "<root>", "[a]", "[0]"; RFC 6901 wants "/a/0".
std::string pointer_of(const std::vector<std::string>& context) {
  std::string pointer;
  for (const std::string& part : context) {
    if (part.size() < 2 || part.front() != '[') continue;
    pointer.push_back('/');
    for (const char c : part.substr(1, part.size() - 2)) {
      if (c == '~') {
        pointer += "~0";
      } else if (c == '/') {
        pointer += "~1";
      } else {
        pointer.push_back(c);
      }
    }
  }
  return pointer;
}

void parse_schema(std::string_view text, valijson::Schema& schema) {
  const auto document = nlohmann::json::parse(text);
  valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
  parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(document), schema);
}

}  // namespace

std::string schema_fault(std::string_view text) {
  try {
    valijson::Schema schema;
    parse_schema(text, schema);
    return {};
  } catch (const std::exception& e) {
    return e.what();
  }
}

std::vector<PointerError> schema_errors(std::string_view schema_text, std::string_view document_text) {
  if (const std::string fault = schema_fault(schema_text); !fault.empty())
    return {{"", "the schema itself is not understood: " + fault}};
  valijson::Schema schema;
  parse_schema(schema_text, schema);
  const auto document = nlohmann::json::parse(document_text);
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  valijson::ValidationResults results;
  std::vector<PointerError> errors;
  if (validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(document), &results)) return errors;
  valijson::ValidationResults::Error error;
  while (results.popError(error)) errors.push_back({pointer_of(error.context), error.description});
  if (errors.empty()) errors.push_back({"", "does not fit the schema"});
  return errors;
}

}  // namespace bide::kernel
