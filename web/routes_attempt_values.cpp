// What an attempt records without running anything: values, state, messages; and the runs that it starts.
#include "agent/base/time.h"
#include "web/attempt_route.h"

namespace bide::web::attempt_route {
namespace {

// `base`: of a tmpdir, the folder that it lies in; the verb makes it. Recorded as a whole, so that it is the same path
// wherever the code goes on.
std::optional<std::string> make_value(Ports& ports, const std::string& name, const std::string& base) {
  constexpr std::uint64_t kExact = (std::uint64_t{1} << 53) - 1;  // what every reader of JSON keeps exactly
  if (name == "now") return json::quote(format_time(ports.commands.store().now()));
  if (name == "uuid") return json::quote(ports.random.uuid());
  if (name == "random") return std::to_string(ports.random.next() & kExact);
  if (name == "tmpdir") return json::quote(base + "/" + ports.random.uid());
  return std::nullopt;
}

Response value(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {{"branch", Kind::string},
                                            {"seq", Kind::integer},
                                            {"branches", Kind::integer},
                                            {"name", Kind::string, true},
                                            {"key", Kind::string},
                                            {"base", Kind::string},
                                            {"verb", Kind::string}})) {
    return problem_response(*bad);
  }
  const auto read = read_place(request);
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& place = std::get<Place>(read);
  const std::string base = json::string_member(request.body, "base").value_or("");
  if (!make_value(ports, place.name, base))
    return problem_response(invalid("/name", "must be now, uuid, random or tmpdir"));
  if (place.name == "tmpdir" && (!base.starts_with('/') || base.size() > limits::kKeptOfTooLarge))
    return problem_response(invalid("/base", "must be the absolute path of a folder"));
  flow::Attempt& attempt = *std::get<Attempt>(found);
  return asked(attempt, request, [&](const flow::Caller&) {
    return attempt.value(
        place.branch, place.name, place.key, [&] { return make_value(ports, place.name, base).value_or("null"); },
        place.seq);
  });
}

Response message(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {{"branch", Kind::string},
                                            {"seq", Kind::integer},
                                            {"branches", Kind::integer},
                                            {"name", Kind::string, true},
                                            {"key", Kind::string},
                                            {"url", Kind::string, true},
                                            {"data"},
                                            {"caller", Kind::string},
                                            {"verb", Kind::string}})) {
    return problem_response(*bad);
  }
  const auto place = read_place(request);
  if (const auto* bad = std::get_if<Problem>(&place)) return problem_response(*bad);
  flow::SendAsk ask;
  set_place(ask, std::get<Place>(place));
  ask.url = json::string_member(request.body, "url").value_or("");
  ask.data = json::member(request.body, "data").value_or("{}");
  if (const auto large = check_size("data", ask.data)) return problem_response(*large);
  flow::Attempt& attempt = *std::get<Attempt>(found);
  return asked(attempt, request, [&](const flow::Caller&) { return attempt.send(ask); });
}

// A11. What the child's run brings is known to both journals only when it has ended: this stays open as a wait does.
Response call(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {{"branch", Kind::string},
                                            {"seq", Kind::integer},
                                            {"branches", Kind::integer},
                                            {"name", Kind::string, true},
                                            {"key", Kind::string},
                                            {"workflow", Kind::string, true},
                                            {"input"},
                                            {"try", Kind::boolean},
                                            {"caller", Kind::string},
                                            {"verb", Kind::string}})) {
    return problem_response(*bad);
  }
  const auto place = read_place(request);
  if (const auto* bad = std::get_if<Problem>(&place)) return problem_response(*bad);
  flow::CallAsk ask;
  set_place(ask, std::get<Place>(place));
  ask.workflow = json::string_member(request.body, "workflow").value_or("");
  ask.input = json::member(request.body, "input").value_or("{}");
  ask.tried = json::bool_member(request.body, "try").value_or(false);
  if (const auto large = check_size("input", ask.input)) return problem_response(*large);
  flow::Attempt& attempt = *std::get<Attempt>(found);
  return asked(attempt, request, [&](const flow::Caller& caller) { return attempt.call(ask, caller); });
}

// J10.
Response set_state(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {{"branch", Kind::string},
                                            {"seq", Kind::integer},
                                            {"branches", Kind::integer},
                                            {"name", Kind::string, true},
                                            {"key", Kind::string},
                                            {"value", Kind::any, true},
                                            {"caller", Kind::string},
                                            {"verb", Kind::string}})) {
    return problem_response(*bad);
  }
  const auto place = read_place(request);
  if (const auto* bad = std::get_if<Problem>(&place)) return problem_response(*bad);
  flow::StateAsk ask;
  set_place(ask, std::get<Place>(place));
  ask.value = json::member(request.body, "value").value_or("null");
  if (const auto large = check_size("value", ask.value)) return problem_response(*large);
  flow::Attempt& attempt = *std::get<Attempt>(found);
  return asked(attempt, request, [&](const flow::Caller&) { return attempt.set_state(ask); });
}

// What this attempt has set so far: {"set":false}, or {"set":true,"value":…}.
Response get_state(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  const std::string* name = request.query_value("name");
  const std::string* branch = request.query_value("branch");
  if (name == nullptr) return problem_response(problem("bad_request", "?name= says which value is asked for"));
  const auto value = std::get<Attempt>(found)->state(branch == nullptr ? "" : *branch, *name);
  json::Writer out = begin("ok");
  out.member("set", value.has_value());
  if (value) out.member_raw("value", *value);
  return state(std::move(out));
}

}  // namespace

void add_values(Ports& ports, Router& router, const std::string& base) {
  router.verb("POST", base + "values", with(ports, value), Lane::shorts);
  router.verb("POST", base + "messages", with(ports, message), Lane::shorts);
  router.verb("POST", base + "calls", with(ports, call));
  router.verb("POST", base + "state", with(ports, set_state), Lane::shorts);
  router.verb("GET", base + "state", with(ports, get_state), Lane::shorts);
}

}  // namespace bide::web::attempt_route
