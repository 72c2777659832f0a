// bide value, input, result and progress: what a program gets from its run and tells it, without running anything.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>

#include "agent/base/fd.h"
#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/random.h"
#include "agent/base/text.h"
#include "agent/verb/verbs.h"

namespace bide::verb {
namespace {

using Takes = Flag::Takes;

// ".a.b" and "a" as RFC 6901 pointers; "" and "/a/b" are pointers already.
std::string pointer_of(std::string path) {
  if (path.empty() || path[0] == '/') return path;
  if (path == ".") return "";
  const bool dotted = path[0] == '.';
  std::string pointer = dotted ? "" : "/";
  for (const char c : path) {
    if (c == '.' && dotted) {
      pointer += '/';
    } else if (c == '~') {
      pointer += "~0";
    } else if (c == '/') {
      pointer += "~1";
    } else {
      pointer += c;
    }
  }
  return pointer;
}

bool is_field_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  });
}

std::string checked(std::string text, const std::string& what) {
  if (const auto refused = json::check(text)) {
    throw Misuse{what + " is no JSON: " + refused->why + " at byte " + std::to_string(refused->offset)};
  }
  return text;
}

// name="$n" count:=3 list:=@f.json
std::string object_of(const std::vector<std::string>& fields) {
  json::Writer out;
  out.begin_object();
  std::set<std::string> names;
  for (const auto& field : fields) {
    const auto equals = field.find('=');
    const bool is_json = equals != std::string::npos && equals > 0 && field[equals - 1] == ':';
    const std::string name = field.substr(0, equals == std::string::npos ? 0 : equals - (is_json ? 1 : 0));
    if (!is_field_name(name)) {
      throw Misuse{"bide result: \"" + field +
                   "\" is no field: write name=\"$text\", name:=JSON, name:=@file, "
                   "or one JSON text alone"};
    }
    if (!names.insert(name).second) throw Misuse{"bide result: " + name + " is given twice"};
    const std::string value = field.substr(equals + 1);
    if (!is_json) {
      if (invalid_utf8(value) != std::string::npos) throw Misuse{"bide result: " + name + " is not UTF-8"};
      out.member(name, value);
    } else {
      out.member_raw(
          name, checked(value.starts_with('@') ? read_document_file(value.substr(1)) : value, "bide result: " + field));
    }
  }
  return out.end_object().take();
}

// It may have gone meanwhile, with all above it: the path is what stays.
bool make_folders(const std::string& path) {
  for (auto at = path.find('/', 1);; at = path.find('/', at + 1)) {
    if (::mkdir(path.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST) return false;
    if (at == std::string::npos) return true;
  }
}

}  // namespace

std::string branch_of(const Arguments& arguments) {
  if (auto branch = arguments.value("--branch")) return *branch;
  const char* inherited = std::getenv("BIDE_BRANCH");
  return inherited == nullptr ? "" : inherited;
}

std::string read_document(int fd, const std::string& what) {
  if (Attempt::only_checks()) std::exit(0);
  Attempt::has_read();
  std::string text;
  char buffer[64 * 1024];
  ssize_t n = 0;
  while ((n = ::read(fd, buffer, sizeof buffer)) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Misuse{what + " cannot be read: " + std::strerror(errno)};
    text.append(buffer, static_cast<std::size_t>(n));
    if (text.size() > limits::kDocumentBytes) throw Misuse{what + " is over 1 MiB: keep it in a file of the workspace"};
  }
  return text;
}

std::string read_document_file(const std::string& path) {
  if (Attempt::only_checks()) std::exit(0);
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) throw Misuse{path + " cannot be opened: " + std::strerror(errno)};
  return read_document(fd.get(), path);
}

std::optional<std::string> document_of(const Arguments& arguments, std::string_view flag) {
  const auto given = arguments.value(flag);
  if (!given) return std::nullopt;
  if (*given == "-") return checked(read_document(STDIN_FILENO, "stdin"), std::string(flag) + " -");
  if (given->starts_with('@')) return checked(read_document_file(given->substr(1)), std::string(flag) + " " + *given);
  return arguments.json(flag);
}

