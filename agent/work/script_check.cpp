#include "agent/work/script_check.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "agent/base/text.h"
#include "agent/work/shell_script.h"

namespace bide::work {
namespace {

// Verbs with an entry in the journal: what is asked for must be the same at every attempt.
constexpr std::string_view kRecorded[] = {"step",  "wait",  "sleep", "call",           "send",
                                          "value", "state", "each",  "continue-as-new"};
constexpr std::string_view kChangingCommands[] = {"date", "mktemp", "uuidgen", "hexdump", "shuf"};
constexpr std::string_view kDeclaring[] = {"local", "export", "readonly", "declare", "typeset"};
constexpr std::string_view kBuiltins[] = {"cd",     "export", "set",  "unset",  "source",  ".",     "alias",
                                          "eval",   "exec",   "read", "shift",  "trap",    "umask", "local",
                                          "return", "wait",   "exit", "ulimit", "readonly"};
constexpr std::string_view kNoFiles[] = {"/dev/null", "/dev/stderr", "/dev/stdout", "/dev/tty"};

template <class List>
bool is_among(std::string_view text, const List& list) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// "$((… name …": in arithmetic a name needs no '$'.
bool computes_with(std::string_view expanded, std::string_view name) {
  const auto from = expanded.find("$((");
  if (from == std::string_view::npos) return false;
  for (auto at = expanded.find(name, from); at != std::string_view::npos; at = expanded.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if (!is_name(expanded[at - 1]) && (end == expanded.size() || !is_name(expanded[end]))) return true;
  }
  return false;
}

// "$name" or "${name…" in what the shell expands.
bool uses_variable(std::string_view expanded, std::string_view name) {
  if (computes_with(expanded, name)) return true;
  for (auto at = expanded.find('$'); at != std::string_view::npos; at = expanded.find('$', at + 1)) {
    std::string_view rest = expanded.substr(at + 1);
    if (rest.starts_with("{")) rest.remove_prefix(1);
    if (rest.starts_with(name) && (rest.size() == name.size() || !is_name(rest[name.size()]))) return true;
  }
  return false;
}

class Checker {
 public:
  Checker(const std::string& file, std::string_view text) : file_(file), text_(text), script_(read_shell(text)) {}

  std::vector<ScriptFinding> all() {
    for (std::size_t i = 0; i < script_.commands.size(); ++i) {
      if (verb_of(command(i))) has_verbs_ = true;
    }
    if (!has_verbs_) return {};
    check_errexit();
    learn_changing_variables();
    learn_exports();
    for (std::size_t i = 0; i < script_.commands.size(); ++i) check(i);
    std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
    return std::move(found_);
  }

 private:
  struct Verb {
    std::string name;
    std::size_t at = 0;    // index of the word after `bide`
    bool through = false;  // xargs, parallel, timeout …: what it reads from is not the verb's
  };

  [[nodiscard]] const ShellCommand& command(std::size_t i) const { return script_.commands[i]; }

  // A verb that records, called by this command: `bide step …`, `timeout 60 bide step …`, `xargs … bide step …`.
  [[nodiscard]] static std::optional<Verb> verb_of(const ShellCommand& c) {
    for (std::size_t i = 0; i + 1 < c.words.size(); ++i) {
      const std::string& plain = c.words[i].plain;
      if (plain == "--" || (i == 0 && (plain == "echo" || plain == "printf"))) return std::nullopt;
      if (plain != "bide" && !plain.ends_with("/bide")) continue;
      if (!is_among(c.words[i + 1].plain, kRecorded)) return std::nullopt;
      return Verb{c.words[i + 1].plain, i + 1, i > 0};
    }
    return std::nullopt;
  }

  // A flag of the verb: before `--`.
  [[nodiscard]] static bool has_flag(const ShellCommand& c, const Verb& verb, std::string_view flag) {
    for (std::size_t i = verb.at; i < c.words.size() && c.words[i].plain != "--"; ++i) {
      const std::string& word = c.words[i].plain;
      if (word == flag || (word.starts_with(flag) && word[flag.size()] == '=')) return true;
    }
    return false;
  }

