#include "agent/work/manifest.h"

#include <toml++/toml.h>
#include <nlohmann/json.hpp>

#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/kernel/environments.h"
#include "agent/kernel/usage.h"

namespace bide::work {
namespace {

constexpr std::int64_t kLargestMaxRunning = 1'000'000;  // more than a box runs at once

const std::vector<std::string> kKeys = {"description",  "max_running",      "accepts", "allow_default_approved",
                                        "run_deadline", "attempt_deadline", "budget",  "environment"};

struct Wrong {
  toml::source_region at;
  std::string what;
};

std::string text_of(const toml::key& key, const toml::node& value) {
  if (const auto text = value.value<std::string>(); text && value.is_string()) return *text;
  throw Wrong{value.source(), std::string(key.str()) + " is a text in quotes"};
}

DurationMs duration_of(const toml::key& key, const toml::node& value) {
  const std::string text = text_of(key, value);
  if (const auto length = parse_duration(text)) return *length;
  throw Wrong{value.source(), std::string(key.str()) + " = \"" + text +
                                  "\" is no length of time: write it as \"10s\", \"1h30m\" or \"2d\""};
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

int count_of(const toml::key& key, const toml::node& value) {
  const auto number = value.is_integer() ? value.value<std::int64_t>() : std::nullopt;
  if (number && *number >= 0 && *number <= kLargestMaxRunning) return static_cast<int>(*number);
  throw Wrong{value.source(), std::string(key.str()) + " is a number from 0 to " + std::to_string(kLargestMaxRunning)};
}

bool flag_of(const toml::key& key, const toml::node& value) {
  if (value.is_boolean()) return *value.value<bool>();
  throw Wrong{value.source(), std::string(key.str()) + " is true or false"};
}

void take(Manifest& manifest, const toml::key& key, const toml::node& value) {
  const std::string_view name = key.str();
  if (name == "description") {
    manifest.description = text_of(key, value);
  } else if (name == "max_running") {
    manifest.max_running = count_of(key, value);
  } else if (name == "accepts") {
    manifest.accepts = texts_of(key, value);
  } else if (name == "allow_default_approved") {
    manifest.allow_default_approved = flag_of(key, value);
  } else if (name == "run_deadline") {
    manifest.run_deadline_ms = duration_of(key, value);
  } else if (name == "attempt_deadline") {
    manifest.attempt_deadline_ms = duration_of(key, value);
  } else if (name == "environment") {
    manifest.environment = text_of(key, value);
    if (!kernel::is_environment_name(manifest.environment)) {
      throw Wrong{value.source(),
                  "environment is 1 to 64 letters, digits, '.', '_' and '-', and begins with a letter or digit"};
    }
  } else if (name == "budget") {
    manifest.budget = numbers_of(key, value);
  } else {
    const std::string near = nearest(name, kKeys);
    throw Wrong{key.source(),
                "unknown key " + std::string(name) + (near.empty() ? "" : ": did you mean " + near + "?")};
  }
}

}  // namespace

std::variant<Manifest, Problem> parse_manifest(std::string_view toml_text, const std::string& file) {
  const auto refuse = [&](const toml::source_region& at, std::string_view what) {
    return problem("manifest_invalid", file + ", line " + std::to_string(at.begin.line) + ": " + std::string(what));
  };
  try {
    const toml::table table = toml::parse(toml_text);
    Manifest manifest;
    for (const auto& [key, value] : table) take(manifest, key, value);
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
  if (manifest.max_running > 0) out.member("max_running", manifest.max_running);
  if (!manifest.accepts.empty()) {
    out.key("accepts").begin_array();
    for (const auto& version : manifest.accepts) out.string(version);
    out.end_array();
  }
  if (manifest.allow_default_approved) out.member("allow_default_approved", true);
  if (!manifest.environment.empty()) out.member("environment", manifest.environment);
  out.member("run_deadline_ms", manifest.run_deadline_ms).member("attempt_deadline_ms", manifest.attempt_deadline_ms);
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
  manifest.budget = kernel::parse_usage(json::member(text, "budget").value_or("{}"));
  manifest.run_deadline_ms = json::int_member(text, "run_deadline_ms");
  manifest.attempt_deadline_ms = json::int_member(text, "attempt_deadline_ms");
  return manifest;
}

}  // namespace bide::work
