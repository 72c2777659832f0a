// /v1/runs/{id}/attempt/: what a program's verbs, and apps, ask of their attempt; here what it says of itself (input,
// result, progress) and how it ends. The token names run, epoch and secret.
#include "agent/kernel/events.h"
#include "web/attempt_route.h"
#include "web/routes.h"
#include "web/secrets.h"

namespace bide::web {
namespace attempt_route {
namespace {

Response result(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {{"result", Kind::any, true}})) return problem_response(*bad);
  const auto document = json::member(request.body, "result");
  if (const auto large = check_size("result", document)) return problem_response(*large);
  if (const auto leaks = secret_in_result(ports.secrets, *document))
    return closed(std::get<Attempt>(found)->end(*leaks).why);
  std::get<Attempt>(found)->set_result(document.value_or("null"));
  return state(begin("ok"));
}

// Not journaled [J10]: an event, for those who watch.
Response progress(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, true);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {{"percent", Kind::integer}, {"text", Kind::string}})) {
    return problem_response(*bad);
  }
  if (request.body.size() > limits::kKeptOfTooLarge) return problem_response(invalid("/text", "may have 4 KiB"));
  const RunId run = std::get<Attempt>(found)->run().id;
  ports.commands.store().submit(
      [run, body = request.body](db::Tx& tx) {
        kernel::append_event(tx, tx.now(), "run.progress", run, StepId(), body);
      },
      [](const std::optional<std::string>&) {});
  return state(begin("ok"));
}

Response end(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, true);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {{"code", Kind::string, true}, {"message", Kind::string}})) {
    return problem_response(*bad);
  }
  json::Writer error;
  error.begin_object().member("code", json::string_member(request.body, "code").value_or(""));
  error.member("message", json::string_member(request.body, "message").value_or("")).end_object();
  flow::Attempt& attempt = *std::get<Attempt>(found);
  const flow::Closed over = attempt.end(error.text(), request.principal.step);
  return attempt.style() == flow::Style::remote ? closed_remote(attempt) : closed(over.why);
}

// X7: the run goes on as a new one; this is not answered, its process is ended. Without an input: the one it has.
Response continue_as_new(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {{"input"}})) return problem_response(*bad);
  flow::Attempt& attempt = *std::get<Attempt>(found);
  const std::string next = json::member(request.body, "input").value_or(attempt.run().input);
  if (const auto large = check_size("input", next)) return problem_response(*large);
  const flow::Closed over = attempt.continue_as_new(next);
  return attempt.style() == flow::Style::remote ? closed_remote(attempt) : closed(over.why);
}

// D4: a step whose result is not kept failed where the journal has it as completed. The run is queued again; this is
// not answered, its process is ended.
Response secret_failed(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {{"name", Kind::string, true}})) return problem_response(*bad);
  flow::Attempt& attempt = *std::get<Attempt>(found);
  (void)attempt.hand_back(attempt.now() + limits::kSecretStepMs, "secret_step_failed", flow::Closing::finished);
  return closed(attempt.closing());
}

Response input(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, true);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  return json_response(200, std::get<Attempt>(found)->run().input);
}

}  // namespace

void add_ends(Ports& ports, Router& router, const std::string& base) {
  router.verb("POST", base + "result", with(ports, result), Lane::shorts);
  router.verb("POST", base + "progress", with(ports, progress), Lane::shorts);
  router.verb("POST", base + "end", with(ports, end), Lane::shorts);
  router.verb("POST", base + "continue", with(ports, continue_as_new), Lane::shorts);
  router.verb("POST", base + "secret-failed", with(ports, secret_failed), Lane::shorts);
  router.verb("GET", base + "input", with(ports, input), Lane::shorts);
}

}  // namespace attempt_route

void add_attempt_routes(Router& router, Ports& ports) {
  const std::string base = "/v1/runs/{id}/attempt/";
  attempt_route::add_steps(ports, router, base);
  attempt_route::add_waits(ports, router, base);
  attempt_route::add_values(ports, router, base);
  attempt_route::add_ends(ports, router, base);
  if (ports.remotes != nullptr) attempt_route::add_remote(ports, router, base);
}

}  // namespace bide::web
