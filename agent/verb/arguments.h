// The words and flags of a verb. `--flag VALUE`, `--flag=VALUE`, switches, words in any order; after `--` the command.
// A failure is the sentence to show: the wrong flag, and the nearest right one.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/time.h"

namespace bide::verb {

struct Flag {
  std::string_view name;  // with its dashes
  enum class Takes { nothing, one, many } takes = Takes::one;
};

// A sentence that says what is wrong with how a verb is called: the run ends with code Usage [V1].
struct Misuse {
  std::string message;
};

class Arguments {
 public:
  std::vector<std::string> words;
  std::vector<std::string> command;  // after `--`
  bool has_command = false;

  [[nodiscard]] bool has(std::string_view flag) const { return values_.contains(flag); }
  [[nodiscard]] std::optional<std::string> value(std::string_view flag) const;
  [[nodiscard]] std::vector<std::string> all(std::string_view flag) const;
  // These throw Misuse.
  [[nodiscard]] std::optional<DurationMs> duration(std::string_view flag) const;
  [[nodiscard]] std::optional<std::int64_t> number(std::string_view flag, std::int64_t most) const;
  // "4096", "512K", "5M", "1G", and as "5MiB": bytes.
  [[nodiscard]] std::optional<std::int64_t> size(std::string_view flag, std::int64_t most) const;
  [[nodiscard]] std::optional<std::string> json(std::string_view flag) const;
  [[nodiscard]] std::optional<std::string> one_of(std::string_view flag, const std::vector<std::string>& allowed) const;

 private:
  friend Arguments parse_arguments(std::span<char*> argv, std::span<const Flag> flags);
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

// Throws Misuse.
[[nodiscard]] Arguments parse_arguments(std::span<char*> argv, std::span<const Flag> flags);

}  // namespace bide::verb
