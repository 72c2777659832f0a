// A shell script as simple commands with what stands around them, read by a careful tokenizer: quotes, comments, here
// documents, continuation lines, command substitutions. No shell: nothing is expanded, and what is odd is skipped, not
// refused. Plain functions, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bide::work {

struct ShellWord {
  std::string raw;       // as written
  std::string plain;     // without quotes
  std::string expanded;  // what the shell expands: without what stands in '…' and without command substitutions
  bool quoted = false;
};

struct ShellRedirect {
  std::string op;      // ">", ">>", "<", "<<", ">&" … without the descriptor
  std::string target;  // without quotes
};

struct ShellCommand {
  int line = 0;                          // of its first word, from 1
  std::vector<std::string> assignments;  // "x=…" before the command, as written
  std::vector<ShellWord> words;          // empty: assignments or redirections alone
  std::vector<ShellRedirect> redirects;
  std::string before;       // what joins it to the command before it: "", "&&", "||", "|"
  std::string after;        // … to the one behind it: "", "&&", "||", "|", "&"
  int left = -1;            // the command before it in that list, by index
  bool negated = false;     // !
  bool condition = false;   // between if, elif, while, until and then, do
  bool in_loop = false;     // in the body of a loop
  bool reads_list = false;  // in the body of a loop whose condition is `read`
  bool in_function = false;
  int parent = -1;  // the command in whose word this one stands as $(…), by index
  [[nodiscard]] std::string word(std::size_t i) const { return i < words.size() ? words[i].plain : ""; }
};

struct ShellScript {
  std::vector<ShellCommand> commands;  // in the order of the text; those in a substitution after the one around them
  std::vector<std::string> lines;
};

[[nodiscard]] ShellScript read_shell(std::string_view text);

}  // namespace bide::work