  void add(const ShellCommand& c, const char* code, std::string what, std::string instead) {
    const std::size_t index = static_cast<std::size_t>(std::max(c.line, 1)) - 1;
    const std::string line = index < script_.lines.size() ? std::string(trim(script_.lines[index])) : "";
    found_.push_back({file_, c.line, code, line, std::move(what), std::move(instead)});
  }

  // -- The whole script.

  void check_errexit() {
    const std::string_view first = text_.substr(0, text_.find('\n'));
    const auto flags = first.find(" -");
    bool set = first.starts_with("#!") && flags != std::string_view::npos &&
               first.substr(flags, first.find(' ', flags + 1) - flags).find('e') != std::string_view::npos;
    for (const ShellCommand& c : script_.commands) {
      if (c.word(0) != "set") continue;
      for (std::size_t i = 1; i < c.words.size(); ++i) {
        const std::string& word = c.words[i].plain;
        if (word == "errexit" ||
            (word.size() > 1 && word[0] == '-' && word[1] != '-' && word.find('e') != std::string::npos))
          set = true;
      }
    }
    if (set) return;
    ShellCommand top;
    top.line = 1;
    add(top, "no-errexit",
        "the script goes on when one of its own commands fails (a verb of bide ends the run, `cp` does not)",
        "begin with: set -eu");
  }

  // x=$(date), x=$$, x=$RANDOM, and what is made of x.
  void learn_changing_variables() {
    for (bool more = true; more;) {
      more = false;
      for (std::size_t i = 0; i < script_.commands.size(); ++i) {
        std::vector<std::string> assigned = command(i).assignments;
        if (is_among(command(i).word(0), kDeclaring)) {
          for (const ShellWord& word : command(i).words) assigned.push_back(word.raw);
        }
        for (const std::string& one : assigned) {
          const auto equals = one.find('=');
          if (equals == std::string::npos) continue;
          const std::string name = one.substr(0, one[equals - (equals > 0)] == '+' ? equals - 1 : equals);
          assigned_.insert(name);
          const std::string value = one.substr(equals + 1);
          const auto why = changes(i, value, expanded_part(value));
          if (why && changing_.emplace(name, *why).second) more = true;
        }
      }
    }
  }

  // export x, export x=1, declare -x x, set -a.
  void learn_exports() {
    for (const ShellCommand& c : script_.commands) {
      const bool declares = is_among(c.word(0), kDeclaring) && has_letter(c, 'x');
      if (c.word(0) == "set" && has_letter(c, 'a')) exported_.insert(assigned_.begin(), assigned_.end());
      if (c.word(0) != "export" && !declares) continue;
      for (std::size_t i = 1; i < c.words.size(); ++i)
        exported_.insert(c.words[i].plain.substr(0, c.words[i].plain.find('=')));
    }
  }

  [[nodiscard]] static std::string expanded_part(const std::string& raw) {
    const ShellScript one = read_shell("x " + raw + "\n");
    return !one.commands.empty() && one.commands[0].words.size() > 1 ? one.commands[0].words[1].expanded : "";
  }

  // Stands in a $(…) of `owner`, or in one of that, and no verb is in between: what a step prints is recorded.
  [[nodiscard]] bool descends(const ShellCommand& inner, std::size_t owner) const {
    if (verb_of(inner)) return false;
    for (int up = inner.parent; up >= 0; up = command(static_cast<std::size_t>(up)).parent) {
      if (up == static_cast<int>(owner)) return true;
      if (verb_of(command(static_cast<std::size_t>(up)))) return false;
    }
    return false;
  }

  // What in this word of `owner`, or in its $(…), is another at every attempt. `text`: what the shell expands of it.
  [[nodiscard]] std::optional<std::string> changes(std::size_t owner, const std::string& raw,
                                                   const std::string& text) const {
    if (text.find("$$") != std::string::npos) return "$$";
    if (uses_variable(text, "RANDOM")) return "$RANDOM";
    if (uses_variable(text, "SECONDS")) return "$SECONDS";
    if (uses_variable(text, "EPOCHSECONDS")) return "$EPOCHSECONDS";
    for (const auto& [name, why] : changing_) {
      if (uses_variable(text, name)) return "$" + name + " (from " + why + ")";
    }
    for (const ShellCommand& inner : script_.commands) {
      if (!is_among(inner.word(0), kChangingCommands) || raw.find(inner.word(0)) == std::string::npos) continue;
      if (descends(inner, owner)) return "$(" + inner.word(0) + ")";
    }
    return std::nullopt;
  }

