#include "agent/work/manifest.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/kernel/environments.h"
#include "agent/kernel/principal.h"
#include "agent/kernel/schema_check.h"
#include "agent/kernel/usage.h"

namespace bide::work {
namespace {

constexpr std::int64_t kLargestMaxRunning = 1'000'000;  // more than a box runs at once
constexpr std::int64_t kMostRetries = 1'000'000;        // as bide step takes

struct Wrong {
  toml::source_region at;
  std::string what;
};

std::string text_of(const toml::key& key, const toml::node& value) {
  if (const auto text = value.value<std::string>(); text && value.is_string()) return *text;
  throw Wrong{value.source(), std::string(key.str()) + " is a text in quotes"};
}

// "none": there is no bound.
std::optional<DurationMs> duration_of(const toml::key& key, const toml::node& value) {
  const std::string text = text_of(key, value);
  if (text == "none") return std::nullopt;
  if (const auto length = parse_duration(text)) return *length;
  throw Wrong{value.source(), std::string(key.str()) + " = \"" + text +
                                  "\" is no length of time: write it as \"10s\", \"1h30m\", \"2d\" or \"none\""};
}

std::vector<std::string> texts_of(const toml::key& key, const toml::node& value) {
  std::vector<std::string> out;
  const auto* array = value.as_array();
  if (array == nullptr) throw Wrong{value.source(), std::string(key.str()) + " is a list of texts"};
  for (const auto& element : *array) out.push_back(text_of(key, element));
  return out;
}

std::map<std::string, double> numbers_of(const toml::key& key, const toml::node& value) {
  std::map<std::string, double> out;
  const auto* table = value.as_table();
  if (table == nullptr) throw Wrong{value.source(), std::string(key.str()) + " is a table of numbers"};
  for (const auto& [name, number] : *table) {
    const auto most = number.value<double>();
    if (!number.is_number() || !most || *most < 0)
      throw Wrong{number.source(), std::string(key.str()) + "." + std::string(name.str()) + " is a number from 0 on"};
    out[std::string(name.str())] = *most;
  }
  return out;
}

std::int64_t count_of(const toml::key& key, const toml::node& value, std::int64_t most) {
  const auto number = value.is_integer() ? value.value<std::int64_t>() : std::nullopt;
  if (number && *number >= 0 && *number <= most) return *number;
  throw Wrong{value.source(), std::string(key.str()) + " is a number from 0 to " + std::to_string(most)};
}

bool flag_of(const toml::key& key, const toml::node& value) {
  if (value.is_boolean()) return *value.value<bool>();
  throw Wrong{value.source(), std::string(key.str()) + " is true or false"};
}

bool is_variable(std::string_view name) {
  const auto fits = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(), fits);
}

std::map<std::string, std::string> variables_of(const toml::key& key, const toml::node& value) {
  std::map<std::string, std::string> out;
  const auto* table = value.as_table();
  if (table == nullptr) throw Wrong{value.source(), std::string(key.str()) + " is a table of texts"};
  for (const auto& [name, text] : *table) {
    const std::string variable(name.str());
    if (!is_variable(variable)) {
      throw Wrong{name.source(), variable + " is no name of a variable: letters, digits and '_', no digit first"};
    }
    if (variable.starts_with("BIDE_") || variable == "TMPDIR")
      throw Wrong{name.source(), variable + " is set by bide itself"};
    out[variable] = text_of(name, text);
    if (out[variable].find('\0') != std::string::npos) throw Wrong{text.source(), variable + " holds a NUL character"};
  }
  return out;
}

std::vector<std::string> secrets_of(const toml::key& key, const toml::node& value) {
  auto names = texts_of(key, value);
  for (const std::string& name : names) {
    if (is_variable(name) && !name.starts_with("BIDE_")) continue;
    throw Wrong{value.source(), "\"" + name + "\" is no name of a secret: it is one of a variable, such as API_TOKEN"};
  }
  return names;
}

// TOML as the JSON that it stands for. A date stands for none.
void write_json(json::Writer& out, const toml::node& node) {
  if (const auto* table = node.as_table()) {
    out.begin_object();
    for (const auto& [name, value] : *table) {
      out.key(name.str());
      write_json(out, value);
    }
    out.end_object();
  } else if (const auto* array = node.as_array()) {
    out.begin_array();
    for (const auto& value : *array) write_json(out, value);
    out.end_array();
  } else if (const auto* text = node.as_string()) {
    out.string(text->get());
  } else if (const auto* whole = node.as_integer()) {
    out.number(whole->get());
  } else if (const auto* flag = node.as_boolean()) {
    out.boolean(flag->get());
  } else if (const auto* number = node.as_floating_point(); number != nullptr && std::isfinite(number->get())) {
    out.raw(nlohmann::json(number->get()).dump());
  } else {
    throw Wrong{node.source(), "JSON has no such value: write it as a text"};
  }
}

// A table that is the schema, or a text that has it as JSON.
std::string schema_of(const toml::key& key, const toml::node& value) {
  std::string schema;
  if (value.is_table()) {
    json::Writer out;
    write_json(out, value);
    schema = out.take();
  } else {
    schema = text_of(key, value);
    if (const auto refused = json::check(schema)) {
      throw Wrong{value.source(), "input is no JSON: " + refused->why + " at byte " + std::to_string(refused->offset)};
    }
  }
  if (schema == "{}") return "";
  if (const std::string fault = kernel::schema_fault(schema); !fault.empty())
    throw Wrong{value.source(), "input is no JSON Schema: " + fault};
  return schema;
}

std::string scopes_of(const toml::key& key, const toml::node& value) {
  std::string scopes;
  for (const std::string& scope : texts_of(key, value)) {
    if (kernel::scopes_text(kernel::scopes_from(scope)) != scope || scope == "attempt" || scope.empty())
      throw Wrong{value.source(), "\"" + scope + "\" is no scope: they are read, start, approve, work and admin"};
    scopes += (scopes.empty() ? "" : " ") + scope;
  }
  return scopes;
}

void read_environment(Manifest& manifest, const toml::key& key, const toml::node& value) {
  manifest.environment = text_of(key, value);
  if (!manifest.environment.empty() && !kernel::is_environment_name(manifest.environment)) {
    throw Wrong{value.source(),
                "environment is 1 to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit"};
  }
}

void read_run_as(Manifest& manifest, const toml::key& key, const toml::node& value) {
  manifest.run_as = text_of(key, value);
  const bool fits = std::none_of(manifest.run_as.begin(), manifest.run_as.end(), [](char c) {
    return std::isspace(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '/' || c == '\0';
  });
  if (!fits) throw Wrong{value.source(), "run_as is the name of a user of this machine, such as \"nobody\""};
}

// What stands for itself and not beside another.
void check_together(const Manifest& manifest, const toml::table& table) {
  if (manifest.run_as.empty() || manifest.environment.empty()) return;
  throw Wrong{table.get("run_as")->source(),
              "run_as and environment do not go together: what runs share belongs to the agent's user"};
}

struct Key {
  const char* name;
  void (*read)(Manifest&, const toml::key&, const toml::node&);
};
constexpr Key kKeys[] = {
    {"description", [](Manifest& m, const toml::key& k, const toml::node& v) { m.description = text_of(k, v); }},
    {"input", [](Manifest& m, const toml::key& k, const toml::node& v) { m.input_schema = schema_of(k, v); }},
    {"max_running", [](Manifest& m, const toml::key& k,
                       const toml::node& v) { m.max_running = static_cast<int>(count_of(k, v, kLargestMaxRunning)); }},
    {"accepts", [](Manifest& m, const toml::key& k, const toml::node& v) { m.accepts = texts_of(k, v); }},
    {"allow_default_approved",
     [](Manifest& m, const toml::key& k, const toml::node& v) { m.allow_default_approved = flag_of(k, v); }},
    {"run_deadline",
     [](Manifest& m, const toml::key& k, const toml::node& v) { m.run_deadline_ms = duration_of(k, v); }},
    {"attempt_deadline",
     [](Manifest& m, const toml::key& k, const toml::node& v) { m.attempt_deadline_ms = duration_of(k, v); }},
    {"suspend_after_busy",
     [](Manifest& m, const toml::key& k, const toml::node& v) { m.suspend_after_busy_ms = duration_of(k, v); }},
    {"retries", [](Manifest& m, const toml::key& k, const toml::node& v) { m.retries = count_of(k, v, kMostRetries); }},
    {"backoff", [](Manifest& m, const toml::key& k, const toml::node& v) { m.backoff_ms = duration_of(k, v); }},
    {"scopes", [](Manifest& m, const toml::key& k, const toml::node& v) { m.scopes = scopes_of(k, v); }},
    {"environment", read_environment},
    {"env", [](Manifest& m, const toml::key& k, const toml::node& v) { m.env = variables_of(k, v); }},
    {"run_as", read_run_as},
    {"secrets", [](Manifest& m, const toml::key& k, const toml::node& v) { m.secrets = secrets_of(k, v); }},
    {"budget", [](Manifest& m, const toml::key& k, const toml::node& v) { m.budget = numbers_of(k, v); }},
};

void take(Manifest& manifest, const toml::key& key, const toml::node& value) {
  for (const Key& known : kKeys) {
    if (key.str() == known.name) return known.read(manifest, key, value);
  }
  const std::string near = nearest(key.str(), manifest_keys());
  throw Wrong{key.source(),
              "unknown key " + std::string(key.str()) + (near.empty() ? "" : ": did you mean " + near + "?")};
}

}  // namespace

std::vector<std::string> manifest_keys() {
  std::vector<std::string> names;
  for (const Key& key : kKeys) names.emplace_back(key.name);
  return names;
}

std::variant<Manifest, Problem> parse_manifest(std::string_view toml_text, const std::string& file) {
  const auto refuse = [&](const toml::source_region& at, std::string_view what) {
    return problem("manifest_invalid", file + ", line " + std::to_string(at.begin.line) + ", column " +
                                           std::to_string(at.begin.column) + ": " + std::string(what));
  };
  try {
    const toml::table table = toml::parse(toml_text);
    Manifest manifest;
    for (const auto& [key, value] : table) take(manifest, key, value);
    check_together(manifest, table);
    return manifest;
  } catch (const toml::parse_error& error) {
    return refuse(error.source(), error.description());
  } catch (const Wrong& wrong) {
    return refuse(wrong.at, wrong.what);
  }
}

std::string manifest_json(const Manifest& manifest, const std::string& entry) {
  json::Writer out;
  out.begin_object().member("entry", entry);
  if (!manifest.description.empty()) out.member("description", manifest.description);
  if (!manifest.input_schema.empty()) out.member_raw("input", manifest.input_schema);
  if (manifest.max_running > 0) out.member("max_running", manifest.max_running);
  if (!manifest.accepts.empty()) {
    out.key("accepts").begin_array();
    for (const auto& version : manifest.accepts) out.string(version);
    out.end_array();
  }
  if (manifest.allow_default_approved) out.member("allow_default_approved", true);
  if (!manifest.environment.empty()) out.member("environment", manifest.environment);
  out.member("run_deadline_ms", manifest.run_deadline_ms).member("attempt_deadline_ms", manifest.attempt_deadline_ms);
  if (!manifest.scopes.empty()) out.member("scopes", manifest.scopes);
  out.member("suspend_after_busy_ms", manifest.suspend_after_busy_ms);
  if (manifest.retries > 0) out.member("retries", manifest.retries);
  out.member("backoff_ms", manifest.backoff_ms);
  if (!manifest.env.empty()) {
    out.key("env").begin_object();
    for (const auto& [name, value] : manifest.env) out.member(name, value);
    out.end_object();
  }
  if (!manifest.secrets.empty()) {
    out.key("secrets").begin_array();
    for (const auto& name : manifest.secrets) out.string(name);
    out.end_array();
  }
  if (!manifest.run_as.empty()) out.member("run_as", manifest.run_as);
  if (!manifest.budget.empty()) out.member_raw("budget", kernel::to_json(manifest.budget));
  return out.end_object().take();
}

Manifest manifest_of_json(const std::string& text) {
  Manifest manifest;
  const auto parsed = nlohmann::json::parse(text, nullptr, false);
  if (!parsed.is_object()) return manifest;
  manifest.description = parsed.value("description", "");
  manifest.max_running = parsed.value("max_running", 0);
  manifest.accepts = parsed.value("accepts", std::vector<std::string>{});
  manifest.allow_default_approved = parsed.value("allow_default_approved", false);
  manifest.environment = parsed.value("environment", "");
  manifest.scopes = parsed.value("scopes", "");
  manifest.run_as = parsed.value("run_as", "");
  manifest.input_schema = json::member(text, "input").value_or("");
  manifest.suspend_after_busy_ms = json::int_member(text, "suspend_after_busy_ms");
  manifest.retries = parsed.value("retries", std::int64_t{0});
  manifest.backoff_ms = json::int_member(text, "backoff_ms");
  manifest.env = parsed.value("env", std::map<std::string, std::string>{});
  manifest.secrets = parsed.value("secrets", std::vector<std::string>{});
  manifest.budget = kernel::parse_usage(json::member(text, "budget").value_or("{}"));
  manifest.run_deadline_ms = json::int_member(text, "run_deadline_ms");
  manifest.attempt_deadline_ms = json::int_member(text, "attempt_deadline_ms");
  return manifest;
}

}  // namespace bide::work
