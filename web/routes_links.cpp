// /decide/{token}: a link of a notice, for endpoints that are configured for it. GET shows what is asked and changes
// nothing, so that whoever previews a link decides nothing; POST decides, once. The token is the right to; it is in no
// log, and good for one approval.
#include "agent/base/json.h"
#include "agent/kernel/links.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/render.h"
#include "web/routes.h"

namespace bide::web {
namespace {

std::variant<kernel::LinkedDecision, Problem> find(Ports& ports, const Request& request) {
  db::Store& store = ports.commands.store();
  return store.read(
      [&](db::ReadTx& tx) { return kernel::read_decision_token(tx, request.capture("token"), store.now()); });
}

// No script stands in the page [http-api.md]: decide.js sends what its buttons say.
Response show(Ports& ports, Request& request) {
  const auto found = find(ports, request);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  const kernel::WaitRow& wait = std::get<kernel::LinkedDecision>(found).wait;
  const std::string asks = json::string_member(wait.payload, "text").value_or(wait.name);
  const bool open = wait.status == kernel::WaitStatus::pending;
  Response response;
  response.content_type = "text/html; charset=utf-8";
  response.body =
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>bide: decide</title>\n<link "
      "rel=\"stylesheet\" href=\"/page.css\">\n<main>\n<h1>" +
      escape_html(asks) + "</h1>\n<p>Run " + std::to_string(wait.run.value) + ", " + escape_html(wait.name) + "</p>\n";
  if (open) {
    response.body +=
        "<p><button data-decision=\"approved\">Approve</button> <button data-decision=\"denied\">Deny</button></p>\n"
        "<p id=\"said\" role=\"status\"></p>\n<script src=\"/decide.js\" type=\"module\"></script>\n";
  } else {
    response.body += "<p>It is decided: " + std::string(to_text(wait.status)) + ".</p>\n";
  }
  response.body += "</main>\n</html>\n";
  return response;
}

work::Answer answered(const kernel::ResolveOutcome& outcome) {
  if (const auto* bad = std::get_if<Problem>(&outcome)) return answer_of(*bad);
  const char* state = "decided";
  if (std::holds_alternative<kernel::VoteCounted>(outcome)) state = "counted";
  return {200, json::Writer().begin_object().member("state", state).end_object().take(), {}, false};
}

Response decide(Ports& ports, Request& request) {
  const auto found = find(ports, request);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {{"decision", Kind::string, true}, {"comment", Kind::string}}))
    return problem_response(*bad);
  auto read = kernel::parse_decision(request.body);
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& link = std::get<kernel::LinkedDecision>(found);
  auto& decision = std::get<kernel::Decision>(read);
  decision.if_match = link.digest;
  return respond(ports.commands.resolve(link.wait.id, decision, link.by, std::nullopt, answered));
}

}  // namespace

void add_link_routes(Router& router, Ports& ports) {
  const auto with = [&ports](Response (*handler)(Ports&, Request&)) {
    return [&ports, handler](Request& request) { return handler(ports, request); };
  };
  router.open("/decide/{token}", with(show));
  router.open_post("/decide/{token}", with(decide));
}

}  // namespace bide::web
