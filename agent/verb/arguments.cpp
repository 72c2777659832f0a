#include "agent/verb/arguments.h"

#include <algorithm>
#include <utility>

#include "agent/base/json.h"
#include "agent/base/text.h"

namespace bide::verb {
namespace {

const Flag& find_flag(std::string_view name, std::span<const Flag> flags) {
  const auto found = std::find_if(flags.begin(), flags.end(), [&](const Flag& flag) { return flag.name == name; });
  if (found != flags.end()) return *found;
  std::vector<std::string> names;
  for (const auto& flag : flags) names.emplace_back(flag.name);
  const std::string near = nearest(name, names);
  throw Misuse{"unknown flag " + std::string(name) + (near.empty() ? "" : ": did you mean " + near + "?")};
}

}  // namespace

std::optional<std::string> Arguments::value(std::string_view flag) const {
  const auto found = values_.find(flag);
  if (found == values_.end() || found->second.empty()) return std::nullopt;
  return found->second.front();
}

std::vector<std::string> Arguments::all(std::string_view flag) const {
  const auto found = values_.find(flag);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

std::optional<DurationMs> Arguments::duration(std::string_view flag) const {
  const auto text = value(flag);
  if (!text) return std::nullopt;
  const auto parsed = parse_duration(*text);
  if (!parsed)
    throw Misuse{std::string(flag) + " " + *text + " is no length of time: write it as 250ms, 10s, 1h30m or 2d"};
  return parsed;
}

std::optional<std::int64_t> Arguments::number(std::string_view flag, std::int64_t most) const {
  const auto text = value(flag);
  if (!text) return std::nullopt;
  const auto parsed = parse_number(*text);
  if (!parsed || *parsed > most) {
    throw Misuse{std::string(flag) + " " + *text + " is no number from 0 to " + std::to_string(most)};
  }
  return parsed;
}

std::optional<std::int64_t> Arguments::size(std::string_view flag, std::int64_t most) const {
  const auto text = value(flag);
  if (!text) return std::nullopt;
  std::string_view digits = *text;
  if (digits.ends_with("iB")) digits.remove_suffix(2);
  int shift = 0;
  for (const auto& [letter, bits] : {std::pair{'K', 10}, std::pair{'M', 20}, std::pair{'G', 30}}) {
    if (!digits.empty() && digits.back() == letter) shift = bits;
  }
  if (shift > 0) digits.remove_suffix(1);
  const auto number = parse_number(digits);
  if (!number || *number > (most >> shift) || (digits.size() + 2 == text->size() && shift == 0))
    throw Misuse{std::string(flag) + " " + *text + " is no size up to " + std::to_string(most) +
                 " bytes: write it as 4096, 512K, 5M or 1G"};
  return *number << shift;
}

std::optional<std::string> Arguments::json(std::string_view flag) const {
  auto text = value(flag);
  if (!text) return std::nullopt;
  if (const auto refused = json::check(*text)) {
    throw Misuse{std::string(flag) + " " + *text + " is no JSON (" + refused->why + " at byte " +
                 std::to_string(refused->offset) + "): a text needs its quotes, '\"text\"'"};
  }
  return text;
}

std::optional<std::string> Arguments::one_of(std::string_view flag, const std::vector<std::string>& allowed) const {
  auto text = value(flag);
  if (!text || std::find(allowed.begin(), allowed.end(), *text) != allowed.end()) return text;
  std::string names;
  for (const auto& name : allowed) names += (names.empty() ? "" : ", ") + name;
  throw Misuse{std::string(flag) + " " + *text + ": it is one of " + names};
}

Arguments parse_arguments(std::span<char*> argv, std::span<const Flag> flags) {
  Arguments out;
  for (std::size_t i = 0; i < argv.size(); ++i) {
    const std::string_view word(argv[i]);
    if (word == "--") {
      out.has_command = true;
      out.command.assign(argv.begin() + static_cast<std::ptrdiff_t>(i) + 1, argv.end());
      break;
    }
    const bool is_short = std::any_of(flags.begin(), flags.end(), [&](const Flag& flag) { return flag.name == word; });
    if (!is_short && (word.size() < 3 || !word.starts_with("--"))) {
      out.words.emplace_back(word);
      continue;
    }
    const auto equals = word.find('=');
    const Flag& flag = find_flag(word.substr(0, equals), flags);
    auto& values = out.values_[std::string(flag.name)];
    if (flag.takes == Flag::Takes::nothing) {
      if (equals != std::string_view::npos) throw Misuse{std::string(flag.name) + " takes no value"};
      continue;
    }
    if (flag.takes == Flag::Takes::one && !values.empty()) throw Misuse{std::string(flag.name) + " is given twice"};
    if (equals == std::string_view::npos && (i + 1 == argv.size() || std::string_view(argv[i + 1]) == "--")) {
      throw Misuse{std::string(flag.name) + " needs a value"};
    }
    values.emplace_back(equals != std::string_view::npos ? word.substr(equals + 1) : std::string_view(argv[++i]));
  }
  return out;
}

}  // namespace bide::verb
