#include <algorithm>

#include "agent/base/json.h"
#include "agent/base/text.h"

namespace bide::json {

void append_quoted(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out.push_back('"');
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80) {
      const std::size_t size = utf8_sequence(text.substr(i));
      out += size > 0 ? text.substr(i, size) : std::string_view("\xEF\xBF\xBD");
      i += std::max<std::size_t>(size, 1);
      continue;
    }
    ++i;
    switch (byte) {
      case '"': out += "\\\""; continue;
      case '\\': out += "\\\\"; continue;
      case '\b': out += "\\b"; continue;
      case '\f': out += "\\f"; continue;
      case '\n': out += "\\n"; continue;
      case '\r': out += "\\r"; continue;
      case '\t': out += "\\t"; continue;
    }
    if (byte < 0x20) {
      out += "\\u00";
      out.push_back(kHex[byte >> 4U]);
      out.push_back(kHex[byte & 15U]);
    } else {
      out.push_back(static_cast<char>(byte));
    }
  }
  out.push_back('"');
}

std::string quote(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  append_quoted(out, text);
  return out;
}

void Writer::separate() {
  if (!first_ && !after_key_) out_.push_back(',');
  first_ = false;
  after_key_ = false;
}

Writer& Writer::begin_object() {
  separate();
  out_.push_back('{');
  first_ = true;
  return *this;
}

Writer& Writer::end_object() {
  out_.push_back('}');
  first_ = false;
  return *this;
}

Writer& Writer::begin_array() {
  separate();
  out_.push_back('[');
  first_ = true;
  return *this;
}

Writer& Writer::end_array() {
  out_.push_back(']');
  first_ = false;
  return *this;
}

Writer& Writer::key(std::string_view name) {
  separate();
  append_quoted(out_, name);
  out_.push_back(':');
  after_key_ = true;
  return *this;
}

Writer& Writer::string(std::string_view value) {
  separate();
  append_quoted(out_, value);
  return *this;
}

Writer& Writer::number(std::int64_t value) {
  separate();
  out_ += std::to_string(value);
  return *this;
}

Writer& Writer::boolean(bool value) {
  separate();
  out_ += value ? "true" : "false";
  return *this;
}

Writer& Writer::null() {
  separate();
  out_ += "null";
  return *this;
}

Writer& Writer::raw(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

}  // namespace bide::json
