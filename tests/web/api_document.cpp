#include "tests/web/api_document.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "web/embedded_documents.h"

namespace bide::test {
namespace {

using Json = nlohmann::json;
using Chance = std::minstd_rand;

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  path = path.substr(0, path.find('?'));
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/', 1), path.size());
    parts.emplace_back(path.substr(1, slash - 1));
    path.remove_prefix(slash);
  }
  return parts;
}

int fits(const std::vector<std::string>& pattern, const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return -1;
  int captures = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (!pattern[i].empty() && pattern[i].front() == '{') {
      ++captures;
    } else if (pattern[i] != path[i]) {
      return -1;
    }
  }
  return captures;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// A value for a schema: what fits, what nearly does, and what does not at all.
class Maker {
 public:
  Maker(const Json& components, std::uint64_t seed) : components_(components), chance_(seed + 1) {}

  Json make(const Json& schema, int depth = 0) {
    if (schema.contains("$ref")) {
      const std::string name = schema["$ref"].get<std::string>();
      return make(components_["schemas"][name.substr(name.rfind('/') + 1)], depth);
    }
    if (one_in(12)) return anything(depth);
    if (schema.contains("anyOf")) return make(schema["anyOf"][one_in(6) ? schema["anyOf"].size() - 1 : 0], depth);
    if (schema.contains("enum")) return schema["enum"][below(schema["enum"].size())];
    std::string type = "any";
    if (schema.contains("type")) {
      const Json& given = schema["type"];
      type = (given.is_array() ? given[one_in(6) ? given.size() - 1 : 0] : given).get<std::string>();
    }
    if (type == "object") return object(schema, depth);
    if (type == "array") return array(schema, depth);
    if (type == "integer") return number();
    if (type == "boolean") return one_in(2);
    if (type == "string") return text(schema.value("format", "") == "date-time");
    if (type == "null") return nullptr;
    return anything(depth);
  }

 private:
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : chance_() % bound; }
  bool one_in(std::size_t n) { return below(n) == 0; }

  Json object(const Json& schema, int depth) {
    Json made = Json::object();
    const Json needed = schema.value("required", Json::array());
    const Json members = schema.value("properties", Json::object());
    for (const auto& [name, member] : members.items()) {
      const bool wanted = std::find(needed.begin(), needed.end(), name) != needed.end();
      if (wanted ? !one_in(15) : one_in(3)) made[name] = make(member, depth + 1);
    }
    if (one_in(20)) made["unknown" + std::to_string(below(9))] = anything(depth);
    return made;
  }
  Json array(const Json& schema, int depth) {
    Json made = Json::array();
    for (std::size_t i = below(4); i > 0; --i) made.push_back(make(schema.value("items", Json::object()), depth + 1));
    return made;
  }
  Json number() {
    const Json some[] = {1, 2, 3, 0, -1, 7, 999'999, INT64_MAX, INT64_MIN, 1.5, 1e300};
    return some[below(std::size(some))];
  }
  Json text(bool time) {
    const char* some[] = {"echo",
                          "gate",
                          "a",
                          "",
                          "approved",
                          "ran",
                          "2026-11-29T14:38:12Z",
                          "30d",
                          "read start",
                          "\xC3\xA4\n\t\"<script>",
                          "http://127.0.0.1:9/x",
                          "https://example.org/h",
                          "cancel",
                          "%00../"};
    if (time && !one_in(4)) return "2027-01-01T00:00:00.000Z";
    return one_in(30) ? std::string(5'000, 'x') : std::string(some[below(std::size(some))]);
  }
  Json anything(int depth) {
    switch (below(depth > 4 ? 5 : 7)) {
      case 0: return nullptr;
      case 1: return number();
      case 2: return text(false);
      case 3: return true;
      case 4: return Json::object();
      case 5: return Json{{"a", anything(depth + 1)}, {"", anything(depth + 1)}};
      default: return Json::array({anything(depth + 1), anything(depth + 1)});
    }
  }

  const Json& components_;
  Chance chance_;
};

}  // namespace

