// /v1/outcomes/{nonce}: what a holder hands in for a step's execution. It needs no attempt: the token names the run,
// the step and the nonce of the execution, and the nonce is what is believed [K2].
#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/routes.h"

namespace bide::web {
namespace {

std::string_view word_for(kernel::Taken how) {
  switch (how) {
    case kernel::Taken::recorded: return "recorded";
    case kernel::Taken::again: return "again";
    case kernel::Taken::late: return "late";
    case kernel::Taken::stranger: break;
  }
  return "stranger";
}

// 200 acknowledges it, whatever came of it: the holder has no more to do. 404: nobody knows the execution.
Response hand_in(Ports& ports, Request& request) {
  const Principal& who = request.principal;
  const std::string& nonce = request.capture("nonce");
  if (!who.run || who.step == 0 || !same_secret(who.attempt_secret, nonce))
    return problem_response(problem("unauthorized", "send the token of the step's execution, BIDE_STEP"));
  if (auto bad = check_body(request, {{"result"},
                                      {"error", Kind::object},
                                      {"retryable", Kind::boolean},
                                      {"unknown", Kind::boolean},
                                      {"begun", Kind::boolean},
                                      {"left", Kind::boolean},
                                      {"backoff_ms", Kind::integer}})) {
    return problem_response(*bad);
  }
  const auto outcome = work::parse_outcome(request.body);
  if (!outcome) return problem_response(problem("invalid", "an outcome has either a result, or an error with a code"));
  const auto how = ports.holders->hand_in(*who.run, who.step, nonce, *outcome);
  if (how == kernel::Taken::stranger) return problem_response(problem("step_unknown", "no such execution of a step"));
  return json_response(200, json::Writer().begin_object().member("state", word_for(how)).end_object().take());
}

}  // namespace

void add_holder_routes(Router& router, Ports& ports) {
  // Apart from the verbs that wait for it: those may be as many as there are threads for them.
  router.verb(
      "POST", "/v1/outcomes/{nonce}", [&ports](Request& request) { return hand_in(ports, request); }, Lane::shorts);
}

}  // namespace bide::web
