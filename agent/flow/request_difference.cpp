#include "agent/flow/request_difference.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

namespace bide::flow {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kWhole = 160;  // bytes of a text that is shown as it is
constexpr std::size_t kAround = 20;  // of what is the same on both sides, so that the place is recognized

constexpr std::string_view kTemporary = "use a file in the workspace, or `bide value tmpdir`";
constexpr std::string_view kTime =
    "take the time from `bide value now`, or from a step, which are the same at every attempt";
constexpr std::string_view kOther = "take it from a step or from `bide value`, which are the same at every attempt";

bool inside_character(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

struct Same {
  std::size_t front = 0;
  std::size_t back = 0;
};

Same same_ends(std::string_view a, std::string_view b) {
  const std::size_t least = std::min(a.size(), b.size());
  Same same;
  while (same.front < least && a[same.front] == b[same.front]) ++same.front;
  while (same.front > 0 && (inside_character(a, same.front) || inside_character(b, same.front))) --same.front;
  while (same.back < least - same.front && a[a.size() - 1 - same.back] == b[b.size() - 1 - same.back]) ++same.back;
  while (same.back > 0 && inside_character(a, a.size() - same.back)) --same.back;
  return same;
}

// The part of `text` that is its own, with a little of what stands around it.
std::string own_part(std::string_view text, const Same& same) {
  std::size_t from = same.front > kAround ? same.front - kAround : 0;
  while (from > 0 && inside_character(text, from)) --from;
  std::size_t to = text.size() - same.back;
  to = std::min(text.size(), to + kAround);
  bool cut = to < text.size();
  if (to - from > kWhole) {
    to = from + kWhole;
    cut = true;
  }
  while (to < text.size() && inside_character(text, to)) ++to;
  return (from > 0 ? "…" : "") + std::string(text.substr(from, to - from)) + (cut ? "…" : "");
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// "2026-11-29 14:38" and "2026-11-29 14:39", "Sun Nov 29" and "Mon Nov 30": a clock was read.
bool looks_like_time(std::string_view text) {
  static constexpr std::string_view kWords[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct",
                                                "Nov", "Dec", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
  const auto has = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
  if (std::any_of(std::begin(kWords), std::end(kWords), has)) return true;
  // HH:MM, YYYY-MM, a number of seconds since 1970, or 20261129.
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_digit(text[i])) continue;
    std::size_t end = i;
    while (end < text.size() && is_digit(text[end])) ++end;
    const std::string_view number = text.substr(i, end - i);
    const bool pair = end + 2 < text.size() && is_digit(text[end + 1]) && is_digit(text[end + 2]);
    if (number.size() == 2 && pair && text[end] == ':') return true;
    if (number.size() == 4 && number.substr(0, 2) == "20" && pair && text[end] == '-') return true;
    if (number.size() == 8 && number.substr(0, 2) == "20") return true;
    if ((number.size() == 10 || number.size() == 13 || number.size() == 19) && number[0] == '1') return true;
    i = end;
  }
  return false;
}

bool looks_temporary(std::string_view text) {
  return text.find("/tmp/") != std::string_view::npos || text.find("tmp.") != std::string_view::npos ||
         text.find("/var/tmp/") != std::string_view::npos;
}

std::string_view advice(std::string_view recorded, std::string_view attempted) {
  if (looks_temporary(recorded) && looks_temporary(attempted)) return kTemporary;
  if (looks_like_time(recorded) && looks_like_time(attempted)) return kTime;
  return kOther;
}

// Bytes that are no text stand as {"base64":…}.
std::string shown(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump();
}

std::string differs(const std::string& what, const Json& recorded, const Json& attempted) {
  return what + " " + was_and_is(shown(recorded), shown(attempted));
}

std::string argument(std::string_view name, std::size_t number) {
  if (number == 0) return "the command of " + std::string(name);
  return "argument " + std::to_string(number) + " of " + std::string(name);
}

std::string count(std::size_t arguments) {
  return std::to_string(arguments) + (arguments == 1 ? " argument" : " arguments");
}

std::string arguments_differ(std::string_view name, const Json& recorded, const Json& attempted) {
  const std::size_t least = std::min(recorded.size(), attempted.size());
  std::size_t first = 0;
  while (first < least && recorded[first] == attempted[first]) ++first;
  if (recorded.size() == attempted.size())
    return first < least ? differs(argument(name, first), recorded[first], attempted[first]) : "";
  // The command itself is no argument.
  const std::string numbers =
      std::string(name) + " had " + count(recorded.size() - 1) + " and has " + std::to_string(attempted.size() - 1);
  if (first < least) return numbers + ": " + differs(argument(name, first), recorded[first], attempted[first]);
  const bool more = attempted.size() > recorded.size();
  return numbers + ": \"" + shown(more ? attempted[first] : recorded[first]) + "\" is " + (more ? "new" : "gone");
}

// "the text of approval", "the length of timer": what a member of a request is called.
std::string place(std::string_view name, const std::string& member) {
  const std::string of = " of " + std::string(name);
  if (member == "sleep_ms") return "the length" + of;
  if (member == "until") return "the time" + of;
  return "the " + member + of;
}

}  // namespace

std::string was_and_is(std::string_view recorded, std::string_view attempted) {
  const std::string_view hint = advice(recorded, attempted);
  if (recorded.size() <= kWhole && attempted.size() <= kWhole) {
    return "was " + std::string(recorded) + " and is " + std::string(attempted) + ": " + std::string(hint);
  }
  const Same same = same_ends(recorded, attempted);
  return "was " + own_part(recorded, same) + " and is " + own_part(attempted, same) + ": " + std::string(hint);
}

std::string request_difference(std::string_view name, std::string_view recorded, std::string_view attempted) {
  const Json before = Json::parse(recorded, nullptr, false);
  const Json now = Json::parse(attempted, nullptr, false);
  if (before.is_discarded() || now.is_discarded() || before == now) return "";
  if (!before.is_object() || !now.is_object()) return differs("the request of " + std::string(name), before, now);
  const auto argv = [](const Json& request) {
    const auto found = request.find("argv");
    return found != request.end() && found->is_array() && !found->empty() ? &*found : nullptr;
  };
  if (const Json* was = argv(before), *is = argv(now); was != nullptr && is != nullptr && *was != *is)
    return arguments_differ(name, *was, *is);
  for (const auto& [member, value] : before.items()) {
    const auto found = now.find(member);
    if (found == now.end()) return place(name, member) + " was " + shown(value) + " and is not given any more";
    if (*found != value) return differs(place(name, member), value, *found);
  }
  for (const auto& [member, value] : now.items()) {
    if (!before.contains(member)) return place(name, member) + " was not given and is " + shown(value);
  }
  return "";
}

}  // namespace bide::flow
