#include "web/secrets.h"

#include <algorithm>

#include "agent/base/json.h"
#include "web/problem.h"

namespace bide::web {
namespace {

constexpr std::string_view kOfAnAttempt = "/attempt/";
constexpr std::string_view kHandedIn = "/v1/outcomes/";
// Operations of an attempt whose documents go on as they are.
constexpr std::string_view kHandedOn[] = {"messages", "calls", "continue"};

std::string error_of(const std::string& name) {
  json::Writer error;
  error.begin_object().member("code", "SecretInResult");
  error.member("message", "The result holds the secret " + name +
                              ", and results are kept: write what the program needs without it, or "
                              "--secret-result if the step may be repeated.");
  return error.end_object().take();
}

// What a holder hands in instead of a result that nobody may keep.
std::string failed_instead(const std::string& body, const std::string& name) {
  json::Writer out;
  out.begin_object().member_raw("error", error_of(name)).member("retryable", false);
  out.member("left", json::bool_member(body, "left"));
  return out.end_object().take();
}

Response refuse(const std::string& name, const std::string& instead) {
  return problem_response(
      problem("secret_in_input", "what was sent holds the secret " + name + " and would be kept: " +
                                     (instead.empty() ? "a workflow gets it by its manifest's secrets" : instead)));
}

// A name in the address, or the key, is kept too: a signal's, a wait's.
std::optional<std::string> secret_beside(const SecretValues& values, const Request& request) {
  for (const auto& [place, text] : request.captures) {
    if (auto name = values.find(text)) return name;
  }
  const std::string* key = request.field("idempotency-key");
  return key == nullptr ? std::nullopt : values.find(*key);
}

}  // namespace

std::optional<std::string> secret_in_result(work::Secrets* secrets, std::string_view document) {
  const auto name = secrets == nullptr ? std::nullopt : secrets->values()->find(document);
  return name ? std::optional(error_of(*name)) : std::nullopt;
}

std::optional<Response> guard_secrets(work::Secrets& secrets, Request& request) {
  const auto values = secrets.values();
  if (values->empty()) return std::nullopt;
  if (const auto named = secret_beside(*values, request)) return refuse(*named, "");
  const auto name = values->find(request.body);
  if (!name) return std::nullopt;
  const std::string& path = request.path;
  const auto attempt = path.find(kOfAnAttempt);
  if (path.starts_with(kHandedIn)) {
    const auto result = json::member(request.body, "result");
    const bool leaks = result && values->find(*result);
    request.body = leaks ? failed_instead(request.body, *name) : values->scrubbed(std::move(request.body));
    return std::nullopt;
  }
  if (attempt == std::string::npos) {
    return refuse(*name, "");
  }
  const std::string operation = path.substr(attempt + kOfAnAttempt.size());
  if (operation == "result" || operation.ends_with("/complete")) return std::nullopt;
  if (std::find(std::begin(kHandedOn), std::end(kHandedOn), operation) != std::end(kHandedOn)) {
    return refuse(*name, "let a step's command send it, with --secret " + *name);
  }
  request.body = values->scrubbed(std::move(request.body));
  return std::nullopt;
}

}  // namespace bide::web
