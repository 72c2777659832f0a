#include "tests/fuzz/targets.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "agent/base/errors.h"
#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/base/time.h"

namespace bide::fuzz {
namespace {

void must(bool holds, const char* what, std::string_view input) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s, for input %s\n", what, json::quote(input).c_str());
  std::abort();
}

// Whether the other parser takes the text. It takes a byte order mark and ends at a NUL, which we refuse, and
// refuses numbers that are too large for a double, which we keep as written.
enum class Verdict { accepts, refuses, no_opinion };

class Listener : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    too_large = error.id == 406;
    return false;
  }
  bool too_large = false;
};

Verdict other_parser(std::string_view input) {
  if (input.substr(0, 1) == "\xEF" || input.find('\0') != std::string_view::npos) return Verdict::no_opinion;
  Listener listener;
  if (nlohmann::json::sax_parse(input.begin(), input.end(), &listener)) return Verdict::accepts;
  return listener.too_large ? Verdict::no_opinion : Verdict::refuses;
}

}  // namespace

void json(std::string_view input) {
  const auto refused = json::check(input);
  const Verdict other = other_parser(input);
  if (refused) {
    must(refused->offset <= input.size() && !refused->why.empty(), "a refusal names a place and a reason", input);
    const bool stricter = refused->why.rfind("duplicate key", 0) == 0 || refused->why.rfind("nesting over", 0) == 0;
    must(stricter || other != Verdict::accepts, "refused, but another parser accepts", input);
    bool thrown = false;
    try {
      (void)json::canonical(input);
    } catch (const CorruptData&) {
      thrown = true;
    }
    must(thrown, "canonical() takes what check() refuses", input);
  } else {
    must(other != Verdict::refuses, "accepted, but another parser refuses", input);
    const std::string form = json::canonical(input);
    must(!json::check(form), "the canonical form is refused", input);
    must(json::canonical(form) == form, "the canonical form is not stable", input);
    if (other == Verdict::accepts) {
      must(nlohmann::json::parse(form) == nlohmann::json::parse(input), "the canonical form means something else",
           input);
    }
    must(json::at_pointer(input, "").has_value(), "a document has a value", input);
  }
  (void)json::member(input, "a");
  (void)json::int_member(input, "b");
  (void)json::at_pointer(input, "/a/0/b");
  (void)json::at_pointer("{\"a\":[{\"b\":1}]}", input);
}

void times(std::string_view input) {
  if (const auto at = parse_time(input)) must(parse_time(format_time(*at)) == at, "a time reads back", input);
  if (const auto length = parse_duration(input)) {
    must(*length >= 0 && parse_duration(format_duration(*length)) == length, "a duration reads back", input);
  }
  if (const auto number = parse_number(input)) {
    must(*number >= 0 && parse_number(std::to_string(*number)) == number, "a number reads back", input);
  }
}

void text(std::string_view input) {
  must(percent_decode(percent_encode(input)) == input, "percent-encoding loses something", input);
  (void)percent_decode(input);
  const std::string quoted = json::quote(input);
  must(!json::check(quoted), "quote() makes no JSON", input);
  const auto back = json::as_string(quoted);
  const bool utf8 = invalid_utf8(input) == std::string_view::npos;
  must(back.has_value() && (back == input) == utf8, "quote() loses something", input);
  must(trim(input).size() <= input.size(), "trim() makes text longer", input);
  (void)nearest(input.substr(0, 64), {"workers", "listen", "max_running"});
}

}  // namespace bide::fuzz
