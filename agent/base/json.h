// JSON as bytes: what users bring is checked at the door, stored and handed on byte for byte [D1].
// Nothing here prints a number anew. Reading values out of documents for our own use is done in .cpp files
// with nlohmann/json; this header stays free of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace bide::json {

struct Refused {
  std::size_t offset = 0;  // byte at which the document stops being acceptable
  std::string why;         // "duplicate key \"a\"", "lone surrogate", "nesting over 200" …
};

// Accepts exactly one RFC 8259 value with white space around it. Refuses invalid UTF-8, lone surrogates
// (raw or escaped), duplicate keys (compared after unescaping), nesting over 200, and trailing bytes. A number may
// have any length and size; a byte order mark is refused.
[[nodiscard]] std::optional<Refused> check(std::string_view text);

// Canonical form for hashes: keys sorted by their UTF-8 bytes, no white space, shortest escapes, number tokens
// as written (not RFC 8785, which prints numbers anew). Precondition: check() passed; else throws CorruptData.
[[nodiscard]] std::string canonical(std::string_view text);

// A JSON string literal with its quotes: shortest escapes; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string quote(std::string_view text);
void append_quoted(std::string& out, std::string_view text);

// These read from text that passed check(); from any other they yield nullopt or the first thing found, safely.
// The raw text of one member of an object at the top level, as written; nullopt: no such member or no object.
[[nodiscard]] std::optional<std::string> member(std::string_view object, std::string_view key);
// The unescaped value of a string member; nullopt: absent or not a string.
[[nodiscard]] std::optional<std::string> string_member(std::string_view object, std::string_view key);
// A whole number member that fits in int64 without exponent or fraction.
[[nodiscard]] std::optional<std::int64_t> int_member(std::string_view object, std::string_view key);
[[nodiscard]] std::optional<bool> bool_member(std::string_view object, std::string_view key);
// The unescaped string if the document is one JSON string; else nullopt.
[[nodiscard]] std::optional<std::string> as_string(std::string_view text);
// The raw text at an RFC 6901 pointer ("" is the whole document); nullopt: nothing there.
[[nodiscard]] std::optional<std::string> at_pointer(std::string_view text, std::string_view pointer);

// Builds one object or array as text. Members are written in the order of the calls.
class Writer {
 public:
  Writer& begin_object();
  Writer& end_object();
  Writer& begin_array();
  Writer& end_array();
  Writer& key(std::string_view name);
  Writer& string(std::string_view value);
  Writer& number(std::int64_t value);
  Writer& boolean(bool value);
  Writer& null();
  Writer& raw(std::string_view json);  // a value that is JSON already

  // key and value in one call; an absent optional writes nothing.
  Writer& member(std::string_view name, std::string_view value) { return key(name).string(value); }
  Writer& member(std::string_view name, const char* value) { return key(name).string(value); }
  Writer& member(std::string_view name, const std::string& value) { return key(name).string(value); }
  Writer& member(std::string_view name, std::int64_t value) { return key(name).number(value); }
  Writer& member(std::string_view name, int value) { return key(name).number(value); }
  Writer& member(std::string_view name, bool value) { return key(name).boolean(value); }
  template <class T>
  Writer& member(std::string_view name, const std::optional<T>& value) {
    return value ? member(name, *value) : *this;
  }
  Writer& member_raw(std::string_view name, std::string_view json) { return key(name).raw(json); }

  [[nodiscard]] const std::string& text() const { return out_; }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void separate();
  std::string out_;
  bool first_ = true;
  bool after_key_ = false;
};

}  // namespace bide::json
