#include "agent/verb/step_request.h"

#include <unistd.h>

#include <algorithm>
#include <climits>

#include "agent/base/json.h"
#include "agent/verb/attempt.h"

extern char** environ;

namespace bide::verb {
namespace {

// Variables that every attempt is given, that a shell keeps for itself, or that stand in the position.
bool is_given(std::string_view variable) {
  static constexpr std::string_view kGiven[] = {
      "PATH=", "HOME=", "USER=", "SHELL=", "LANG=", "TZ=", "TMPDIR=", "PWD=", "_=", "SHLVL=", "OLDPWD=", "BIDE_"};
  return std::any_of(std::begin(kGiven), std::end(kGiven), [&](auto prefix) { return variable.starts_with(prefix); });
}

}  // namespace

std::string step_request(const std::vector<std::string>& command, const std::optional<std::string>& input) {
  json::Writer out;
  out.begin_object().key("argv").begin_array();
  for (const auto& argument : command) out.raw(as_result(argument));
  out.end_array();
  if (input) out.member_raw("stdin", as_result(*input));
  return out.end_object().take();
}

std::string caller_of_environment() {
  char cwd[PATH_MAX];
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_given(*entry)) variables.emplace_back(*entry);
  }
  std::sort(variables.begin(), variables.end());
  std::string text = ::getcwd(cwd, sizeof cwd) != nullptr ? cwd : "";
  for (const auto& variable : variables) text += "\n" + variable;
  return text;
}

}  // namespace bide::verb