struct ApiDocument::Impl {
  Json document;
  std::vector<Operation> operations;
  std::vector<std::vector<std::string>> patterns;
  std::map<std::string, std::unique_ptr<valijson::Schema>> schemas;  // by their text
  int checked = 0;

  // Its references lead into the whole document's components.
  const valijson::Schema& schema_of(const Json& schema) {
    auto& made = schemas[schema.dump()];
    if (made) return *made;
    Json root = {{"components", document["components"]}, {"allOf", Json::array({schema})}};
    made = std::make_unique<valijson::Schema>();
    valijson::SchemaParser parser;
    valijson::adapters::NlohmannJsonAdapter adapter(root);
    parser.populateSchema(adapter, *made);
    return *made;
  }
};

ApiDocument& ApiDocument::get() {
  static ApiDocument document;
  return document;
}

ApiDocument::ApiDocument() : impl_(std::make_unique<Impl>()) {
  for (const EmbeddedFile& file : embedded_documents()) {
    if (file.name == "openapi.json") impl_->document = Json::parse(file.bytes);
  }
  for (const auto& [path, methods] : impl_->document.at("paths").items()) {
    for (const auto& [method, operation] : methods.items()) {
      impl_->operations.push_back({upper(method), path, operation.value("x-scope", ""), operation.dump()});
      impl_->patterns.push_back(split(path));
    }
  }
}
ApiDocument::~ApiDocument() = default;

const std::vector<ApiDocument::Operation>& ApiDocument::operations() const { return impl_->operations; }
int ApiDocument::checked() const { return impl_->checked; }

const ApiDocument::Operation* ApiDocument::find(std::string_view method, std::string_view target) const {
  const auto path = split(target);
  const Operation* best = nullptr;
  int captures = 100;
  for (std::size_t i = 0; i < impl_->operations.size(); ++i) {
    if (impl_->operations[i].method != method) continue;
    const int found = fits(impl_->patterns[i], path);
    if (found < 0 || found >= captures) continue;
    best = &impl_->operations[i];
    captures = found;
  }
  return best;
}

std::string ApiDocument::check(std::string_view method, std::string_view target, const HttpAnswer& answer) {
  const Operation* operation = find(method, target);
  if (operation == nullptr || answer.status == 0) return {};
  const std::string where = operation->method + " " + operation->path + " " + std::to_string(answer.status) + ": ";
  const Json responses = Json::parse(operation->text)["responses"];
  Json response = responses.value(std::to_string(answer.status), Json());
  if (response.is_null()) {
    if (answer.status < 400) return where + "this status is not described";
    response = impl_->document["components"]["responses"]["Problem"];
  }
  if (!response.contains("content")) return answer.body.empty() ? "" : where + "has a body that is not described";
  const std::string* field = answer.field("content-type");
  const std::string type = field == nullptr ? "" : field->substr(0, field->find(';'));
  const Json content = response["content"].value(type, Json());
  if (content.is_null()) return where + "the type " + type + " is not described";
  if (type.find("json") == std::string::npos) return {};
  const Json body = Json::parse(answer.body, nullptr, false);
  if (body.is_discarded()) return where + "is no JSON: " + answer.body.substr(0, 200);
  ++impl_->checked;
  valijson::Validator validator;
  valijson::ValidationResults results;
  const valijson::adapters::NlohmannJsonAdapter adapter(body);
  if (validator.validate(impl_->schema_of(content["schema"]), adapter, &results)) return {};
  std::string wrong = where;
  valijson::ValidationResults::Error error;
  while (results.popError(error)) {
    for (const std::string& part : error.context) wrong += part;
    wrong += " " + error.description + "; ";
  }
  return wrong + answer.body.substr(0, 300);
}

std::string ApiDocument::make_body(const Operation& operation, std::uint64_t seed) const {
  const Json parsed = Json::parse(operation.text);
  if (!parsed.contains("requestBody")) return {};
  const Json& schema = parsed["requestBody"]["content"]["application/json"]["schema"];
  return Maker(impl_->document["components"], seed).make(schema).dump();
}

}  // namespace bide::test
