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

}  // namespace

std::optional<std::string> secret_in_result(work::Secrets* secrets, std::string_view document) {
  const auto name = secrets == nullptr ? std::nullopt : secrets->values()->find(document);
  return name ? std::optional(error_of(*name)) : std::nullopt;
}

std::optional<Response> guard_secrets(work::Secrets& secrets, Request& request) {
  if (request.body.empty()) return std::nullopt;
  const auto values = secrets.values();
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
    return problem_response(problem("secret_in_input", "the document holds the secret " + *name +
                                                           ": a workflow gets it by its manifest's secrets"));
  }
  const std::string operation = path.substr(attempt + kOfAnAttempt.size());
  if (operation == "result" || operation.ends_with("/complete")) return std::nullopt;
  if (std::find(std::begin(kHandedOn), std::end(kHandedOn), operation) != std::end(kHandedOn)) {
    return problem_response(problem("secret_in_input", "the document holds the secret " + *name +
                                                           ", and would be kept as it is: let a step's command send "
                                                           "it, with --secret " +
                                                           *name));
  }
  request.body = values->scrubbed(std::move(request.body));
  return std::nullopt;
}

}  // namespace bide::web
