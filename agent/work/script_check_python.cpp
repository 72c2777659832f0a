// The same for Python, line by line: no more is known of a line than what stands in it.
#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>

#include "agent/base/text.h"
#include "agent/work/script_check.h"

namespace bide::work {
namespace {

constexpr std::string_view kChanging[] = {"datetime.now(", "datetime.utcnow(", "date.today(", "time.time(",
                                          "random.",       "uuid.uuid1(",      "uuid.uuid4(", "os.getpid(",
                                          "tempfile.",     "secrets.token"};

bool has(std::string_view line, std::string_view what) { return line.find(what) != std::string_view::npos; }

// Of a line without its comment and without what stands in strings, but for the expressions of an f-string.
std::string code_of(std::string_view line) {
  std::string code;
  char quote = '\0';
  bool formatted = false;
  int depth = 0;  // of braces in an f-string
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == '\0') {
      if (c == '#') break;
      if (c == '"' || c == '\'') {
        quote = c;
        formatted = i > 0 && (line[i - 1] == 'f' || line[i - 1] == 'F');
        depth = 0;
      }
      code += c;
    } else if (c == '\\') {
      ++i;
    } else if (c == quote) {
      quote = '\0';
      code += c;
    } else if (formatted) {
      if (c == '}') --depth;
      if (depth > 0) code += c;
      if (c == '{') ++depth;
    }
  }
  return code;
}

// open(NAME, "a"): as written, the mode is in a string.
bool opens_to_append(std::string_view line) {
  for (auto at = line.find("open("); at != std::string_view::npos; at = line.find("open(", at + 1)) {
    for (const std::string_view mode : {"\"a\"", "'a'", "\"ab\"", "'ab'", "\"a+\"", "'a+'"}) {
      if (has(line.substr(at), mode)) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<ScriptFinding> check_python(const std::string& file, std::string_view text) {
  std::vector<ScriptFinding> found;
  if (!has(text, "bide")) return found;
  int number = 0;
  std::string document;  // the quotes of a string over several lines
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t to = std::min(text.find('\n', from), text.size());
    const std::string_view line = trim(text.substr(from, to - from));
    from = to + 1;
    ++number;
    const auto add = [&](const char* code, std::string what, std::string instead) {
      found.push_back({file, number, code, std::string(line), std::move(what), std::move(instead)});
    };
    if (!document.empty() || line.starts_with("\"\"\"") || line.starts_with("'''")) {
      const std::string quotes = document.empty() ? std::string(line.substr(0, 3)) : document;
      const bool ends = has(document.empty() ? line.substr(3) : line, quotes);
      document = ends ? "" : quotes;
      continue;
    }
    const std::string code = code_of(line);
    if (has(code, "os.mkdir(") || (has(code, "os.makedirs(") && !has(code, "exist_ok")) ||
        (has(code, ".mkdir(") && !has(code, "os.mkdir(") && !has(code, "exist_ok")))
      add("mkdir", "it is run again at each attempt, and fails at the second: the folder is there",
          "os.makedirs(NAME, exist_ok=True)");
    if (opens_to_append(line))
      add("append", "it is run again at each attempt, and appends once more each time",
          "put the appending into a step, or write the file as a whole (\"w\")");
    if (has(code, "atexit.register("))
      add("trap-exit",
          "it does not run when the program is suspended or the agent dies (SIGKILL), and it runs at the end of an "
          "attempt that the next one repeats",
          "cleaning up belongs into --compensate CMD of the step that made it, or into a step at the end");
    const bool asks = has(line, "\"bide\"") || has(line, "'bide'") || has(code, "bide(");
    if (!asks || has(line, "\"result\"") || has(line, "'result'")) continue;
    for (const std::string_view what : kChanging) {
      if (!has(code, what)) continue;
      add("changing-argument",
          std::string(what.substr(0, what.find('('))) +
              " is another at every attempt: the replay asks for something else than was recorded, and the run ends "
              "with NonDeterminism",
          "bide value now, uuid, random or tmpdir, or what a step has given");
      break;
    }
  }
  return found;
}

}  // namespace bide::work
