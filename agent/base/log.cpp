#include "agent/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "agent/base/text.h"

namespace bide::log {
namespace {

// Made at the first line, so that a process that logs nothing pays nothing.
spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("bide", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %v", spdlog::pattern_time_type::utc);
    made->set_level(spdlog::level::info);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *instance;
}

bool needs_quotes(std::string_view value) {
  if (value.empty()) return true;
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= 0x20 || byte == 0x7F || c == '"' || c == '\\' || c == '=') return true;
  }
  return invalid_utf8(value) != std::string_view::npos;
}

// A line stays one line, and what is not printable cannot act on a terminal.
void append_quoted(std::string& line, std::string_view value) {
  static constexpr char kHex[] = "0123456789abcdef";
  const bool text_is_utf8 = invalid_utf8(value) == std::string_view::npos;
  line.push_back('"');
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      line.push_back('\\');
      line.push_back(c);
    } else if (c == '\n') {
      line += "\\n";
    } else if (c == '\t') {
      line += "\\t";
    } else if (c == '\r') {
      line += "\\r";
    } else if (byte < 0x20 || byte == 0x7F || (byte >= 0x80 && !text_is_utf8)) {
      line += "\\x";
      line.push_back(kHex[byte >> 4U]);
      line.push_back(kHex[byte & 15U]);
    } else {
      line.push_back(c);
    }
  }
  line.push_back('"');
}

void write(spdlog::level::level_enum level, std::string_view level_name, std::string_view name, Fields fields) {
  spdlog::logger& to = logger();
  if (!to.should_log(level)) return;
  std::string line(level_name);
  line.push_back(' ');
  line += name;
  for (const Field& field : fields) {
    line.push_back(' ');
    line += field.key;
    line.push_back('=');
    if (needs_quotes(field.value)) {
      append_quoted(line, field.value);
    } else {
      line += field.value;
    }
  }
  to.log(level, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace

void set_level(Level least) {
  switch (least) {
    case Level::debug: logger().set_level(spdlog::level::debug); return;
    case Level::info: logger().set_level(spdlog::level::info); return;
    case Level::warn: logger().set_level(spdlog::level::warn); return;
    case Level::error: logger().set_level(spdlog::level::err); return;
    case Level::off: logger().set_level(spdlog::level::off); return;
  }
}

void debug(std::string_view name, Fields fields) { write(spdlog::level::debug, "debug", name, fields); }
void info(std::string_view name, Fields fields) { write(spdlog::level::info, "info", name, fields); }
void warn(std::string_view name, Fields fields) { write(spdlog::level::warn, "warn", name, fields); }
void error(std::string_view name, Fields fields) { write(spdlog::level::err, "error", name, fields); }

}  // namespace bide::log
