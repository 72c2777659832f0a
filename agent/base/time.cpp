#include "agent/base/time.h"

#include <array>
#include <cstdio>

namespace bide {
namespace {

constexpr std::int64_t kMsPerDay = 86'400'000;
constexpr DurationMs kLongest = 100LL * 365 * kMsPerDay;  // 100 years of 365 days: a longer wait is a typing error

// Days since 1970-01-01 of a date in the proleptic Gregorian calendar; years start in March, so that the leap
// day is the last of its year.
constexpr std::int64_t days_from_civil(std::int64_t year, int month, int day) {
  year -= month <= 2 ? 1 : 0;
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const std::int64_t year_of_era = year - era * 400;
  const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146'097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719'468;
}
static_assert(days_from_civil(1970, 1, 1) == 0 && days_from_civil(2000, 3, 1) == 11'017);

struct Date {
  std::int64_t year;
  int month;
  int day;
};

constexpr Date civil_from_days(std::int64_t days) {
  days += 719'468;
  const std::int64_t era = (days >= 0 ? days : days - 146'096) / 146'097;
  const std::int64_t day_of_era = days - era * 146'097;
  const std::int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const std::int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::int64_t shifted = (5 * day_of_year + 2) / 153;
  const int day = static_cast<int>(day_of_year - (153 * shifted + 2) / 5 + 1);
  const int month = static_cast<int>(shifted < 10 ? shifted + 3 : shifted - 9);
  return {year_of_era + era * 400 + (month <= 2 ? 1 : 0), month, day};
}

constexpr int days_in_month(std::int64_t year, int month) {
  if (month == 2) return (year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)) ? 29 : 28;
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes text apart from the left; once something did not fit, ok stays false.
struct Scanner {
  std::string_view left;
  bool ok = true;

  int digits(std::size_t count) {
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (i >= left.size() || !is_digit(left[i])) {
        ok = false;
        return 0;
      }
      value = value * 10 + (left[i] - '0');
    }
    left.remove_prefix(count);
    return value;
  }
  bool take(char c) {
    if (left.empty() || left.front() != c) return false;
    left.remove_prefix(1);
    return true;
  }
  void expect(char c) { ok = take(c) && ok; }
  // RFC 3339 allows small letters for T and Z.
  void expect_letter(char upper) {
    if (!take(upper)) expect(static_cast<char>(upper + ('a' - 'A')));
  }
  // Decimals after a '.', cut to milliseconds.
  int milliseconds() {
    if (!take('.')) return 0;
    std::size_t count = 0;
    int value = 0;
    for (; count < left.size() && is_digit(left[count]); ++count) {
      if (count < 3) value = value * 10 + (left[count] - '0');
    }
    ok = ok && count >= 1 && count <= 9;
    for (std::size_t i = count; i < 3; ++i) value *= 10;
    left.remove_prefix(count);
    return value;
  }
};

// A unit of length as written, largest first. "m" is minutes in both notations; ISO months and years are refused,
// because they have no fixed length.
struct Unit {
  std::string_view name;
  DurationMs length;
};
constexpr std::array<Unit, 6> kUnits{
    {{"w", 7 * kMsPerDay}, {"d", kMsPerDay}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}}};

std::optional<DurationMs> take_number(std::string_view& text) {
  DurationMs value = 0;
  std::size_t count = 0;
  for (; count < text.size() && is_digit(text[count]); ++count) {
    value = value * 10 + (text[count] - '0');
    if (value > kLongest) return std::nullopt;
  }
  if (count == 0) return std::nullopt;
  text.remove_prefix(count);
  return value;
}

// Adds count × length unless the sum is over the longest duration.
bool add(DurationMs& total, DurationMs count, DurationMs length) {
  if (count > kLongest / length) return false;
  total += count * length;
  return total <= kLongest;
}

std::optional<DurationMs> parse_units(std::string_view text) {
  DurationMs total = 0;
  std::size_t next_unit = 0;
  while (!text.empty()) {
    const auto count = take_number(text);
    if (!count) return std::nullopt;
    std::size_t letters = 0;
    while (letters < text.size() && !is_digit(text[letters])) ++letters;
    const std::string_view name = text.substr(0, letters);
    text.remove_prefix(letters);
    while (next_unit < kUnits.size() && kUnits[next_unit].name != name) ++next_unit;
    if (next_unit == kUnits.size() || !add(total, *count, kUnits[next_unit].length)) return std::nullopt;
    ++next_unit;
  }
  return total;
}

// ISO 8601: PnW, or PnDTnHnMn.nnnS with at least one part, and one after a T. Seconds may have decimals.
std::optional<DurationMs> parse_iso(std::string_view text) {
  struct Part {
    char letter;
    DurationMs length;
    bool of_day;
  };
  static constexpr std::array<Part, 5> kParts{{{'W', 7 * kMsPerDay, false},
                                               {'D', kMsPerDay, false},
                                               {'H', 3'600'000, true},
                                               {'M', 60'000, true},
                                               {'S', 1000, true}}};
  DurationMs total = 0;
  std::size_t next = 0;
  bool in_day = false;
  bool need_part = true;
  while (!text.empty()) {
    if (!in_day && text.front() == 'T') {
      in_day = need_part = true;
      text.remove_prefix(1);
      continue;
    }
    const auto count = take_number(text);
    if (!count) return std::nullopt;
    Scanner scanner{text};
    const bool decimals = !text.empty() && text.front() == '.';
    const int ms = scanner.milliseconds();
    text = scanner.left;
    if (!scanner.ok || text.empty()) return std::nullopt;
    while (next < kParts.size() && (kParts[next].letter != text.front() || kParts[next].of_day != in_day)) ++next;
    if (next == kParts.size() || (decimals && text.front() != 'S')) return std::nullopt;
    if (!add(total, *count, kParts[next].length) || !add(total, ms, 1)) return std::nullopt;
    text.remove_prefix(1);
    ++next;
    need_part = false;
  }
  if (need_part) return std::nullopt;
  return total;
}

}  // namespace

std::string format_time(TimeMs at) {
  std::int64_t days = at / kMsPerDay;
  std::int64_t rest = at % kMsPerDay;
  if (rest < 0) {
    rest += kMsPerDay;
    --days;
  }
  const Date date = civil_from_days(days);
  std::array<char, 64> text{};
  const int size = std::snprintf(text.data(), text.size(), "%04lld-%02d-%02dT%02lld:%02lld:%02lld.%03lldZ",
                                 static_cast<long long>(date.year), date.month, date.day,
                                 static_cast<long long>(rest / 3'600'000), static_cast<long long>(rest / 60'000 % 60),
                                 static_cast<long long>(rest / 1000 % 60), static_cast<long long>(rest % 1000));
  return {text.data(), static_cast<std::size_t>(size)};
}

std::optional<TimeMs> parse_time(std::string_view text) {
  Scanner scanner{text};
  const int year = scanner.digits(4);
  scanner.expect('-');
  const int month = scanner.digits(2);
  scanner.expect('-');
  const int day = scanner.digits(2);
  scanner.expect_letter('T');
  const int hour = scanner.digits(2);
  scanner.expect(':');
  const int minute = scanner.digits(2);
  scanner.expect(':');
  const int second = scanner.digits(2);
  const int ms = scanner.milliseconds();
  std::int64_t offset_minutes = 0;
  if (scanner.take('+') || scanner.take('-')) {
    const bool west = text[text.size() - scanner.left.size() - 1] == '-';
    const int hours = scanner.digits(2);
    scanner.expect(':');
    const int minutes = scanner.digits(2);
    scanner.ok = scanner.ok && hours <= 23 && minutes <= 59;
    offset_minutes = (west ? -1 : 1) * (hours * 60 + minutes);
  } else {
    scanner.expect_letter('Z');
  }
  // A leap second (:60) counts as the second after it, as in POSIX time.
  if (!scanner.ok || !scanner.left.empty() || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) ||
      hour > 23 || minute > 59 || second > 60) {
    return std::nullopt;
  }
  const std::int64_t minutes_of_day = hour * 60 + minute - offset_minutes;
  return days_from_civil(year, month, day) * kMsPerDay + minutes_of_day * 60'000 + second * 1000LL + ms;
}

std::optional<DurationMs> parse_duration(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (text.front() == 'P') return parse_iso(text.substr(1));
  return parse_units(text);
}

std::string format_duration(DurationMs length) {
  if (length <= 0) return "0s";
  std::string text;
  for (const Unit& unit : kUnits) {
    // Weeks only when nothing is left below them: "1w1d" reads worse than "8d".
    if (unit.name == "w" && length % unit.length != 0) continue;
    const DurationMs count = length / unit.length;
    if (count == 0) continue;
    text += std::to_string(count);
    text += unit.name;
    length %= unit.length;
  }
  return text;
}

}  // namespace bide
