// bide state: named values that others see with the run, and that the run reads back by replay [J10].
#include "agent/base/json.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/verb/verbs.h"

namespace bide::verb {
namespace {

using Takes = Flag::Takes;

constexpr const char* kUsage = "it is bide state set NAME VALUE, or bide state get NAME";

int set(const Attempt& attempt, const Arguments& arguments) {
  if (arguments.words.size() != 3 || arguments.words[1].empty())
    throw Misuse{"bide state set takes a name and a value (in quotes), as in: bide state set phase \"copying b\""};
  if (arguments.has("--default")) throw Misuse{"bide state set: --default is of bide state get"};
  const std::string& text = arguments.words[2];
  std::string value = text;
  if (!arguments.has("--json")) {
    if (invalid_utf8(text) != std::string::npos) throw Misuse{"bide state set: the value is not UTF-8"};
    value = json::quote(text);
  } else if (const auto refused = json::check(text)) {
    throw Misuse{"bide state set --json " + text + " is no JSON: " + refused->why + " at byte " +
                 std::to_string(refused->offset)};
  }
  json::Writer out;
  out.begin_object().member("branch", branch_of(arguments)).member("name", arguments.words[1]);
  out.member("key", arguments.value("--key").value_or("")).member_raw("value", value);
  (void)attempt.post("state", out.member("verb", SystemRandom().uid()).end_object().take());
  return 0;
}

int get(const Attempt& attempt, const Arguments& arguments) {
  if (arguments.words.size() != 2 || arguments.words[1].empty())
    throw Misuse{"bide state get takes one name, as in: bide state get phase --default none"};
  if (arguments.has("--key")) throw Misuse{"bide state get: --key is of bide state set"};
  const std::string& name = arguments.words[1];
  const std::string reply =
      attempt.get("state?name=" + percent_encode(name) + "&branch=" + percent_encode(branch_of(arguments)));
  if (const auto value = json::member(reply, "value")) {
    print((arguments.has("--json") ? *value : plain(*value)) + "\n");
  } else if (const auto by_default = arguments.value("--default")) {
    print(*by_default + "\n");
  } else {
    attempt.end_run("StateMissing", "the run has not set " + name + " yet: set it first, or write --default");
  }
  return 0;
}

}  // namespace

int verb_state(const Attempt& attempt, std::span<char*> argv) {
  static constexpr Flag kFlags[] = {{"--key"}, {"--branch"}, {"--default"}, {"--json", Takes::nothing}};
  const auto arguments = parse_arguments(argv, kFlags);
  if (arguments.has_command) throw Misuse{"bide state runs no command: what stands after -- belongs to bide step"};
  const std::string what = arguments.words.empty() ? "" : arguments.words[0];
  if (what == "set") return set(attempt, arguments);
  if (what == "get") return get(attempt, arguments);
  throw Misuse{"bide state " + what + ": " + kUsage};
}

}  // namespace bide::verb
