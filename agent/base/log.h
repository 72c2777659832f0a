// Log lines are an interface: a stable dotted name and fields, to stderr. No payloads, no secrets.
// error = someone must act, warn = odd, info = a run changed state. Log or return, never both. Thread-safe.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace bide::log {

struct Field {
  std::string_view key;
  std::string value;
  template <std::integral T>
  Field(std::string_view k, T v) : key(k), value(std::to_string(v)) {}
  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(v) {}
  Field(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
};
using Fields = std::initializer_list<Field>;

enum class Level { debug, info, warn, error, off };
void set_level(Level least);

void debug(std::string_view name, Fields fields = {});
void info(std::string_view name, Fields fields = {});
void warn(std::string_view name, Fields fields = {});
void error(std::string_view name, Fields fields = {});

}  // namespace bide::log
