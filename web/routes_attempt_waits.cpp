// Waits of an attempt: approvals, questions, signals, timers, and the first of several.
#include <algorithm>
#include <set>

#include "agent/kernel/first_of.h"
#include "web/attempt_route.h"

namespace bide::web::attempt_route {
namespace {

bool askable(kernel::WaitKind kind) {
  return kind == kernel::WaitKind::approval || kind == kernel::WaitKind::question || kind == kernel::WaitKind::signal ||
         kind == kernel::WaitKind::timer;
}

std::variant<flow::WaitAsk, Problem> read_wait(Request& request) {
  if (auto bad = check_body(request, {{"branch", Kind::string},
                                      {"seq", Kind::integer},
                                      {"branches", Kind::integer},
                                      {"kind", Kind::string, true},
                                      {"name", Kind::string, true},
                                      {"key", Kind::string},
                                      {"request", Kind::object},
                                      {"timeout_ms", Kind::integer},
                                      {"default"},
                                      {"try", Kind::boolean},
                                      {"caller", Kind::string},
                                      {"verb", Kind::string}})) {
    return *bad;
  }
  const auto place = read_place(request);
  if (const auto* bad = std::get_if<Problem>(&place)) return *bad;
  const std::string& body = request.body;
  flow::WaitAsk ask;
  set_place(ask, std::get<Place>(place));
  const auto kind = kernel::wait_kind_from(json::string_member(body, "kind").value_or(""));
  if (!kind || !askable(*kind)) return invalid("/kind", "must be approval, question, signal or timer");
  ask.kind = *kind;
  const auto asked = json::member(body, "request");
  if (asked && *asked != "null") ask.request = *asked;
  ask.timeout = json::int_member(body, "timeout_ms");
  if (ask.timeout && *ask.timeout < 0) return invalid("/timeout_ms", "must not be negative");
  ask.fallback = json::member(body, "default");
  return ask;
}

// V1: without `try` these end the run, with the deciding person's words. nullopt: the answer is handed out.
std::optional<std::string> ends_run(const std::string& name, const flow::Settled& settled, bool has_default) {
  std::string_view code;
  if (settled.outcome == "denied") code = "Denied";
  if (settled.outcome == "changes_requested") code = "ChangesRequested";
  if (settled.outcome == "expired" && !has_default) code = "Expired";
  if (code.empty()) return std::nullopt;
  const std::string comment = json::string_member(settled.result, "comment").value_or("");
  const std::string what = settled.outcome == "changes_requested" ? "changes were requested" : settled.outcome;
  json::Writer error;
  error.begin_object().member("code", code);
  error.member("message", name + ": " + (comment.empty() ? what : what + ": " + comment)).member("step", name);
  return error.member_raw("decision", settled.result).end_object().take();
}

// A program gets the bare answer, or the signal's payload; who gave it, and when, is in the journal.
std::string bare(kernel::WaitKind kind, std::string result) {
  std::optional<std::string> value;
  if (kind == kernel::WaitKind::question) value = json::member(result, "answer");
  if (kind == kernel::WaitKind::signal) value = json::member(result, "payload");
  return value ? std::move(*value) : std::move(result);
}

Response wait(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  const auto read = read_wait(request);
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& ask = std::get<flow::WaitAsk>(read);
  const bool tried = json::bool_member(request.body, "try").value_or(false);
  flow::Attempt& attempt = *std::get<Attempt>(found);
  return asked(attempt, request, [&](const flow::Caller& caller) -> flow::Outcome {
    flow::Outcome outcome = attempt.wait(ask, caller);
    auto* settled = std::get_if<flow::Settled>(&outcome);
    if (settled == nullptr || attempt.style() == flow::Style::remote) return outcome;
    const auto error = tried ? std::nullopt : ends_run(ask.name, *settled, ask.fallback.has_value());
    if (error) return attempt.end(*error);
    settled->result = bare(ask.kind, std::move(settled->result));
    return outcome;
  });
}

// -- The first of several [A10].

std::variant<flow::WaitAsk, Problem> read_alternative(const std::string& one, const std::string& pointer) {
  flow::WaitAsk ask;
  const auto kind = kernel::wait_kind_from(json::string_member(one, "kind").value_or(""));
  if (!kind || !askable(*kind)) return invalid(pointer + "/kind", "must be approval, question, signal or timer");
  ask.kind = *kind;
  ask.name = json::string_member(one, "name").value_or("");
  if (ask.name.empty() || ask.name.size() > limits::kNameBytes) return invalid(pointer + "/name", "has 1 to 128 bytes");
  ask.request = json::member(one, "request").value_or("{}");
  if (!ask.request.starts_with('{')) return invalid(pointer + "/request", "must be an object");
  return ask;
}

std::variant<flow::FirstOfAsk, Problem> read_group(Request& request) {
  if (auto bad = check_body(request, {{"branch", Kind::string},
                                      {"seq", Kind::integer},
                                      {"branches", Kind::integer},
                                      {"name", Kind::string, true},
                                      {"key", Kind::string},
                                      {"alternatives", Kind::any, true},
                                      {"try", Kind::boolean},
                                      {"caller", Kind::string},
                                      {"verb", Kind::string}})) {
    return *bad;
  }
  const auto place = read_place(request);
  if (const auto* bad = std::get_if<Problem>(&place)) return *bad;
  flow::FirstOfAsk group;
  set_place(group, std::get<Place>(place));
  std::set<std::string> names;
  int timers = 0;
  for (std::size_t i = 0;; ++i) {
    const std::string pointer = "/alternatives/" + std::to_string(i);
    const auto one = json::at_pointer(request.body, pointer);
    if (!one) break;
    if (i >= limits::kAlternatives) return invalid("/alternatives", "may have 16 members");
    auto read = read_alternative(*one, pointer);
    if (const auto* bad = std::get_if<Problem>(&read)) return *bad;
    auto& ask = std::get<flow::WaitAsk>(read);
    if (!names.insert(ask.name).second) return invalid(pointer + "/name", "is that of another one");
    if (ask.kind == kernel::WaitKind::timer && ++timers > 1)
      return invalid(pointer, "is a second timer: a timer is the deadline of all");
    group.alternatives.push_back(std::move(ask));
  }
  if (group.alternatives.empty()) return invalid("/alternatives", "is a list of one at least");
  return group;
}

// What won as a single wait would be answered: its decision as `outcome`, its value bare.
flow::Settled winner(const flow::FirstOfAsk& group, const flow::Settled& settled) {
  const std::string value = json::member(settled.result, "value").value_or("null");
  const auto won = std::find_if(group.alternatives.begin(), group.alternatives.end(),
                                [&](const flow::WaitAsk& one) { return one.name == settled.outcome; });
  if (won == group.alternatives.end()) return {value, ""};
  const bool decided = won->kind == kernel::WaitKind::approval;
  return {bare(won->kind, value), decided ? json::string_member(value, "decision").value_or("") : ""};
}

Response wait_any(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  const auto read = read_group(request);
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& group = std::get<flow::FirstOfAsk>(read);
  const bool tried = json::bool_member(request.body, "try").value_or(false);
  flow::Attempt& attempt = *std::get<Attempt>(found);
  return asked(attempt, request, [&](const flow::Caller& caller) -> flow::Outcome {
    flow::Outcome outcome = attempt.first_of(group, caller);
    auto* settled = std::get_if<flow::Settled>(&outcome);
    if (settled == nullptr || attempt.style() == flow::Style::remote) return outcome;
    flow::Settled won = winner(group, *settled);
    if (const auto error = tried ? std::nullopt : ends_run(settled->outcome, won, false)) return attempt.end(*error);
    won.result = kernel::won_value(settled->outcome, won.result);
    return won;
  });
}

}  // namespace

void add_waits(Ports& ports, Router& router, const std::string& base) {
  router.verb("POST", base + "waits", with(ports, wait));
  router.verb("POST", base + "waits/any", with(ports, wait_any));
}

}  // namespace bide::web::attempt_route
