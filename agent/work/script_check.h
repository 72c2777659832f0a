// Reads a workflow's script for what does not bear to be killed and run again, or does not do what it looks like: what
// `bide check` says before anything is run. Shell is read by shell_script.h, Python line by line. Plain functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bide::work {

struct ScriptFinding {
  std::string file;
  int line = 0;
  std::string code;     // stable: "mkdir", "changing-argument", "append", "condition" …
  std::string text;     // the line, trimmed
  std::string what;     // what happens
  std::string instead;  // what to write
};

// `file`: its path in the workflow. A file that is neither is read for nothing. In the order of lines.
[[nodiscard]] std::vector<ScriptFinding> check_script(const std::string& file, std::string_view text);

// A call of `bide` that stands in a shell script so that its words can be told by reading. What the shell puts in at
// run time is kUnknownWord: a complaint that has it in it is about something that only the run knows.
struct VerbCall {
  int line = 0;
  std::string text;               // the line, trimmed
  std::vector<std::string> argv;  // "bide", the verb …
};
inline constexpr std::string_view kUnknownWord = "‹at-run-time›";
[[nodiscard]] std::vector<VerbCall> verb_calls(const std::string& file, std::string_view text);

[[nodiscard]] std::vector<ScriptFinding> check_shell(const std::string& file, std::string_view text);
[[nodiscard]] std::vector<ScriptFinding> check_python(const std::string& file, std::string_view text);

}  // namespace bide::work
