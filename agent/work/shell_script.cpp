#include "agent/work/shell_script.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

namespace bide::work {
namespace {

struct Substitution {
  std::string text;
  int line = 0;
};
struct Token {
  enum class Kind { word, op, redirect, newline } kind = Kind::word;
  std::string text;  // of an operator or a redirection
  ShellWord word;
  int line = 0;
  std::vector<Substitution> inside;  // of a word
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool ends_word(char c) {
  return is_blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' || c == ')' || c == '<' || c == '>';
}

class Tokenizer {
 public:
  Tokenizer(std::string_view text, int line) : text_(text), line_(line) {}

  std::vector<Token> all() {
    while (at_ < text_.size()) one();
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] char here(std::size_t more = 0) const { return at_ + more < text_.size() ? text_[at_ + more] : '\0'; }
  [[nodiscard]] bool starts(std::string_view what) const { return text_.substr(at_, what.size()) == what; }

  void one() {
    const char c = here();
    if (is_blank(c)) {
      ++at_;
    } else if (c == '\\' && here(1) == '\n') {
      at_ += 2;
      ++line_;
    } else if (c == '#') {
      while (at_ < text_.size() && here() != '\n') ++at_;
    } else if (c == '\n') {
      push(Token::Kind::newline, "\n");
      ++at_;
      ++line_;
      skip_documents();
    } else if (!redirect() && !op()) {
      word();
    }
  }

  void push(Token::Kind kind, std::string text) {
    Token token;
    token.kind = kind;
    token.text = std::move(text);
    token.line = line_;
    tokens_.push_back(std::move(token));
  }

  // With a descriptor before it: 2>&1.
  bool redirect() {
    static constexpr std::string_view kOps[] = {"<<<", "<<-", "&>>", "<<", ">>", "<&",
                                                ">&",  "<>",  ">|",  "&>", "<",  ">"};
    std::size_t digits = 0;
    while (std::isdigit(static_cast<unsigned char>(here(digits))) != 0) ++digits;
    for (const auto op : kOps) {
      if (text_.substr(std::min(at_ + digits, text_.size()), op.size()) != op) continue;
      if (digits > 0 && op[0] == '&') return false;
      if (here(digits + op.size()) == '(' && op.size() == 1) return false;  // <(…), >(…): a word
      at_ += digits + op.size();
      push(Token::Kind::redirect, std::string(op));
      while (is_blank(here())) ++at_;
      if (op == "<<" || op == "<<-") documents_.push_back(tokens_.size());  // the word that comes is its end
      return true;
    }
    return false;
  }

  bool op() {
    static constexpr std::string_view kOps[] = {"&&", "||", ";;", "|&", ";", "&", "|", "(", ")"};
    for (const auto op : kOps) {
      if (!starts(op)) continue;
      push(Token::Kind::op, std::string(op));
      at_ += op.size();
      return true;
    }
    return false;
  }

  void word() {
    Token token;
    token.line = line_;
    const std::size_t from = at_;
    while (at_ < text_.size() && (!ends_word(here()) || (at_ == from && (here() == '<' || here() == '>')))) {
      part(token);
    }
    if (at_ == from) ++at_;  // nothing that we know: go on behind it
    token.word.raw = std::string(text_.substr(from, at_ - from));
    tokens_.push_back(std::move(token));
  }

  void add(Token& token, char c, bool expands) {
    token.word.plain += c;
    if (expands) token.word.expanded += c;
    if (c == '\n') ++line_;
    ++at_;
  }

  void part(Token& token) {
    const char c = here();
    if (c == '\'') {
      token.word.quoted = true;
      for (++at_; at_ < text_.size() && here() != '\'';) add(token, here(), false);
      ++at_;
    } else if (c == '"') {
      token.word.quoted = true;
      for (++at_; at_ < text_.size() && here() != '"';) inner(token);
      ++at_;
    } else if ((c == '<' || c == '>') && here(1) == '(') {
      at_ += 1;
      substitution(token);
    } else {
      inner(token);
    }
  }

  // What means the same outside of quotes and in "…".
  void inner(Token& token) {
    if (here() == '\\') {
      ++at_;
      if (here() == '\n') {
        ++line_;
        ++at_;
      } else if (at_ < text_.size()) {
        add(token, here(), false);
      }
    } else if (starts("$((")) {
      arithmetic(token);
    } else if (starts("$(")) {
      at_ += 1;
      substitution(token);
    } else if (here() == '`') {
      backquoted(token);
    } else if (starts("${")) {
      braced(token);
    } else {
      add(token, here(), true);
    }
  }

  void arithmetic(Token& token) {
    add(token, here(), true);  // the '$'
    int depth = 0;
    do {
      if (here() == '(') ++depth;
      if (here() == ')') --depth;
      if (starts("$(") && here(2) != '(' && depth > 1) {
        ++at_;
        substitution(token);
        continue;
      }
      add(token, here(), true);
    } while (at_ < text_.size() && depth > 0);
  }

