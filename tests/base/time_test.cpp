// Times and durations: their text forms, both ways, and what is refused.
#include "agent/base/time.h"

#include <catch2/catch.hpp>

#include <string>
#include <utility>

#include "agent/base/random.h"

namespace bide {
namespace {

constexpr DurationMs kSecond = 1000;
constexpr DurationMs kMinute = 60 * kSecond;
constexpr DurationMs kHour = 60 * kMinute;
constexpr DurationMs kDay = 24 * kHour;

TEST_CASE("time: format is RFC 3339 in UTC with three decimals") {
  CHECK(format_time(0) == "1970-01-01T00:00:00.000Z");
  CHECK(format_time(1'000'000'000'123) == "2001-09-09T01:46:40.123Z");
  CHECK(format_time(951'782'400'000) == "2000-02-29T00:00:00.000Z");
  CHECK(format_time(-1) == "1969-12-31T23:59:59.999Z");
}

TEST_CASE("time: parse accepts any offset and up to nine decimals") {
  const std::pair<std::string, TimeMs> good[] = {
      {"1970-01-01T00:00:00Z", 0},
      {"1970-01-01t00:00:00z", 0},
      {"2001-09-09T01:46:40.123456789Z", 1'000'000'000'123},
      {"2001-09-09T01:46:40.1Z", 1'000'000'000'100},
      {"2001-09-09T03:46:40+02:00", 1'000'000'000'000},
      {"2001-09-08T20:16:40-05:30", 1'000'000'000'000},
      {"2001-09-09T01:46:40-00:00", 1'000'000'000'000},
      {"2000-02-29T00:00:00Z", 951'782'400'000},
      {"1998-12-31T23:59:60Z", 915'148'800'000},  // a leap second
  };
  for (const auto& [text, expected] : good) {
    CAPTURE(text);
    CHECK(parse_time(text) == expected);
  }
  for (const char* bad : {"",
                          "2001-09-09",
                          "2001-09-09T01:46:40",
                          "2001-09-09 01:46:40Z",
                          "2001-13-09T01:46:40Z",
                          "2001-00-09T01:46:40Z",
                          "2001-02-29T00:00:00Z",
                          "1900-02-29T00:00:00Z",
                          "2001-04-31T00:00:00Z",
                          "2001-09-00T00:00:00Z",
                          "2001-09-09T24:00:00Z",
                          "2001-09-09T01:60:40Z",
                          "2001-09-09T01:46:61Z",
                          "2001-09-09T01:46:40.Z",
                          "2001-09-09T01:46:40.1234567890Z",
                          "2001-09-09T01:46:40+2:00",
                          "2001-09-09T01:46:40+0200",
                          "2001-09-09T01:46:40+24:00",
                          "2001-09-09T01:46:40Zx",
                          " 2001-09-09T01:46:40Z",
                          "2001-9-09T01:46:40Z",
                          "+2001-09-09T01:46:40Z"}) {
    CAPTURE(bad);
    CHECK(!parse_time(bad));
  }
}

TEST_CASE("time: what format writes parse reads") {
  SeededRandom random(1);
  for (int i = 0; i < 20'000; ++i) {
    const auto at = static_cast<TimeMs>(random.next() % 253'402'300'800'000ULL);  // until the end of the year 9999
    const std::string text = format_time(at);
    CAPTURE(text);
    REQUIRE(parse_time(text) == at);
  }
}

TEST_CASE("time: durations") {
  const std::pair<std::string, DurationMs> good[] = {
      {"1h30m", kHour + 30 * kMinute},
      {"250ms", 250},
      {"2d", 2 * kDay},
      {"10s", 10 * kSecond},
      {"0s", 0},
      {"1w", 7 * kDay},
      {"1w1d1h1m1s1ms", 8 * kDay + kHour + kMinute + kSecond + 1},
      {"90m", 90 * kMinute},
      {"36500d", 36'500 * kDay},
      {"5m5ms", 5 * kMinute + 5},
      {"007s", 7 * kSecond},
      {"PT1H30M", kHour + 30 * kMinute},
      {"P2D", 2 * kDay},
      {"P1DT12H", kDay + 12 * kHour},
      {"PT0.25S", 250},
      {"PT1.5S", 1500},
      {"P2W", 14 * kDay},
      {"PT0S", 0},
      {"PT36H", 36 * kHour},
  };
  for (const auto& [text, expected] : good) {
    CAPTURE(text);
    CHECK(parse_duration(text) == expected);
  }
  for (const char* bad : {"",
                          "5",
                          "-5s",
                          "+5s",
                          "s",
                          "5 s",
                          " 5s",
                          "5s ",
                          "1m1h",
                          "1s1s",
                          "1.5h",
                          "5S",
                          "5sec",
                          "36501d",
                          "1h30",
                          "99999999999999999999s",
                          "9223372036854775807w",
                          "100y",
                          "P",
                          "PT",
                          "P1",
                          "P1Y",
                          "P1M",
                          "P1DT",
                          "P1H",
                          "PT1D",
                          "PT1M1H",
                          "PT1.5M",
                          "PT.5S",
                          "PT1.S",
                          "p1d",
                          "P-1D",
                          "-P1D",
                          "P36501D",
                          "PT1S1S",
                          "P1DTT1H",
                          "1h\xC2\xB5s"}) {
    CAPTURE(bad);
    CHECK(!parse_duration(bad));
  }
}

TEST_CASE("time: format_duration is short and reads back") {
  CHECK(format_duration(0) == "0s");
  CHECK(format_duration(-5) == "0s");
  CHECK(format_duration(250) == "250ms");
  CHECK(format_duration(kHour + 30 * kMinute) == "1h30m");
  CHECK(format_duration(7 * kDay) == "1w");
  CHECK(format_duration(8 * kDay) == "8d");
  CHECK(format_duration(kMinute + 5) == "1m5ms");
  SeededRandom random(2);
  for (int i = 0; i < 20'000; ++i) {
    const auto length = static_cast<DurationMs>(random.next() % (36'500ULL * kDay + 1));
    REQUIRE(parse_duration(format_duration(length)) == length);
  }
}

}  // namespace
}  // namespace bide
