#include "tests/fuzz/gate_oracle.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/targets.h"
#include "web/gate.h"

namespace bide::test {
namespace {

using namespace bide::web;

GateRules rules() {
  GateRules ours;
  ours.hosts = {"localhost:7433"};
  return ours;
}

bool clean(const std::string& text, bool tab_allowed) {
  return std::none_of(text.begin(), text.end(), [tab_allowed](unsigned char c) {
    return (c < 0x20 && !(tab_allowed && c == '\t')) || c == 0x7f;
  });
}

bool same(const Head& a, const Head& b) {
  return a.method == b.method && a.path == b.path && a.query == b.query && a.content_length == b.content_length &&
         a.fields.size() == b.fields.size() && a.keep_alive == b.keep_alive;
}

// The head written anew in its plainest form must be read as the same head.
std::string broken_by_rewriting(const Head& head) {
  std::string bytes = head.method + " " + head.path;
  if (!head.query.empty()) bytes += "?" + head.query;
  bytes += head.keep_alive ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n";
  for (const Field& field : head.fields) {
    if (field.name != "connection") bytes += field.name + ": " + field.value + "\r\n";
  }
  bytes += "\r\n";
  std::size_t used = 0;
  const Reading again = read_head(bytes, used);
  if (bytes.size() > limits::kHeadBytes) return {};
  const auto* head_again = std::get_if<Head>(&again);
  if (head_again == nullptr) return "an accepted head is refused when it is written plainly";
  if (head_again->content_length != head.content_length || head_again->path != head.path)
    return "it is read as another";
  return {};
}

std::string broken_head(const Head& head, std::size_t used, std::string_view bytes) {
  if (used > bytes.size() || used > limits::kHeadBytes + 2) return "more was used than there is";
  if (bytes.substr(used - 4, 4) != "\r\n\r\n") return "a head ends without an empty line";
  if (bytes.substr(0, used - 4).find("\r\n\r\n") != std::string_view::npos) return "a head has an empty line inside";
  if (head.fields.size() > limits::kHeadFields) return "too many fields";
  if (!clean(head.method, false) || !clean(head.path, false) || !clean(head.query, false))
    return "control in the target";
  if (head.path.empty() || (head.path.front() != '/' && head.path != "*")) return "a path without a slash";
  int hosts = 0;
  for (const Field& field : head.fields) {
    hosts += field.name == "host" ? 1 : 0;
    if (!clean(field.name, false) || !clean(field.value, true)) return "control in a field";
    if (field.name == "transfer-encoding") return "a transfer coding";
    if (field.name.rfind("remote_", 0) == 0) return "a REMOTE_ field";
  }
  if (hosts != 1) return "not one Host";
  const auto refused = judge(head, rules());
  if (!refused) {
    if (head.authority != "localhost:7433") return "a foreign host";
    if (is_safe_method(head.method) && head.content_length > 0) return "a GET with a body";
    if (head.content_length > limits::kDocumentBytes) return "a body beyond the limit";
    if (head.field("content-encoding") != nullptr) return "a packed body";
  }
  return broken_by_rewriting(head);
}

}  // namespace

std::string gate_breaks(std::string_view bytes) {
  std::size_t used = 0;
  const Reading reading = read_head(bytes, used);
  if (std::holds_alternative<NeedMore>(reading)) {
    return bytes.size() > limits::kHeadBytes + 2 ? "it wants more than its limit" : "";
  }
  if (const auto* refused = std::get_if<Refused>(&reading)) {
    if (refused->status < 400 || refused->code.empty()) return "a refusal without its code";
    return {};
  }
  const Head& head = std::get<Head>(reading);
  if (std::string broken = broken_head(head, used, bytes); !broken.empty()) return broken;
  // The same bytes in two parts: the first part is never more than "not yet", what follows is never looked at.
  std::size_t other = 0;
  for (const std::size_t cut : {std::size_t{1}, used / 3, used / 2, used - 3, used - 1}) {
    if (!std::holds_alternative<NeedMore>(read_head(bytes.substr(0, cut), other)))
      return "a part of a head has a verdict";
  }
  const Reading exact = read_head(bytes.substr(0, used), other);
  if (!std::holds_alternative<Head>(exact) || !same(std::get<Head>(exact), head))
    return "what follows changes the head";
  return {};
}

}  // namespace bide::test

void bide::fuzz::gate(std::string_view input) {
  const std::string broken = test::gate_breaks(input);
  if (broken.empty()) return;
  std::fprintf(stderr, "fuzz: %s\n", broken.c_str());
  std::abort();
}
