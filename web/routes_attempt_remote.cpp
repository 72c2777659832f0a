// What only a remote worker asks of its attempt: tasks, its lease, its end.
#include "agent/kernel/runs.h"
#include "web/attempt_route.h"

namespace bide::web::attempt_route {
namespace {

// A remote worker's attempt; others end and renew in their own ways.
std::variant<Attempt, Problem> find_remote(Ports& ports, const Request& request) {
  auto found = find_attempt(ports, request, false);
  const auto* attempt = std::get_if<Attempt>(&found);
  if (attempt != nullptr && (*attempt)->style() != flow::Style::remote)
    return problem("forbidden", "this is for attempts of remote workers");
  return found;
}

Response lease(Ports& ports, std::string_view word) {
  return state(std::move(begin(word).member("lease_ms", ports.remotes->lease())));
}

// find_attempt has renewed the lease.
Response heartbeat(Ports& ports, Request& request) {
  const auto found = find_remote(ports, request);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {})) return problem_response(*bad);
  flow::Attempt& attempt = *std::get<Attempt>(found);
  attempt.refresh();
  switch (attempt.closing()) {
    case flow::Closing::open: return attempt.cancel_requested() ? closed_remote(attempt) : lease(ports, "ok");
    case flow::Closing::ending: return lease(ports, "ending");
    case flow::Closing::suspended:
    case flow::Closing::cancelled:
    case flow::Closing::lease_lost:
    case flow::Closing::shutdown:
    case flow::Closing::fault:
    case flow::Closing::paused:
    case flow::Closing::finished: break;
  }
  return closed_remote(attempt);
}

Response ended(std::string_view status) { return state(std::move(begin("ended").member("status", status))); }

// Said twice, because the first answer was lost: the run has ended under this very attempt.
Response ended_before(Ports& ports, const Request& request, const Problem& otherwise) {
  const Principal& who = request.principal;
  const auto row = ports.commands.store().read(
      [&](db::ReadTx& tx) { return who.run ? kernel::read_run(tx, *who.run) : std::nullopt; });
  if (row && row->epoch == who.epoch && kernel::terminal(row->status)) return ended(to_text(row->status));
  return problem_response(otherwise);
}

// J9. {"result":…} or {"error":{"code","message"}}. An error is written first; steps that execute in other branches are
// let finish, and the last of them ends the run [P1].
Response finish(Ports& ports, Request& request) {
  const Problem lost = problem("lease_lost", "the attempt is over; another one has the run, or will");
  const auto found = find_remote(ports, request);
  if (const auto* bad = std::get_if<Problem>(&found))
    return bad->code == "lease_lost" ? ended_before(ports, request, *bad) : problem_response(*bad);
  if (const auto bad = check_body(request, {{"result"}, {"error", Kind::object}})) return problem_response(*bad);
  flow::Attempt& attempt = *std::get<Attempt>(found);
  if (attempt.closing() == flow::Closing::finished) return ended_before(ports, request, lost);
  const auto error = json::member(request.body, "error");
  if (error && *error != "null") {
    if (json::string_member(*error, "code").value_or("").empty())
      return problem_response(invalid("/error/code", "is missing"));
    if (const auto large = check_size("error", error)) return problem_response(*large);
    (void)attempt.end(*error);
    return closed_remote(attempt);
  }
  const auto result = json::member(request.body, "result");
  if (const auto large = check_size("result", result)) return problem_response(*large);
  attempt.refresh();
  if (attempt.closing() != flow::Closing::open || attempt.cancel_requested()) return closed_remote(attempt);
  kernel::Finish wanted;
  wanted.result = result ? *result : attempt.result().value_or("null");
  switch (attempt.finish(wanted)) {
    case kernel::Finished::completed: return ended("completed");
    case kernel::Finished::failed: return ended("failed");
    case kernel::Finished::cancelled: return ended("cancelled");
    case kernel::Finished::queued_again: return state(begin("suspended"));
    case kernel::Finished::compensate:
    case kernel::Finished::lease_lost: break;
  }
  return ended_before(ports, request, lost);
}

// A worker that goes away hands its run back, so that nobody waits for the end of its lease.
Response release(Ports& ports, Request& request) {
  const auto found = find_remote(ports, request);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {})) return problem_response(*bad);
  flow::Attempt& attempt = *std::get<Attempt>(found);
  attempt.refresh();
  if (attempt.closing() != flow::Closing::open || attempt.cancel_requested()) return closed_remote(attempt);
  (void)attempt.hand_back(attempt.now(), "", flow::Closing::finished);
  return state(begin("suspended"));
}

// K8: whoever has the function does it; the answer is like that of a wait.
Response task(Ports& ports, Request& request) {
  const auto found = find_remote(ports, request);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {{"branch", Kind::string},
                                            {"seq", Kind::integer},
                                            {"branches", Kind::integer},
                                            {"name", Kind::string, true},
                                            {"request"},
                                            {"effect", Kind::string},
                                            {"retries", Kind::integer},
                                            {"assume"}})) {
    return problem_response(*bad);
  }
  const auto place = read_place(request);
  if (const auto* bad = std::get_if<Problem>(&place)) return problem_response(*bad);
  flow::StepAsk ask;
  set_place(ask, std::get<Place>(place));
  const auto effect = kernel::effect_from(json::string_member(request.body, "effect").value_or("idempotent"));
  if (!effect) return problem_response(invalid("/effect", "must be pure, idempotent or non_idempotent"));
  ask.effect = *effect;
  ask.request = json::member(request.body, "request").value_or("null");
  const bool sure = *effect != kernel::Effect::non_idempotent;
  ask.retries = json::int_member(request.body, "retries").value_or(sure ? limits::kNativeRetries : 0);
  if (ask.retries < 0) return problem_response(invalid("/retries", "must not be negative"));
  ask.assume = json::member(request.body, "assume");
  if (const auto large = check_size("request", ask.request)) return problem_response(*large);
  flow::Attempt& attempt = *std::get<Attempt>(found);
  return asked(attempt, request, [&](const flow::Caller& caller) { return attempt.task(ask, caller); });
}

}  // namespace

void add_remote(Ports& ports, Router& router, const std::string& base) {
  router.verb("POST", base + "tasks", with(ports, task));
  router.verb("POST", base + "heartbeat", with(ports, heartbeat), Lane::shorts);
  router.verb("POST", base + "finish", with(ports, finish), Lane::shorts);
  router.verb("POST", base + "release", with(ports, release), Lane::shorts);
}

}  // namespace bide::web::attempt_route
