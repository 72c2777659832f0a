// JSON as bytes: what is accepted, what is refused and at which byte, and the readers and the writer.
#include "agent/base/json.h"

#include <catch2/catch.hpp>

#include <limits>
#include <string>

#include "agent/base/errors.h"

namespace bide::json {
namespace {

struct Refusal {
  std::string text;
  std::size_t offset;
  std::string why;  // a part of the reason
};

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST_CASE("json: accepts one RFC 8259 value with white space around it") {
  for (const std::string text :
       {"null", "true", "false", "0", "-0", "12.5e-3", "1E+400", "\"\"", "\"a\\u0000b\"", "[]", "{}", " [ 1 , 2 ] ",
        "\t\r\n{\"a\" : {\"b\":[]} }\n", R"({"a":1,"A":2,"":3})", R"("\ud83d\ude00")", "\"\xF0\x9F\x98\x80\"",
        "123456789012345678901234567890.123456789", "\"\x7F\""}) {
    CAPTURE(text);
    const auto refused = check(text);
    CHECK(!refused);
  }
  CHECK(!check(nested(200)));
}

TEST_CASE("[N128] each refused form names the byte at which it stops being acceptable") {
  const Refusal refusals[] = {
      {"", 0, "expected a value"},
      {"  ", 2, "the document ends"},
      {"\xEF\xBB\xBF{}", 0, "expected a value"},
      {"nul", 3, "the document ends"},
      {"nulL", 3, "expected a value"},
      {"'a'", 0, "expected a value"},
      {"01", 1, "leading zero"},
      {"-", 1, "digit"},
      {"-a", 1, "digit"},
      {"+1", 0, "expected a value"},
      {".5", 0, "expected a value"},
      {"1.", 2, "digit"},
      {"1.e5", 2, "digit"},
      {"1e", 2, "digit"},
      {"1e+", 3, "digit"},
      {"NaN", 0, "expected a value"},
      {"1 2", 2, "trailing"},
      {"{}x", 2, "trailing"},
      {"[1,]", 3, "expected a value"},
      {"[1 2]", 3, "','"},
      {"[1", 2, "the document ends"},
      {"{\"a\":1,}", 7, "a key"},
      {"{a:1}", 1, "a key"},
      {"{\"a\" 1}", 5, "':'"},
      {"{\"a\":}", 5, "expected a value"},
      {"{\"a\":1 \"b\":2}", 7, "','"},
      {"{\"a\":1", 6, "the document ends"},
      {"[1}", 2, "','"},
      {"\"abc", 4, "without end"},
      {"\"abc\\", 5, "without end"},
      {"\"a\nb\"", 2, "control character"},
      {std::string("\"a\0b\"", 5), 2, "control character"},
      {std::string("1\0", 2), 1, "trailing"},
      {"\"a\\x\"", 2, "unknown escape"},
      {"\"a\\u12g4\"", 2, "hexadecimal"},
      {"\"a\\u12\"", 2, "hexadecimal"},
      {"\"a\\u+123\"", 2, "hexadecimal"},
      {"\"\\ud800\"", 1, "lone surrogate"},
      {"\"ab\\udc00\"", 3, "lone surrogate"},
      {"\"\\ud800\\u0041\"", 1, "lone surrogate"},
      {"\"\\ud800\\ud800\"", 1, "lone surrogate"},
      {"\"\\udc00\\udc00\"", 1, "lone surrogate"},
      {"\"\\ud800\\ue000\"", 1, "lone surrogate"},
      {"\"\xED\xA0\x80\"", 1, "lone surrogate"},
      {"\"a\xFF\"", 2, "invalid UTF-8"},
      {"\"a\xC0\xAF\"", 2, "invalid UTF-8"},
      {"\"\xE2\x82\"", 1, "invalid UTF-8"},
      {"\"\xF4\x90\x80\x80\"", 1, "invalid UTF-8"},
      {"{\"a\":1,\"a\":2}", 7, "duplicate key \"a\""},
      {"{\"a\":1,\"\\u0061\":2}", 7, "duplicate key \"a\""},
      {"[{\"b\":{\"x\":1,\"x\":[}]", 13, "duplicate key \"x\""},
      {nested(201), 200, "nesting over 200"},
  };
  for (const Refusal& expected : refusals) {
    CAPTURE(expected.text);
    const auto refused = check(expected.text);
    REQUIRE(refused);
    CHECK(refused->offset == expected.offset);
    CHECK_THAT(refused->why, Catch::Contains(expected.why));
    CHECK_THROWS_AS(canonical(expected.text), CorruptData);
  }
}

TEST_CASE("json: canonical form by example") {
  CHECK(canonical(" { \"b\" : 1.0 , \"a\" : [ 1e2 , -0 ] } ") == R"({"a":[1e2,-0],"b":1.0})");
  CHECK(canonical(R"("\u0041\/\u00e9\u001f\u000a\ud83d\ude00")") == "\"A/\xC3\xA9\\u001f\\n\xF0\x9F\x98\x80\"");
  // By UTF-8 bytes U+FFFF comes before U+10000; by UTF-16 units it would not.
  CHECK(canonical("{\"\xF0\x90\x80\x80\":1,\"\xEF\xBF\xBF\":2,\"z\":3}") ==
        "{\"z\":3,\"\xEF\xBF\xBF\":2,\"\xF0\x90\x80\x80\":1}");
  CHECK(canonical("{\"\\u0062\":1,\"a\\u0000\":2,\"a\":3}") == R"({"a":3,"a\u0000":2,"b":1})");
}

TEST_CASE("json: quote escapes what must be and replaces what is not UTF-8") {
  CHECK(quote("a\"b\\c/\b\f\n\r\t\x01\x7F") == "\"a\\\"b\\\\c/\\b\\f\\n\\r\\t\\u0001\x7F\"");
  CHECK(quote("x\xFFy\xED\xA0\x80") == "\"x\xEF\xBF\xBDy\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
  CHECK(quote("") == "\"\"");
}

TEST_CASE("json: members are read as written") {
  const std::string text = R"( {"n": 1.50 , "s":"a\n\u0062", "i":-7, "big":9223372036854775807, "t":true,
                              "o": { "x" : [1, 2] }, "f":1e3, "over":9223372036854775808, "k\u0065y":0, "f":false} )";
  CHECK(member(text, "n") == "1.50");
  CHECK(member(text, "o") == R"({ "x" : [1, 2] })");
  CHECK(member(text, "key") == "0");
  CHECK(!member(text, "x"));
  CHECK(!member("[1]", "0"));
  CHECK(!member("", "a"));
  CHECK(!member("{\"a\":", "a"));
  CHECK(string_member(text, "s") == "a\nb");
  CHECK(!string_member(text, "n"));
  CHECK(int_member(text, "i") == -7);
  CHECK(int_member(text, "big") == std::numeric_limits<std::int64_t>::max());
  CHECK(!int_member(text, "over"));
  CHECK(!int_member(text, "f"));
  CHECK(!int_member(text, "n"));
  CHECK(!int_member(text, "s"));
  CHECK(bool_member(text, "t") == true);
  CHECK(!bool_member(text, "n"));
  CHECK(as_string(" \"x\" ") == "x");
  CHECK(!as_string("\"x\" 1"));
  CHECK(!as_string("1"));
}

TEST_CASE("json: RFC 6901 pointers") {
  const std::string text = R"({"foo":["bar","baz"],"":0,"a/b":1,"m~n":8,"o":{"01":{"x":[[5]]}}})";
  CHECK(at_pointer(text, "") == text);
  CHECK(at_pointer(text, "/foo") == R"(["bar","baz"])");
  CHECK(at_pointer(text, "/foo/1") == "\"baz\"");
  CHECK(at_pointer(text, "/") == "0");
  CHECK(at_pointer(text, "/a~1b") == "1");
  CHECK(at_pointer(text, "/m~0n") == "8");
  CHECK(at_pointer(text, "/o/01/x/0/0") == "5");
  for (const char* absent : {"foo", "/foo/2", "/foo/01", "/foo/-", "/foo/+1", "/foo/1/x", "/m~2n", "/m~", "//"}) {
    CAPTURE(absent);
    CHECK(!at_pointer(text, absent));
  }
}

TEST_CASE("json: the writer puts commas where they belong") {
  Writer writer;
  writer.begin_object().member("a", 1).key("b").begin_array();
  writer.number(1).string("x\n").null().begin_object().end_object().begin_array().end_array().boolean(false);
  writer.end_array().member("none", std::optional<std::string>()).member("some", std::optional<std::int64_t>(5));
  writer.member_raw("r", "1.0").member("t", true).member("s", "v").end_object();
  CHECK(writer.text() == R"({"a":1,"b":[1,"x\n",null,{},[],false],"some":5,"r":1.0,"t":true,"s":"v"})");
  CHECK(!check(writer.text()));
  CHECK(Writer().begin_array().end_array().take() == "[]");
}

}  // namespace
}  // namespace bide::json