  // -- A command.

  void check(std::size_t i) {
    const ShellCommand& c = command(i);
    if (const auto verb = verb_of(c)) check_verb(i, *verb);
    check_own(c);
    check_redirects(i);
    if (c.word(0) == "trap" && c.words.size() > 2) {
      for (std::size_t word = 2; word < c.words.size(); ++word) {
        if (c.word(word) != "EXIT" && c.word(word) != "0") continue;
        add(c, "trap-exit",
            "it does not run when the program is suspended or the agent dies (SIGKILL), and it runs at "
            "the end of an attempt that the next one repeats",
            "cleaning up belongs into --compensate CMD of the step that made it, or into a step at the end");
        break;
      }
    }
    if (is_among(c.word(0), kDeclaring) && c.words.size() > 1) check_declaring(i);
  }

  void check_declaring(std::size_t i) {
    for (std::size_t j = 0; j < script_.commands.size(); ++j) {
      if (command(j).parent != static_cast<int>(i) || !verb_of(command(j))) continue;
      const std::string& name = command(i).word(0);
      add(command(i), "lost-code", name + " x=$(…) gives " + name + "'s own code, 0: that of the verb is lost",
          name + " x, and on the next line: x=$(bide …)");
      return;
    }
  }

  // [ -d x ] || mkdir x
  [[nodiscard]] bool is_guarded(const ShellCommand& c) const {
    if (c.after == "||") return true;
    for (int left = c.left; left >= 0; left = command(static_cast<std::size_t>(left)).left) {
      const std::string name = command(static_cast<std::size_t>(left)).word(0);
      if (name == "[" || name == "[[" || name == "test") return true;
    }
    return c.condition;
  }

  [[nodiscard]] static bool has_letter(const ShellCommand& c, char letter) {
    return std::any_of(c.words.begin() + 1, c.words.end(), [&](const ShellWord& word) {
      return word.plain.size() > 1 && word.plain[0] == '-' && word.plain[1] != '-' &&
             word.plain.find(letter) != std::string::npos;
    });
  }
  [[nodiscard]] static bool has_word(const ShellCommand& c, std::string_view text) {
    return std::any_of(c.words.begin(), c.words.end(), [&](const ShellWord& word) { return word.plain == text; });
  }

  void check_own(const ShellCommand& c) {
    if (c.words.empty() || is_guarded(c)) return;
    if (c.word(0) == "mkdir" && !has_letter(c, 'p') && !has_word(c, "--parents"))
      add(c, "mkdir", "it is run again at each attempt, and fails at the second: the folder is there", "mkdir -p");
    if (c.word(0) == "ln" && has_letter(c, 's') && !has_letter(c, 'f') && !has_word(c, "--force"))
      add(c, "link", "it is run again at each attempt, and fails at the second: the link is there", "ln -sfn");
    if (c.word(0) == "tee" && (has_letter(c, 'a') || has_word(c, "--append")))
      add(c, "append", "it is run again at each attempt, and appends once more each time",
          "put it in a step, or write the file as a whole (tee without -a)");
  }

  void check_redirects(std::size_t i) {
    const ShellCommand& c = command(i);
    for (const ShellRedirect& redirect : c.redirects) {
      if (redirect.op == ">" || redirect.op == ">|" || redirect.op == "&>") written_.insert(redirect.target);
      if (redirect.op != ">>" && redirect.op != "&>>") continue;
      if (is_among(redirect.target, kNoFiles) || written_.contains(redirect.target)) continue;
      add(c, "append",
          std::string(verb_of(c) ? "what the verb prints is printed" : "the line is run") +
              " again at each attempt, and appended once more each time",
          "put the appending into a step, or write the file as a whole (>)");
    }
  }