int verb_value(const Attempt& attempt, std::span<char*> argv) {
  static constexpr Flag kFlags[] = {{"--key"}, {"--branch"}};
  const auto arguments = parse_arguments(argv, kFlags);
  const std::string name = arguments.words.size() == 1 ? arguments.words[0] : "";
  if (name != "now" && name != "uuid" && name != "random" && name != "tmpdir") {
    throw Misuse{"bide value " + name +
                 ": it is bide value now, bide value uuid, bide value random or bide value tmpdir"};
  }
  json::Writer out;
  out.begin_object().member("branch", branch_of(arguments)).member("name", name);
  out.member("key", arguments.value("--key").value_or("")).member("verb", SystemRandom().uid());
  const char* folder = std::getenv("TMPDIR");
  if (name == "tmpdir") out.member("base", folder != nullptr && folder[0] == '/' ? folder : "/tmp");
  const std::string value =
      plain(json::member(attempt.post("values", out.end_object().take()), "result").value_or("null"));
  if (name == "tmpdir" && !make_folders(value))
    throw Misuse{"bide value tmpdir: " + value + " cannot be made: " + std::strerror(errno)};
  print(value + "\n");
  return 0;
}

int verb_input(const Attempt& attempt, std::span<char*> argv) {
  static constexpr Flag kFlags[] = {{"--default"}, {"--json", Takes::nothing}};
  const auto arguments = parse_arguments(argv, kFlags);
  if (arguments.words.size() > 1) throw Misuse{"bide input takes one place: a name, /a/pointer or .a.path"};
  const std::string place = arguments.words.empty() ? "" : arguments.words[0];
  const char* path = std::getenv("BIDE_INPUT");
  const std::string input = path != nullptr ? read_document_file(path) : attempt.get("input");
  const auto found = json::at_pointer(input, pointer_of(place));
  if (found) {
    print((arguments.has("--json") ? *found : plain(*found)) + "\n");
  } else if (const auto by_default = arguments.value("--default")) {
    print(*by_default + "\n");
  } else {
    attempt.end_run("InputMissing", "the input has no " + place + ": start the run with it, or write --default");
  }
  return 0;
}

int verb_result(const Attempt& attempt, std::span<char*> argv) {
  static constexpr Flag kFlags[] = {{"--text"}};
  const auto arguments = parse_arguments(argv, kFlags);
  const auto& words = arguments.words;
  std::string result;
  if (const auto text = arguments.value("--text")) {
    if (!words.empty()) throw Misuse{"bide result: --text or fields, not both"};
    if (invalid_utf8(*text) != std::string::npos) throw Misuse{"bide result: the text is not UTF-8"};
    result = json::quote(*text);
  } else if (words.empty()) {
    throw Misuse{"bide result: write name=\"$text\" count:=3, one JSON text, --text TEXT, or - for stdin"};
  } else if (words.size() == 1 && words[0] == "-") {
    result = checked(read_document(STDIN_FILENO, "stdin"), "stdin");
  } else if (words.size() == 1 && !json::check(words[0])) {
    result = words[0];
  } else {
    result = object_of(words);
  }
  (void)attempt.post("result", json::Writer().begin_object().member_raw("result", result).end_object().take());
  return 0;
}

int verb_progress(const Attempt& attempt, std::span<char*> argv) {
  const auto arguments = parse_arguments(argv, {});
  auto words = arguments.words;
  json::Writer out;
  out.begin_object();
  if (!words.empty()) {
    std::string first = words[0];
    if (first.ends_with('%')) first.pop_back();
    if (const auto percent = parse_number(first)) {
      if (*percent > 100) throw Misuse{"bide progress " + words[0] + ": percent is from 0 to 100"};
      out.member("percent", *percent);
      words.erase(words.begin());
    }
  }
  if (words.size() > 1 || arguments.words.empty())
    throw Misuse{"bide progress takes a percentage, a text in quotes, or both"};
  out.member("text", words.empty() ? "" : words[0]);
  (void)attempt.post("progress", out.end_object().take());
  return 0;
}

}  // namespace bide::verb
