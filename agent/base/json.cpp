#include "agent/base/json.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>
#include <vector>

#include "agent/base/errors.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"

namespace bide::json {
namespace {

void append_utf8(std::string& out, unsigned code) {
  const auto put = [&](unsigned byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0U | (code >> 6U));
    put(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    put(0xE0U | (code >> 12U));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  } else {
    put(0xF0U | (code >> 18U));
    put(0x80U | ((code >> 12U) & 0x3FU));
    put(0x80U | ((code >> 6U) & 0x3FU));
    put(0x80U | (code & 0x3FU));
  }
}

// Reads one document from the left. Each method consumes what its name says and returns true, or notes the first
// thing that does not fit and returns false; after that the position means nothing.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] std::string_view from(std::size_t begin) const { return text_.substr(begin, at_ - begin); }
  [[nodiscard]] Refused refused() const { return refused_; }
  [[nodiscard]] bool done() const { return at_ >= text_.size(); }
  // The byte to come; 0 at the end (a NUL byte is no part of JSON either).
  [[nodiscard]] char next() const { return done() ? '\0' : text_[at_]; }

  void space() {
    while (!done() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
  }

  bool value() {
    switch (next()) {
      case '{': {
        std::set<std::string> keys;
        return object([&](std::string&& key, std::size_t key_at) {
          const auto [place, fresh] = keys.insert(std::move(key));
          if (!fresh) return fail(key_at, "duplicate key " + quote(*place));
          return value();
        });
      }
      case '[': return array([&](std::size_t) { return value(); });
      default: return scalar();
    }
  }

  bool scalar() {
    switch (next()) {
      case '"': return string(nullptr);
      case 't': return literal("true");
      case 'f': return literal("false");
      case 'n': return literal("null");
      default: return number();
    }
  }

  // on_member(key, offset of the key) consumes the value.
  template <class OnMember>
  bool object(OnMember on_member) {
    if (!enter()) return false;
    space();
    if (next() == '}') return leave();
    while (true) {
      const std::size_t key_at = at_;
      std::string key;
      if (next() != '"') return unexpected("a key in double quotes");
      if (!string(&key)) return false;
      space();
      if (next() != ':') return unexpected("':'");
      ++at_;
      space();
      if (!on_member(std::move(key), key_at)) return false;
      space();
      if (next() == '}') return leave();
      if (next() != ',') return unexpected("',' or '}'");
      ++at_;
      space();
    }
  }

  // on_element(index) consumes the value.
  template <class OnElement>
  bool array(OnElement on_element) {
    if (!enter()) return false;
    space();
    if (next() == ']') return leave();
    for (std::size_t index = 0;; ++index) {
      if (!on_element(index)) return false;
      space();
      if (next() == ']') return leave();
      if (next() != ',') return unexpected("',' or ']'");
      ++at_;
      space();
    }
  }

  // A string literal; its value is appended to `out` unless that is null.
  bool string(std::string* out) {
    ++at_;
    while (true) {
      const std::size_t begin = at_;
      while (!done() && is_plain(text_[at_])) ++at_;
      if (out != nullptr) out->append(text_.substr(begin, at_ - begin));
      if (done()) return fail(at_, "string without end");
      const auto byte = static_cast<unsigned char>(text_[at_]);
      if (byte == '"') {
        ++at_;
        return true;
      }
      if (byte == '\\') {
        if (!escape(out)) return false;
      } else if (byte < 0x20) {
        return fail(at_, "control character in a string");
      } else if (!sequence(out)) {
        return false;
      }
    }
  }

  // Nothing but white space is left.
  bool end() {
    space();
    return done() || fail(at_, "trailing bytes after the document");
  }

  bool fail(std::size_t offset, std::string why) {
    refused_ = Refused{offset, std::move(why)};
    return false;
  }

 private:
  static bool is_plain(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
  }

  bool enter() {
    if (depth_ >= limits::kJsonDepth) return fail(at_, "nesting over " + std::to_string(limits::kJsonDepth));
    ++depth_;
    ++at_;
    return true;
  }
  bool leave() {
    --depth_;
    ++at_;
    return true;
  }

  bool unexpected(const char* expected) {
    if (done()) return fail(at_, std::string("the document ends, expected ") + expected);
    return fail(at_, std::string("expected ") + expected);
  }

  bool literal(std::string_view word) {
    for (const char c : word) {
      if (next() != c) return unexpected("a value");
      ++at_;
    }
    return true;
  }

  bool digits() {
    if (next() < '0' || next() > '9') return unexpected("a digit");
    while (next() >= '0' && next() <= '9') ++at_;
    return true;
  }

  bool number() {
    const bool negative = next() == '-';
    if (negative) ++at_;
    if (next() == '0') {
      ++at_;
      if (next() >= '0' && next() <= '9') return fail(at_, "leading zero in a number");
    } else if (next() < '0' || next() > '9') {
      return unexpected(negative ? "a digit" : "a value");
    } else if (!digits()) {
      return false;
    }
    if (next() == '.') {
      ++at_;
      if (!digits()) return false;
    }
    if (next() == 'e' || next() == 'E') {
      ++at_;
      if (next() == '+' || next() == '-') ++at_;
      if (!digits()) return false;
    }
    return true;
  }

  // One sequence of two to four bytes.
  bool sequence(std::string* out) {
    const std::string_view rest = text_.substr(at_);
    const std::size_t size = utf8_sequence(rest);
    if (size == 0) {
      const auto byte = [&](std::size_t i) { return i < rest.size() ? static_cast<unsigned char>(rest[i]) : 0U; };
      return fail(at_, byte(0) == 0xED && byte(1) >= 0xA0 && byte(1) < 0xC0 ? "lone surrogate" : "invalid UTF-8");
    }
    if (out != nullptr) out->append(rest.substr(0, size));
    at_ += size;
    return true;
  }

  // Four hexadecimal digits at `offset`; nullopt if they are not there.
  [[nodiscard]] std::optional<unsigned> code_unit(std::size_t offset) const {
    const std::string_view four = text_.substr(std::min(offset, text_.size()), 4);
    unsigned code = 0;
    const auto [stop, error] = std::from_chars(four.data(), four.data() + four.size(), code, 16);
    if (four.size() < 4 || error != std::errc() || stop != four.data() + 4) return std::nullopt;
    return code;
  }

  bool escape(std::string* out) {
    static constexpr std::string_view kLetters = "\"\\/bfnrt";
    static constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    const std::size_t begin = at_++;
    if (done()) return fail(at_, "string without end");
    const char letter = text_[at_++];
    if (letter == 'u') return unicode_escape(begin, out);
    const std::size_t which = kLetters.find(letter);
    if (which == std::string_view::npos) return fail(begin, "unknown escape");
    if (out != nullptr) out->push_back(kMeant[which]);
    return true;
  }

  bool unicode_escape(std::size_t begin, std::string* out) {
    const auto first = code_unit(at_);
    if (!first) return fail(begin, "\\u without four hexadecimal digits");
    at_ += 4;
    unsigned code = *first;
    if (code >= 0xD800 && code < 0xE000) {
      const unsigned low = text_.substr(at_, 2) == "\\u" ? code_unit(at_ + 2).value_or(0) : 0;
      if (code >= 0xDC00 || low < 0xDC00 || low >= 0xE000) return fail(begin, "lone surrogate");
      code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
      at_ += 6;
    }
    if (out != nullptr) append_utf8(*out, code);
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  Refused refused_;
};

bool append_canonical(Reader& reader, std::string& out) {
  const std::size_t begin = reader.at();
  switch (reader.next()) {
    case '{': {
      std::vector<std::pair<std::string, std::string>> members;
      const bool good = reader.object([&](std::string&& key, std::size_t) {
        members.emplace_back(std::move(key), std::string());
        return append_canonical(reader, members.back().second);
      });
      if (!good) return false;
      // std::string compares as unsigned bytes, which is the order of UTF-8 bytes and of code points.
      std::sort(members.begin(), members.end());
      out.push_back('{');
      for (std::size_t i = 0; i < members.size(); ++i) {
        if (i > 0 && members[i].first == members[i - 1].first) return reader.fail(begin, "duplicate key");
        if (i > 0) out.push_back(',');
        append_quoted(out, members[i].first);
        out.push_back(':');
        out += members[i].second;
      }
      out.push_back('}');
      return true;
    }
    case '[': {
      out.push_back('[');
      const bool good = reader.array([&](std::size_t index) {
        if (index > 0) out.push_back(',');
        return append_canonical(reader, out);
      });
      out.push_back(']');
      return good;
    }
    case '"': {
      std::string value;
      if (!reader.string(&value)) return false;
      append_quoted(out, value);
      return true;
    }
    default:
      if (!reader.scalar()) return false;
      out += reader.from(begin);
      return true;
  }
}

// Moves to the value of the key, or of the index, inside of the value that begins at the reader's position.
bool step_into(Reader& reader, std::string_view token) {
  bool found = false;
  if (reader.next() == '{') {
    reader.object([&](std::string&& key, std::size_t) {
      found = key == token;
      return !found && reader.value();
    });
  } else if (reader.next() == '[') {
    const bool is_index = !token.empty() && (token == "0" || token.front() != '0');
    const auto wanted = is_index ? parse_number(token) : std::nullopt;
    if (!wanted) return false;
    reader.array([&](std::size_t index) {
      found = index == static_cast<std::size_t>(*wanted);
      return !found && reader.value();
    });
  }
  return found;
}

// The reference tokens of an RFC 6901 pointer; nullopt: not such a pointer.
std::optional<std::vector<std::string>> pointer_tokens(std::string_view pointer) {
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      tokens.emplace_back();
      continue;
    }
    if (tokens.empty()) return std::nullopt;
    if (pointer[i] != '~') {
      tokens.back().push_back(pointer[i]);
      continue;
    }
    ++i;
    if (i >= pointer.size() || (pointer[i] != '0' && pointer[i] != '1')) return std::nullopt;
    tokens.back().push_back(pointer[i] == '0' ? '~' : '/');
  }
  return tokens;
}

}  // namespace