  void braced(Token& token) {
    add(token, here(), true);  // the '$'
    int depth = 0;
    do {
      if (here() == '{') ++depth;
      if (here() == '}') --depth;
      if (starts("$(") && here(2) != '(') {
        ++at_;
        substitution(token);
        continue;
      }
      add(token, here(), true);
    } while (at_ < text_.size() && depth > 0);
  }

  // At the '(' of $(…). Quotes in it are its own.
  void substitution(Token& token) {
    Substitution inside;
    inside.line = line_;
    const std::size_t from = ++at_;
    int depth = 1;
    while (at_ < text_.size()) {
      const char c = here();
      if (c == '\n') ++line_;
      if (c == '\\') {
        ++at_;
      } else if (c == '\'') {
        while (++at_ < text_.size() && here() != '\'') line_ += here() == '\n' ? 1 : 0;
      } else if (c == '"') {
        while (++at_ < text_.size() && here() != '"') {
          if (here() == '\\') ++at_;
          line_ += here() == '\n' ? 1 : 0;
        }
      } else if (c == '(') {
        ++depth;
      } else if (c == ')' && --depth == 0) {
        break;
      }
      ++at_;
    }
    at_ = std::min(at_, text_.size());
    inside.text = std::string(text_.substr(from, at_ - from));
    if (at_ < text_.size()) ++at_;
    token.inside.push_back(std::move(inside));
  }

  void backquoted(Token& token) {
    Substitution inside;
    inside.line = line_;
    for (++at_; at_ < text_.size() && here() != '`'; ++at_) {
      if (here() == '\\') ++at_;
      if (here() == '\n') ++line_;
      inside.text += here();
    }
    ++at_;
    token.inside.push_back(std::move(inside));
  }