  void check_verb(std::size_t i, const Verb& verb) {
    const ShellCommand& c = command(i);
    const std::string name = "bide " + verb.name;
    if (!has_flag(c, verb, "--try")) check_condition(c, name);
    check_arguments(i, verb);
    if (verb.name == "step") check_stdin(c, verb, name);
    if (verb.name == "step" || verb.name == "each") check_command(c, verb);
    check_probe(c, verb);
    if (verb.name == "wait") check_names(c, verb);
  }

  void check_condition(const ShellCommand& c, const std::string& name) {
    const char* instead =
        "--try hands its code to the script: 10 denied, 11 changes requested, 12 expired, a step's own";
    const std::string law = name + " returns 0 or does not return (a denial or a failure ends the run): ";
    if (c.condition) {
      add(c, "condition", law + "this condition is always true", instead);
    } else if (c.negated) {
      add(c, "condition", law + "`!` makes a failure of each success", instead);
    } else if (c.after == "||") {
      add(c, "condition", law + "what stands behind `||` is never run", instead);
    } else if (c.after == "&&") {
      add(c, "condition", law + "`&&` decides nothing", std::string("write them on two lines; or ") + instead);
    }
  }

  void check_arguments(std::size_t i, const Verb& verb) {
    const ShellCommand& c = command(i);
    for (std::size_t word = verb.at + 1; word < c.words.size(); ++word) {
      const auto why = changes(i, c.words[word].raw, c.words[word].expanded);
      if (!why) continue;
      add(c, "changing-argument",
          *why +
              " is another at every attempt: the replay asks for something else than was recorded, and the run ends "
              "with NonDeterminism",
          why->find("mktemp") != std::string::npos ? "a file in the workspace, or: bide value tmpdir"
          : why->find("date") != std::string::npos || why->find("SECONDS") != std::string::npos
              ? "now=$(bide value now), or $(bide step today --effect pure -- date +%F)"
              : "bide value uuid, bide value random, or what a step has given");
      return;
    }
  }

  void check_stdin(const ShellCommand& c, const Verb& verb, const std::string& name) {
    if (verb.through || has_flag(c, verb, "--stdin") || has_flag(c, verb, "--no-stdin")) return;
    const bool redirected = std::any_of(c.redirects.begin(), c.redirects.end(), [](const ShellRedirect& r) {
      return r.op[0] == '<' && r.target == "/dev/null";
    });
    if (redirected) return;
    const bool given =
        std::any_of(c.redirects.begin(), c.redirects.end(), [](const ShellRedirect& r) { return r.op[0] == '<'; });
    if (c.before == "|" || given) {
      add(c, "stdin", name + " does not hand its stdin to the command unasked: the run ends with StdinNotDeclared",
          "--stdin: it is read whole and is part of the request");
    } else if (c.reads_list) {
      add(c, "stdin", name + " in a `while read` loop would eat the loop's list: the run ends with StdinNotDeclared",
          "--no-stdin");
    }
  }

  // What stands behind `--` is a program and its arguments.
  void check_command(const ShellCommand& c, const Verb& verb) {
    std::size_t at = verb.at;
    while (at < c.words.size() && c.words[at].plain != "--") ++at;
    const std::string command = c.word(at + 1);
    if (command.find_first_of(" \t|;&<>") != std::string::npos &&
        c.words[at + 1].expanded.find('$') == std::string::npos)
      add(c, "command-line", "behind -- stands one program and its arguments, and there is none of that name",
          "-- sh -c '" + command + "'");
    else if (is_among(command, kBuiltins))
      add(c, "builtin", command + " is a builtin of the shell, no program: the step cannot start it",
          "-- sh -c '" + command + " … && …'");
  }

