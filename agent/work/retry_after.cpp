#include "agent/work/retry_after.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "agent/base/limits.h"
#include "agent/base/text.h"

namespace bide::work {
namespace {

constexpr std::string_view kMonths[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                        "jul", "aug", "sep", "oct", "nov", "dec"};

// Split at spaces, commas and dashes: the three forms differ in these.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const bool between = c == ' ' || c == ',' || c == '-';
    if (!between) {
      words.back().push_back(c);
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::optional<int> month_of(const std::string& word) {
  const auto found = std::find(std::begin(kMonths), std::end(kMonths), lower(word));
  if (found == std::end(kMonths)) return std::nullopt;
  return static_cast<int>(found - std::begin(kMonths)) + 1;
}

std::optional<TimeMs> time_of(const std::string& day, int month, std::int64_t year, const std::string& clock) {
  const auto number = parse_number(day);
  if (!number || *number < 1 || *number > 31 || clock.size() != 8) return std::nullopt;
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%sZ", static_cast<int>(year), month, static_cast<int>(*number),
                clock.c_str());
  return parse_time(text);
}

}  // namespace

std::optional<TimeMs> parse_http_date(std::string_view text) {
  const auto words = words_of(text);
  // Sun, 06 Nov 1994 08:49:37 GMT · Sunday, 06-Nov-94 08:49:37 GMT · Sun Nov  6 08:49:37 1994
  if (words.size() == 6 && words[5] == "GMT") {
    const auto month = month_of(words[2]);
    const auto year = parse_number(words[3]);
    if (!month || !year || *year > 9999) return std::nullopt;
    const std::int64_t century = words[3].size() == 2 ? (*year < 70 ? 2000 : 1900) : 0;
    return time_of(words[1], *month, *year + century, words[4]);
  }
  if (words.size() != 5) return std::nullopt;
  const auto month = month_of(words[1]);
  const auto year = parse_number(words[4]);
  if (!month || !year || *year > 9999) return std::nullopt;
  return time_of(words[2], *month, *year, words[3]);
}

DurationMs retry_after(std::string_view field, TimeMs now) {
  const std::string_view text = trim(field);
  DurationMs wait = 0;
  if (const auto seconds = parse_number(text)) {
    wait = std::min<std::int64_t>(*seconds, limits::kRetryAfterMaxMs) * 1000;
  } else if (const auto at = parse_http_date(text)) {
    wait = *at - now;
  }
  return std::clamp<DurationMs>(wait, 0, limits::kRetryAfterMaxMs);
}

}  // namespace bide::work