  // Here documents begin behind the line on which they were asked for.
  void skip_documents() {
    for (const std::size_t index : std::exchange(documents_, {})) {
      if (index >= tokens_.size()) continue;
      const std::string end = tokens_[index].word.plain;
      const bool tabs = index > 0 && tokens_[index - 1].text == "<<-";
      while (at_ < text_.size()) {
        const std::size_t stop = std::min(text_.find('\n', at_), text_.size());
        std::string_view line = text_.substr(at_, stop - at_);
        at_ = std::min(stop + 1, text_.size());
        ++line_;
        while (tabs && !line.empty() && line[0] == '\t') line.remove_prefix(1);
        if (line == end) break;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_;
  std::vector<Token> tokens_;
  std::vector<std::size_t> documents_;
};

// -- From tokens to commands.

bool is_assignment(const ShellWord& word) {
  const auto equals = word.raw.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  if (std::isdigit(static_cast<unsigned char>(word.raw[0])) != 0) return false;
  const std::size_t end = word.raw[equals - 1] == '+' ? equals - 1 : equals;
  return end > 0 && std::all_of(word.raw.begin(), word.raw.begin() + static_cast<std::ptrdiff_t>(end),
                                [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
}

class Parser {
 public:
  Parser(ShellScript& script, int parent) : script_(script), parent_(parent) {}

  void parse(std::string_view text, int line, bool in_loop, bool reads_list, bool in_function) {
    outer_ = {in_loop, reads_list, in_function};
    Tokenizer tokenizer(text, line);
    for (const Token& token : tokenizer.all()) take(token);
    finish("");
    for (auto& [owner, inside] : later_) {
      const ShellCommand around = script_.commands[static_cast<std::size_t>(owner)];
      Parser(script_, owner).parse(inside.text, inside.line, around.in_loop, around.reads_list, around.in_function);
    }
  }

 private:
  struct Outer {
    bool in_loop = false;
    bool reads_list = false;
    bool in_function = false;
  };
  struct Construct {
    enum class What { condition, branch, body, function, block } what = What::block;
    bool reads = false;  // a loop whose condition is `read`
  };
  using What = Construct::What;

  void take(const Token& token) {
    switch (token.kind) {
      case Token::Kind::newline:
        if (begun_) finish("");  // else what joins goes on: `a &&` and the next line
        return;
      case Token::Kind::redirect: pending_ = token.text; return;
      case Token::Kind::op: return take_op(token.text);
      case Token::Kind::word: break;
    }
    if (!pending_.empty()) {
      begin(token.line);
      now_.redirects.push_back({std::exchange(pending_, ""), token.word.plain});
      keep_inside(token);
      return;
    }
    if (now_.words.empty() && now_.assignments.empty() && !token.word.quoted && keyword(token.word.raw)) return;
    begin(token.line);
    if (now_.words.empty() && is_assignment(token.word)) {
      now_.assignments.push_back(token.word.raw);
    } else {
      now_.words.push_back(token.word);
    }
    keep_inside(token);
  }

  void take_op(const std::string& op) {
    if (op == "(") {
      // name () {: a function. Else a subshell.
      if (now_.words.size() == 1 && !now_.words[0].quoted) {
        now_ = {};
        begun_ = false;
        inside_.clear();
        function_comes_ = true;
        return;
      }
      finish("");
      stack_.push_back({function_comes_ && closed_ ? What::function : What::block, false});
      function_comes_ = closed_ = false;
      return;
    }
    if (op == ")") {
      if (function_comes_ && !closed_) {
        closed_ = true;
        return;
      }
      finish("");
      if (!stack_.empty() && (stack_.back().what == What::block || stack_.back().what == What::function))
        stack_.pop_back();
      return;
    }
    finish(op == ";" || op == ";;" ? "" : op == "|&" ? "|" : op);
  }

  bool keyword(const std::string& word) {
    if (word == "!") {
      negated_ = !negated_;
    } else if (word == "if" || word == "elif") {
      if (word == "elif") drop(What::branch);
      stack_.push_back({What::condition, false});
    } else if (word == "then" || word == "else") {
      if (word == "then") drop(What::condition);
      if (word == "else") drop(What::branch);
      stack_.push_back({What::branch, false});
    } else if (word == "fi") {
      drop(What::branch);
    } else if (word == "while" || word == "until") {
      stack_.push_back({What::condition, false});
    } else if (word == "for" || word == "case" || word == "select") {
      return false;  // their words are no verbs
    } else if (word == "do") {
      const bool loops = !stack_.empty() && stack_.back().what == What::condition;
      const bool reads = loops && stack_.back().reads;
      if (loops) stack_.pop_back();
      stack_.push_back({What::body, reads});
    } else if (word == "done") {
      drop(What::body);
    } else if (word == "{") {
      stack_.push_back({function_comes_ && closed_ ? What::function : What::block, false});
      function_comes_ = closed_ = false;
    } else if (word == "}") {
      if (!stack_.empty() && (stack_.back().what == What::block || stack_.back().what == What::function))
        stack_.pop_back();
    } else if (word == "function") {
      return false;
    } else {
      return false;
    }
    return true;
  }

  void drop(What what) {
    if (!stack_.empty() && stack_.back().what == what) stack_.pop_back();
  }

  void begin(int line) {
    if (begun_) return;
    begun_ = true;
    now_.line = line;
  }

  void keep_inside(const Token& token) {
    for (const auto& inside : token.inside) inside_.push_back(inside);
  }

  [[nodiscard]] bool within(What what) const {
    return std::any_of(stack_.begin(), stack_.end(), [&](const Construct& one) { return one.what == what; });
  }

  // A command has ended with `op`.
  void finish(const std::string& op) {
    if (!begun_) {
      negated_ = false;
      if (!op.empty()) return;
      left_ = -1;
      joined_.clear();
      return;
    }
    now_.before = joined_;
    now_.after = op;
    now_.left = left_;
    now_.negated = std::exchange(negated_, false);
    now_.condition = !stack_.empty() && stack_.back().what == What::condition;
    now_.in_loop = outer_.in_loop || within(What::body);
    now_.in_function = outer_.in_function || within(What::function);
    now_.reads_list = outer_.reads_list || std::any_of(stack_.begin(), stack_.end(), [](const Construct& one) {
                        return one.what == What::body && one.reads;
                      });
    now_.parent = parent_;
    if (now_.condition && now_.word(0) == "read") stack_.back().reads = true;
    const int index = static_cast<int>(script_.commands.size());
    script_.commands.push_back(std::move(now_));
    for (auto& inside : inside_) later_.emplace_back(index, std::move(inside));
    inside_.clear();
    now_ = {};
    begun_ = false;
    pending_.clear();
    joined_ = op == "&" ? "" : op;
    left_ = joined_.empty() ? -1 : index;
  }

  ShellScript& script_;
  const int parent_;
  Outer outer_;
  std::vector<Construct> stack_;
  ShellCommand now_;
  bool begun_ = false;
  bool negated_ = false;
  bool function_comes_ = false;
  bool closed_ = false;
  std::string pending_;  // a redirection whose target comes
  std::string joined_;
  int left_ = -1;
  std::vector<Substitution> inside_;
  std::vector<std::pair<int, Substitution>> later_;
};

}  // namespace

ShellScript read_shell(std::string_view text) {
  ShellScript script;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t to = std::min(text.find('\n', from), text.size());
    script.lines.emplace_back(text.substr(from, to - from));
    from = to + 1;
  }
  Parser(script, -1).parse(text, 1, false, false, false);
  return script;
}

}  // namespace bide::work