  // A probe is run by a shell of its own: it knows what the script exports, and no other variable.
  void check_probe(const ShellCommand& c, const Verb& verb) {
    for (std::size_t i = verb.at; i + 1 < c.words.size() && c.words[i].plain != "--"; ++i) {
      if (c.words[i].plain != "--probe") continue;
      const ShellWord& probe = c.words[i + 1];
      if (probe.expanded.find('$') != std::string::npos) return;  // put in by the script's own shell
      for (const std::string& name : assigned_) {
        if (exported_.contains(name) || !uses_variable(probe.plain, name)) continue;
        add(c, "probe-variable",
            "the probe is run by a shell of its own, which has no $" + name +
                ": the script does not export it, and the probe cannot tell",
            "export " + name + " before the step");
        return;
      }
    }
  }

  void check_names(const ShellCommand& c, const Verb& verb) {
    const std::string kind = c.word(verb.at + 1);
    if (kind == "signal" || has_flag(c, verb, "--name") || has_flag(c, verb, "--key")) return;
    const bool first = unnamed_.insert(kind).second;
    if (first && !c.in_loop) return;
    add(c, "unnamed-wait",
        std::string(first ? "the waits of this loop" : "this wait and the one before it") +
            " are told apart by their number alone: an edit of the script gives the answer of one to another",
        first ? "--key with what the round is about" : "--name for each");
  }

  const std::string& file_;
  const std::string_view text_;
  const ShellScript script_;
  bool has_verbs_ = false;
  std::map<std::string, std::string> changing_;  // variables, and what makes them so
  std::set<std::string> written_;                // files that the script has written as a whole so far
  std::set<std::string> unnamed_;                // kinds of waits
  std::set<std::string> assigned_;               // variables of the script
  std::set<std::string> exported_;
  std::vector<ScriptFinding> found_;
};

enum class Language { other, shell, python };
Language language_of(const std::string& file, std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  const bool named = first.starts_with("#!");
  if (file.ends_with(".py") || (named && first.find("python") != std::string_view::npos)) return Language::python;
  if (file.ends_with(".sh") || file.ends_with(".bash") || (named && first.find("sh") != std::string_view::npos))
    return Language::shell;
  return Language::other;
}

// nullopt: it may be several words, or none.
std::optional<std::string> told_word(const ShellWord& word) {
  const bool substitutes = word.raw.find("$(") != std::string::npos || word.raw.find('`') != std::string::npos;
  if (word.expanded.find('$') == std::string::npos && !substitutes) return word.plain;
  const bool many = word.plain.find("$@") != std::string::npos || word.plain.find("[@]") != std::string::npos;
  const auto from = word.plain.find_first_of("$`");
  if (many || (!word.quoted && (word.raw[0] == '$' || word.raw[0] == '`'))) return std::nullopt;
  return word.plain.substr(0, from) + std::string(kUnknownWord);
}

}  // namespace

std::vector<VerbCall> verb_calls(const std::string& file, std::string_view text) {
  std::vector<VerbCall> calls;
  if (language_of(file, text) != Language::shell) return calls;
  const ShellScript script = read_shell(text);
  for (const ShellCommand& command : script.commands) {
    if (command.word(0) != "bide" && !command.word(0).ends_with("/bide")) continue;
    VerbCall call{command.line, "", {"bide"}};
    bool told = command.words.size() > 1;
    for (std::size_t i = 1; told && i < command.words.size(); ++i) {
      const auto word = told_word(command.words[i]);
      told = word.has_value();
      call.argv.push_back(word.value_or(""));
    }
    // A word with a dash is no verb; bide's own modes (a guard, a holder) must not be entered by reading a script.
    if (!told || call.argv[1].starts_with('-') || call.argv[1].find(kUnknownWord) != std::string::npos) continue;
    const std::size_t index = static_cast<std::size_t>(std::max(command.line, 1)) - 1;
    if (index < script.lines.size()) call.text = std::string(trim(script.lines[index]));
    calls.push_back(std::move(call));
  }
  return calls;
}

std::vector<ScriptFinding> check_shell(const std::string& file, std::string_view text) {
  return Checker(file, text).all();
}

std::vector<ScriptFinding> check_script(const std::string& file, std::string_view text) {
  switch (language_of(file, text)) {
    case Language::python: return check_python(file, text);
    case Language::shell: return check_shell(file, text);
    case Language::other: break;
  }
  return {};
}

}  // namespace bide::work
