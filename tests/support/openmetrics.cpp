#include "tests/support/openmetrics.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <stdexcept>

namespace bide::test {
namespace {

[[noreturn]] void fail(const std::string& why, std::string_view line) {
  throw std::runtime_error("no OpenMetrics: " + why + ": " + std::string(line));
}

bool is_name(std::string_view text) {
  const auto begins = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':'; };
  return !text.empty() && begins(text.front()) && std::all_of(text.begin(), text.end(), [&](char c) {
    return begins(c) || std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

// "TYPE", "bide_x", "the rest" of "# TYPE bide_x the rest".
struct Said {
  std::string what;
  std::string name;
  std::string rest;
};
Said read_said(std::string_view line) {
  const std::size_t what = line.find(' ', 2);
  const std::size_t name = what == std::string_view::npos ? what : line.find(' ', what + 1);
  if (!line.starts_with("# ") || name == std::string_view::npos) fail("no TYPE, UNIT or HELP", line);
  return {std::string(line.substr(2, what - 2)), std::string(line.substr(what + 1, name - what - 1)),
          std::string(line.substr(name + 1))};
}

// The end of {a="b",c="d"} at the start of the text; the text has them escaped as they must be.
std::size_t labels_end(std::string_view text, std::string_view line) {
  std::size_t at = 1;
  while (true) {
    const std::size_t equals = text.find("=\"", at);
    if (equals == std::string_view::npos || !is_name(text.substr(at, equals - at))) fail("a label's name", line);
    at = equals + 2;
    while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
    if (at + 1 >= text.size()) fail("a label without an end", line);
    ++at;
    if (text[at] == '}') return at + 1;
    if (text[at] != ',') fail("labels", line);
    ++at;
  }
}

const char* suffix_of(const std::string& type, std::string_view line) {
  if (type == "counter") return "_total";
  if (type == "info") return "_info";
  if (type == "gauge") return "";
  fail("a type that we do not use", line);
}

void read_sample(MetricFamily& family, const std::string& name, std::string_view line) {
  const std::string whole = name + suffix_of(family.type, line);
  if (!line.starts_with(whole)) fail("a sample of another family", line);
  std::string_view rest = line.substr(whole.size());
  const std::size_t labels = rest.starts_with('{') ? labels_end(rest, line) : 0;
  const std::string key = whole.substr(name.size()) + std::string(rest.substr(0, labels));
  rest = rest.substr(labels);
  if (!rest.starts_with(' ')) fail("no value", line);
  rest = rest.substr(1);
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc() || end != rest.data() + rest.size()) fail("no number", line);
  if (family.type != "gauge" && value < 0) fail("a count below zero", line);
  if (!family.samples.emplace(key, value).second) fail("a series twice", line);
}

}  // namespace

Exposition parse_openmetrics(std::string_view text) {
  Exposition found;
  std::string name;
  bool ended = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) fail("the last line has no end", text);
    const std::string_view line = text.substr(0, end);
    text = text.substr(end + 1);
    if (ended) fail("something after EOF", line);
    if (line == "# EOF") {
      ended = true;
      continue;
    }
    if (line.empty()) fail("an empty line", line);
    if (!line.starts_with('#')) {
      if (name.empty()) fail("a sample before its family", line);
      read_sample(found[name], name, line);
      continue;
    }
    const Said said = read_said(line);
    if (said.what == "TYPE") {
      if (!is_name(said.name) || found.contains(said.name)) fail("a family twice, or no name", line);
      name = said.name;
      found[name].type = said.rest;
      (void)suffix_of(said.rest, line);
      continue;
    }
    if (said.name != name || !found[name].samples.empty()) fail("it does not belong to the family above", line);
    if (said.what == "HELP") {
      found[name].help = said.rest;
    } else if (said.what == "UNIT" && name.ends_with("_" + said.rest)) {
      found[name].unit = said.rest;
    } else {
      fail("a unit that the name does not end with, or another word", line);
    }
  }
  if (!ended) fail("no EOF", "");
  return found;
}

}  // namespace bide::test
