#include "web/body.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/text.h"
#include "web/problem.h"

namespace bide::web {
namespace {

// The first byte tells a JSON value's type; whole numbers are looked at by the reader of the member.
bool fits(Kind kind, std::string_view value) {
  const char first = value.empty() ? '\0' : value.front();
  switch (kind) {
    case Kind::string: return first == '"';
    case Kind::integer: return first == '-' || (first >= '0' && first <= '9');
    case Kind::boolean: return first == 't' || first == 'f';
    case Kind::object: return first == '{';
    case Kind::any: return true;
  }
  return false;
}

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::string: return "a string";
    case Kind::integer: return "a whole number";
    case Kind::boolean: return "true or false";
    case Kind::object: return "an object";
    case Kind::any: return "a value";
  }
  return "a value";
}

std::vector<std::string> names_in(const std::string& object) {
  std::vector<std::string> names;
  const auto collect = [&names](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    if (event == nlohmann::json::parse_event_t::key && depth == 1) names.push_back(parsed.get<std::string>());
    return depth == 0;  // nothing below the top is kept
  };
  [[maybe_unused]] const auto nothing = nlohmann::json::parse(object, collect, false);
  return names;
}

Problem misfit(std::vector<PointerError> errors) {
  Problem refused = problem("invalid", errors.front().pointer + " " + errors.front().detail);
  refused.errors = std::move(errors);
  return refused;
}

}  // namespace

Problem misfit(std::string pointer, std::string why) {
  return misfit(std::vector<PointerError>{PointerError{std::move(pointer), std::move(why)}});
}

std::optional<Problem> check_body(Request& request, std::initializer_list<Member> members) {
  if (request.body.empty()) request.body = "{}";
  if (const auto refused = json::check(request.body)) {
    Problem bad = problem("bad_json", refused->why + " at byte " + std::to_string(refused->offset));
    bad.extra = "\"offset\":" + std::to_string(refused->offset);
    return bad;
  }
  if (trim(request.body).front() != '{') return problem("invalid", "the body must be a JSON object");
  std::vector<PointerError> errors;
  std::vector<std::string> known;
  for (const Member& member : members) known.emplace_back(member.name);
  for (const std::string& name : names_in(request.body)) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string near = nearest(name, known);
    errors.push_back({"/" + name, "is not known here" + (near.empty() ? "" : "; is " + near + " meant?")});
  }
  for (const Member& member : members) {
    const auto value = json::member(request.body, member.name);
    const std::string pointer = "/" + std::string(member.name);
    if (!value || (*value == "null" && member.kind != Kind::any)) {
      if (member.needed) errors.push_back({pointer, "is missing"});
    } else if (!fits(member.kind, *value) ||
               (member.kind == Kind::integer && !json::int_member(request.body, member.name))) {
      errors.push_back({pointer, "must be " + std::string(name_of(member.kind))});
    }
  }
  if (errors.empty()) return std::nullopt;
  return misfit(std::move(errors));
}

std::optional<Problem> check_size(std::string_view name, const std::optional<std::string>& document) {
  if (!document || document->size() <= limits::kDocumentBytes) return std::nullopt;
  return problem("too_large", std::string(name) + " has " + std::to_string(document->size()) + " bytes; it may have " +
                                  std::to_string(limits::kDocumentBytes));
}

std::variant<int, Problem> read_limit(const Request& request) {
  const std::string* limit = request.query_value("limit");
  if (limit == nullptr) return limits::kPageDefault;
  const auto number = parse_number(*limit);
  if (!number || *number < 1 || *number > limits::kPageMax)
    return problem("bad_request", "limit must be a number from 1 to " + std::to_string(limits::kPageMax));
  return static_cast<int>(*number);
}

std::variant<Page, Problem> read_page(const Request& request) {
  Page page;
  const auto limit = read_limit(request);
  if (const auto* bad = std::get_if<Problem>(&limit)) return *bad;
  page.limit = std::get<int>(limit);
  if (const std::string* cursor = request.query_value("cursor")) {
    const auto number = *cursor == "0" ? std::optional<std::int64_t>(0) : parse_number(*cursor);
    if (!number) return problem("bad_request", "cursor must be what next said in the page before");
    page.after = *number;
  }
  return page;
}

std::variant<std::int64_t, Problem> path_id(const Request& request, std::string_view code) {
  if (const auto id = request.capture_id("id")) return *id;
  return problem(code, "ids are numbers, this one is not");
}

kernel::Principal who(const Request& request) {
  kernel::Principal by;
  by.name = request.principal.name;
  by.scopes = static_cast<std::uint8_t>(request.principal.scopes);
  if (request.principal.run) by.attempt_run = *request.principal.run;
  return by;
}

std::variant<work::Commands::Once, Problem> command_key(const Request& request) {
  const std::string* key = request.field("idempotency-key");
  if (key == nullptr) return work::Commands::Once{};
  if (key->empty() || key->size() > limits::kKeyBytes || invalid_utf8(*key) != std::string::npos) {
    return problem("bad_request",
                   "an Idempotency-Key has 1 to " + std::to_string(limits::kKeyBytes) + " bytes of UTF-8");
  }
  const std::string body = request.body.empty() ? "{}" : request.body;  // of a DELETE, which nobody has read
  if (const auto refused = json::check(body)) {
    return problem("bad_json", refused->why + " at byte " + std::to_string(refused->offset));
  }
  std::string what = request.method + "\n" + request.path + "\n";
  for (const auto& [name, value] : request.query) what += name + "=" + value + "\n";
  what += json::canonical(body);
  return work::Commands::Once{kernel::CommandKey{request.principal.name, *key, sha256(what)}};
}

Response respond(const std::variant<work::Answer, Problem>& outcome) {
  if (const auto* refused = std::get_if<Problem>(&outcome)) return problem_response(*refused);
  const auto& answer = std::get<work::Answer>(outcome);
  Response response = json_response(answer.status, answer.body);
  if (answer.status >= 400) response.content_type = "application/problem+json";
  if (answer.status == 201) {
    const auto id = json::int_member(answer.body, "id");
    if (id) response.with("Location", "/v1/runs/" + std::to_string(*id));
  }
  if (answer.replayed) response.with("Idempotent-Replayed", "true");
  return response;
}

work::Answer answer_of(const Problem& problem) {
  Response response = problem_response(problem);
  return {response.status, std::move(response.body), {}, false};
}

Response long_poll(Ports& ports, Request& request, const std::function<Look()>& look) {
  work::Feed& feed = ports.commands.feed();
  const std::stop_callback ring(request.stop, [&feed] { feed.notify(); });
  const BootMs end = ports.clock.boot_ms() + request.prefer_wait_ms();
  while (true) {
    const std::uint64_t seen = feed.seen();
    Look now = look();
    const DurationMs left = end - ports.clock.boot_ms();
    if (now.done || left <= 0 || request.stop.stop_requested() || feed.closed()) return std::move(now.response);
    feed.wait(seen, left);
  }
}

}  // namespace bide::web
