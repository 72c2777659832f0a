#include "agent/base/text.h"

#include <catch2/catch.hpp>

namespace bide {
namespace {

TEST_CASE("text: percent-encoding both ways") {
  CHECK(percent_encode("aZ09-._~ /%\xC3\xA9") == "aZ09-._~%20%2F%25%C3%A9");
  CHECK(percent_decode("a%20b%2fc+%C3%a9") == "a b/c+\xC3\xA9");
  for (const char* bad : {"%", "%2", "a%zz", "%2g", "%%"}) CHECK(!percent_decode(bad));
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  CHECK(percent_decode(percent_encode(all)) == all);
}

TEST_CASE("text: trim and lower") {
  CHECK(trim(" \t a b\r\n ") == "a b");
  CHECK(trim(" \n ").empty());
  CHECK(trim("").empty());
  CHECK(lower("AbZ-\xC3\x89") == "abz-\xC3\x89");
}

TEST_CASE("text: UTF-8 well-formedness by RFC 3629") {
  constexpr auto kGood = std::string_view::npos;
  CHECK(invalid_utf8("") == kGood);
  CHECK(invalid_utf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF\xEF\xBF\xBF\xED\x9F\xBF") == kGood);
  CHECK(invalid_utf8("ab\x80") == 2);
  CHECK(invalid_utf8("a\xC1\xBF") == 1);
  CHECK(invalid_utf8("a\xE0\x9F\xBF") == 1);
  CHECK(invalid_utf8("a\xED\xA0\x80") == 1);
  CHECK(invalid_utf8("a\xF0\x8F\xBF\xBF") == 1);
  CHECK(invalid_utf8("a\xF4\x90\x80\x80") == 1);
  CHECK(invalid_utf8("a\xF5\x80\x80\x80") == 1);
  CHECK(invalid_utf8("ok\xE2\x82") == 2);
  CHECK(invalid_utf8("ok\xC3") == 2);
}

TEST_CASE("text: the nearest name, if one is near") {
  const std::vector<std::string> names = {"workers", "max_running", "listen", "socket"};
  CHECK(nearest("worker", names) == "workers");
  CHECK(nearest("WORKRES", names) == "workers");
  CHECK(nearest("max-running", names) == "max_running");
  CHECK(nearest("lisetn", names) == "listen");
  CHECK(nearest("database", names).empty());
  CHECK(nearest("", names).empty());
  CHECK(nearest("x", {"y"}).empty());
  CHECK(nearest("a", {}).empty());
}

TEST_CASE("text: numbers are decimal, unsigned, whole") {
  CHECK(parse_number("0") == 0);
  CHECK(parse_number("42") == 42);
  CHECK(parse_number("9223372036854775807") == 9223372036854775807LL);
  for (const char* bad :
       {"", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x10", "9223372036854775808", "99999999999999999999"}) {
    CAPTURE(bad);
    CHECK(!parse_number(bad));
  }
}

}  // namespace
}  // namespace bide