std::optional<Refused> check(std::string_view text) {
  Reader reader(text);
  reader.space();
  if (reader.value() && reader.end()) return std::nullopt;
  return reader.refused();
}

std::string canonical(std::string_view text) {
  Reader reader(text);
  reader.space();
  std::string out;
  out.reserve(text.size());
  if (append_canonical(reader, out) && reader.end()) return out;
  throw CorruptData("canonical form asked of a document that was not checked: " + reader.refused().why + " at byte " +
                    std::to_string(reader.refused().offset));
}

std::optional<std::string> member(std::string_view object, std::string_view key) {
  Reader reader(object);
  reader.space();
  if (reader.next() != '{' || !step_into(reader, key)) return std::nullopt;
  const std::size_t begin = reader.at();
  if (!reader.value()) return std::nullopt;
  return std::string(reader.from(begin));
}

std::optional<std::string> string_member(std::string_view object, std::string_view key) {
  const auto raw = member(object, key);
  return raw ? as_string(*raw) : std::nullopt;
}

std::optional<std::int64_t> int_member(std::string_view object, std::string_view key) {
  const auto raw = member(object, key);
  if (!raw) return std::nullopt;
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(raw->data(), raw->data() + raw->size(), value);
  if (error != std::errc() || stop != raw->data() + raw->size()) return std::nullopt;
  return value;
}

std::optional<bool> bool_member(std::string_view object, std::string_view key) {
  const auto raw = member(object, key);
  if (raw == "true") return true;
  if (raw == "false") return false;
  return std::nullopt;
}

std::optional<std::string> as_string(std::string_view text) {
  Reader reader(text);
  reader.space();
  std::string value;
  if (reader.next() != '"' || !reader.string(&value) || !reader.end()) return std::nullopt;
  return value;
}

std::optional<std::string> at_pointer(std::string_view text, std::string_view pointer) {
  const auto tokens = pointer_tokens(pointer);
  if (!tokens) return std::nullopt;
  Reader reader(text);
  reader.space();
  for (const std::string& token : *tokens) {
    if (!step_into(reader, token)) return std::nullopt;
  }
  const std::size_t begin = reader.at();
  if (!reader.value()) return std::nullopt;
  return std::string(reader.from(begin));
}

}  // namespace bide::json
