// /v1/runs/{id}/attempt/: what a program's verbs, and apps, ask of their attempt. The token names run, epoch and
// secret; an attempt that this process does not drive is 409 lease_lost. A request that must not return stays open
// [V1].
#include "agent/base/hash.h"
#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/base/time.h"
#include "agent/flow/attempt.h"
#include "agent/kernel/events.h"
#include "agent/kernel/evidence.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/routes.h"

namespace bide::web {
namespace {

using Attempt = std::shared_ptr<flow::Attempt>;

Problem invalid(std::string pointer, std::string why) {
  Problem bad = problem("invalid", pointer + " " + why);
  bad.errors.push_back({std::move(pointer), std::move(why)});
  return bad;
}

// `by_step`: a step's command may ask for this too, under its nonce.
std::variant<Attempt, Problem> find_attempt(Ports& ports, const Request& request, bool by_step) {
  const auto id = path_id(request, "run_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return *bad;
  const Principal& who = request.principal;
  const RunId run(std::get<std::int64_t>(id));
  if (who.run != run) return problem("forbidden", "the token is that of another run");
  if (who.attempt_secret.empty()) return problem("unauthorized", "send the attempt's token, BIDE_ATTEMPT");
  Attempt attempt = ports.commands.executor().attempt(run, who.epoch);
  if (!attempt) return problem("lease_lost", "the attempt is over; another one has the run, or will");
  if (who.step != 0) {
    if (!by_step) return problem("forbidden", "a step's command has no right to the journal");
    if (!attempt->executes(who.step, who.attempt_secret))
      return problem("unauthorized", "the step's token is not valid");
    return attempt;
  }
  if (!same_secret(attempt->secret(), who.attempt_secret))
    return problem("unauthorized", "the attempt's token is not valid");
  return attempt;
}

// -- Answers.

// An object that both say and add to: `error` with one more member.
std::string with_member(const std::string& error, std::string_view name, std::string_view value) {
  if (error.empty() || error.back() != '}') return error;
  const std::string member = json::quote(name) + ":" + json::quote(value) + "}";
  std::string whole = error.substr(0, error.size() - 1);
  if (trim(whole) != "{") whole += ",";
  return whole + member;
}

Response state(json::Writer&& out) { return json_response(200, out.end_object().take()); }
json::Writer begin(std::string_view state) {
  json::Writer out;
  out.begin_object().member("state", state);
  return out;
}

Response closed(flow::Closing why) {
  switch (why) {
    case flow::Closing::lease_lost:
      return problem_response(problem("lease_lost", "the attempt is over; another one has the run, or will"));
    case flow::Closing::shutdown: return hang_up();  // whoever asks tries again until the agent is back
    case flow::Closing::open:                        // a newer connection of the same verb took its place
    case flow::Closing::ending:
    case flow::Closing::suspended:
    case flow::Closing::cancelled:
    case flow::Closing::fault:
    case flow::Closing::paused:
    case flow::Closing::finished: break;
  }
  return stay_open();  // its process is ended by us
}

Response say(flow::Attempt& attempt, const flow::Outcome& outcome) {
  if (const auto* settled = std::get_if<flow::Settled>(&outcome)) {
    json::Writer out = begin("settled");
    if (!settled->outcome.empty()) out.member("outcome", settled->outcome);
    return state(std::move(out.member_raw("result", settled->result)));
  }
  if (const auto* failed = std::get_if<flow::Failed>(&outcome)) {
    if (failed->tried) return state(std::move(begin("failed").member_raw("error", failed->error)));
    return closed(attempt.end(with_member(failed->error, "step", failed->name)).why);
  }
  if (const auto* execute = std::get_if<flow::Execute>(&outcome)) {
    json::Writer out = begin("execute");
    out.member("step", execute->step).member("nonce", execute->nonce);
    out.member("idempotency_key", execute->idempotency_key).member("execution", execute->execution);
    return state(std::move(out));
  }
  if (const auto* probe = std::get_if<flow::AskProbe>(&outcome)) {
    json::Writer out = begin("probe");
    out.member("step", probe->step).member("nonce", probe->nonce);
    out.member("idempotency_key", probe->idempotency_key).member("probe", probe->probe);
    return state(std::move(out));
  }
  if (const auto* refused = std::get_if<Problem>(&outcome)) return problem_response(*refused);
  return closed(std::get<flow::Closed>(outcome).why);
}

// Calls `ask` with who asks; a peer that hangs up meanwhile rings the attempt. (When the agent closes, the executor
// closes the attempt before the server is stopped, and that ends the call.)
template <class Ask>
Response asked(flow::Attempt& attempt, Request& request, Ask ask) {
  const std::stop_callback ring(request.stop, [&attempt] { attempt.ring(); });
  flow::Caller caller;
  caller.pid = request.peer.unix_socket ? static_cast<int>(request.peer.pid) : 0;
  caller.gone = [&request] { return request.peer_gone(); };
  return say(attempt, ask(caller));
}

// -- Requests.

std::optional<Problem> check_names(const std::string& branch, const std::string& name, const std::string& key) {
  if (branch.size() > limits::kNameBytes) return invalid("/branch", "may have 128 bytes");
  if (name.empty() || name.size() > limits::kNameBytes) return invalid("/name", "has 1 to 128 bytes");
  if (key.size() > limits::kKeyBytes) return invalid("/key", "may have 512 bytes");
  if (branch == "~undo") return invalid("/branch", "is the agent's own");
  return std::nullopt;
}

std::variant<flow::StepAsk, Problem> read_step(Request& request) {
  if (auto bad = check_body(request, {{"branch", Kind::string},
                                      {"name", Kind::string, true},
                                      {"key", Kind::string},
                                      {"effect", Kind::string},
                                      {"request"},
                                      {"retries", Kind::integer},
                                      {"backoff_ms", Kind::integer},
                                      {"timeout_ms", Kind::integer},
                                      {"on_timeout", Kind::string},
                                      {"probe", Kind::string},
                                      {"assume"},
                                      {"compensate", Kind::string},
                                      {"caller", Kind::string},
                                      {"try", Kind::boolean},
                                      {"no_effect_yet", Kind::boolean},
                                      {"verb", Kind::string}})) {
    return *bad;
  }
  const std::string& body = request.body;
  flow::StepAsk ask;
  ask.branch = json::string_member(body, "branch").value_or("");
  ask.name = json::string_member(body, "name").value_or("");
  ask.key = json::string_member(body, "key").value_or("");
  if (auto bad = check_names(ask.branch, ask.name, ask.key)) return *bad;
  const auto effect = kernel::effect_from(json::string_member(body, "effect").value_or("non_idempotent"));
  if (!effect) return invalid("/effect", "must be pure, idempotent or non_idempotent");
  ask.effect = *effect;
  ask.request = json::member(body, "request").value_or("null");
  ask.retries = json::int_member(body, "retries").value_or(0);
  ask.backoff = json::int_member(body, "backoff_ms").value_or(0);
  ask.timeout = json::int_member(body, "timeout_ms").value_or(0);
  if (ask.retries < 0) return invalid("/retries", "must not be negative");
  if (ask.backoff < 0) return invalid("/backoff_ms", "must not be negative");
  if (ask.timeout < 0) return invalid("/timeout_ms", "must not be negative");
  const auto on_timeout = json::string_member(body, "on_timeout");
  if (on_timeout && *on_timeout != "fail") return invalid("/on_timeout", "can only be fail");
  ask.fail_on_timeout = on_timeout.has_value();
  ask.probe = json::string_member(body, "probe");
  ask.assume = json::member(body, "assume");
  ask.compensate = json::string_member(body, "compensate");
  ask.caller = json::string_member(body, "caller").value_or("");
  ask.verb = json::string_member(body, "verb").value_or("");
  ask.tried = json::bool_member(body, "try").value_or(false);
  return ask;
}

Response begin_step(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  const auto read = read_step(request);
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  flow::Attempt& attempt = *std::get<Attempt>(found);
  return asked(attempt, request,
               [&](const flow::Caller& caller) { return attempt.begin_step(std::get<flow::StepAsk>(read), caller); });
}

// K2: what an attempt of a dead agent hands in changes nothing, but it is evidence. (A probe's verdict is no outcome.)
void keep_late(Ports& ports, const Request& request) {
  const auto step = request.capture_id("step");
  const auto nonce = json::string_member(request.body, "nonce");
  const Principal& who = request.principal;
  if (!step || !nonce || !who.run || json::member(request.body, "verdict")) return;
  const auto error = json::member(request.body, "error");
  const std::string text = error ? *error : json::member(request.body, "result").value_or("null");
  const kernel::HandedIn handed{text, error.has_value()};
  ports.commands.store().write([&](db::Tx& tx) {
    (void)kernel::keep_orphaned_outcome(tx, *who.run, *step, who.epoch, *nonce, handed, tx.now());
  });
}

// What complete, fail and probe have in common: the step of the path and the nonce of the body.
struct Handed {
  Attempt attempt;
  std::int64_t step = 0;
  std::string nonce;
};
std::variant<Handed, Problem> read_handed(Ports& ports, Request& request, std::initializer_list<Member> members) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) {
    if (bad->code == "lease_lost") keep_late(ports, request);
    return *bad;
  }
  const auto step = request.capture_id("step");
  if (!step) return problem("step_unknown", "a step is named by its number");
  if (auto bad = check_body(request, members)) return *bad;
  return Handed{std::get<Attempt>(found), *step, json::string_member(request.body, "nonce").value_or("")};
}

Response probe_said(Ports& ports, Request& request) {
  const auto read =
      read_handed(ports, request, {{"nonce", Kind::string, true}, {"verdict", Kind::string, true}, {"result"}});
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& handed = std::get<Handed>(read);
  const auto word = json::string_member(request.body, "verdict").value_or("");
  flow::ProbeVerdict verdict = flow::ProbeVerdict::cannot_tell;
  if (word == "ran") {
    verdict = flow::ProbeVerdict::ran;
  } else if (word == "did_not_run") {
    verdict = flow::ProbeVerdict::did_not_run;
  } else if (word != "cannot_tell") {
    return problem_response(invalid("/verdict", "must be ran, did_not_run or cannot_tell"));
  }
  const auto result = json::member(request.body, "result");
  return asked(*handed.attempt, request, [&](const flow::Caller& caller) {
    return handed.attempt->probe_said(handed.step, handed.nonce, verdict, result, caller);
  });
}

Response complete(Ports& ports, Request& request) {
  const auto read = read_handed(ports, request, {{"nonce", Kind::string, true}, {"result"}, {"usage", Kind::object}});
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& handed = std::get<Handed>(read);
  const std::string result = json::member(request.body, "result").value_or("null");
  auto usage = json::member(request.body, "usage");
  if (usage == "null") usage.reset();
  return asked(*handed.attempt, request,
               [&](const flow::Caller&) { return handed.attempt->complete(handed.step, handed.nonce, result, usage); });
}

Response fail(Ports& ports, Request& request) {
  const auto read = read_handed(ports, request,
                                {{"nonce", Kind::string, true},
                                 {"error", Kind::object, true},
                                 {"retryable", Kind::boolean},
                                 {"unknown", Kind::boolean}});
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& handed = std::get<Handed>(read);
  flow::Attempt::FailureReport report;
  report.error = json::member(request.body, "error").value_or("{}");
  const std::string code = json::string_member(report.error, "code").value_or("");
  if (code.empty()) return problem_response(invalid("/error/code", "is missing"));
  report.retryable = json::bool_member(request.body, "retryable").value_or(true);
  report.unknown = json::bool_member(request.body, "unknown").value_or(false);
  report.stays_pending = code == "NotFound";
  report.fault = code == "SpawnFailed";
  return asked(*handed.attempt, request, [&](const flow::Caller& caller) {
    return handed.attempt->fail(handed.step, handed.nonce, report, caller);
  });
}

// -- Waits.

std::variant<flow::WaitAsk, Problem> read_wait(Request& request) {
  if (auto bad = check_body(request, {{"branch", Kind::string},
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
  const std::string& body = request.body;
  flow::WaitAsk ask;
  ask.branch = json::string_member(body, "branch").value_or("");
  ask.name = json::string_member(body, "name").value_or("");
  ask.key = json::string_member(body, "key").value_or("");
  if (auto bad = check_names(ask.branch, ask.name, ask.key)) return *bad;
  const auto kind = kernel::wait_kind_from(json::string_member(body, "kind").value_or(""));
  const bool askable = kind == kernel::WaitKind::approval || kind == kernel::WaitKind::question ||
                       kind == kernel::WaitKind::signal || kind == kernel::WaitKind::timer;
  if (!askable) return invalid("/kind", "must be approval, question, signal or timer");
  ask.kind = *kind;
  const auto asked = json::member(body, "request");
  if (asked && *asked != "null") ask.request = *asked;
  ask.timeout = json::int_member(body, "timeout_ms");
  if (ask.timeout && *ask.timeout < 0) return invalid("/timeout_ms", "must not be negative");
  ask.fallback = json::member(body, "default");
  ask.caller = json::string_member(body, "caller").value_or("");
  ask.verb = json::string_member(body, "verb").value_or("");
  return ask;
}

// V1: without `try` these end the run, with the deciding person's words. nullopt: the answer is handed out.
std::optional<std::string> ends_run(const flow::WaitAsk& ask, const flow::Outcome& outcome) {
  const auto* settled = std::get_if<flow::Settled>(&outcome);
  if (settled == nullptr) return std::nullopt;
  std::string_view code;
  if (settled->outcome == "denied") code = "Denied";
  if (settled->outcome == "changes_requested") code = "ChangesRequested";
  if (settled->outcome == "expired" && !ask.fallback) code = "Expired";
  if (code.empty()) return std::nullopt;
  const std::string comment = json::string_member(settled->result, "comment").value_or("");
  const std::string what = settled->outcome == "changes_requested" ? "changes were requested" : settled->outcome;
  json::Writer error;
  error.begin_object().member("code", code);
  error.member("message", ask.name + ": " + (comment.empty() ? what : what + ": " + comment)).member("step", ask.name);
  return error.member_raw("decision", settled->result).end_object().take();
}

// A program gets the bare answer, or the signal's payload; who gave it, and when, is in the journal.
flow::Outcome bare(const flow::WaitAsk& ask, flow::Outcome outcome) {
  auto* settled = std::get_if<flow::Settled>(&outcome);
  if (settled == nullptr) return outcome;
  std::optional<std::string> value;
  if (ask.kind == kernel::WaitKind::question) value = json::member(settled->result, "answer");
  if (ask.kind == kernel::WaitKind::signal) value = json::member(settled->result, "payload");
  if (value) settled->result = std::move(*value);
  return outcome;
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
    const auto error = tried ? std::nullopt : ends_run(ask, outcome);
    return error ? flow::Outcome(attempt.end(*error)) : bare(ask, std::move(outcome));
  });
}

// -- Values, results, ends.

std::optional<std::string> make_value(Ports& ports, const std::string& name) {
  constexpr std::uint64_t kExact = (std::uint64_t{1} << 53) - 1;  // what every reader of JSON keeps exactly
  if (name == "now") return json::quote(format_time(ports.commands.store().now()));
  if (name == "uuid") return json::quote(ports.random.uuid());
  if (name == "random") return std::to_string(ports.random.next() & kExact);
  return std::nullopt;
}

Response value(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(
          request,
          {{"branch", Kind::string}, {"name", Kind::string, true}, {"key", Kind::string}, {"verb", Kind::string}})) {
    return problem_response(*bad);
  }
  const std::string branch = json::string_member(request.body, "branch").value_or("");
  const std::string name = json::string_member(request.body, "name").value_or("");
  const std::string key = json::string_member(request.body, "key").value_or("");
  if (const auto bad = check_names(branch, name, key)) return problem_response(*bad);
  if (!make_value(ports, name)) return problem_response(invalid("/name", "must be now, uuid or random"));
  flow::Attempt& attempt = *std::get<Attempt>(found);
  return asked(attempt, request, [&](const flow::Caller&) {
    return attempt.value(branch, name, key, [&] { return make_value(ports, name).value_or("null"); });
  });
}

Response message(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {{"branch", Kind::string},
                                            {"name", Kind::string, true},
                                            {"key", Kind::string},
                                            {"url", Kind::string, true},
                                            {"data"},
                                            {"caller", Kind::string},
                                            {"verb", Kind::string}})) {
    return problem_response(*bad);
  }
  flow::SendAsk ask;
  ask.branch = json::string_member(request.body, "branch").value_or("");
  ask.name = json::string_member(request.body, "name").value_or("");
  ask.key = json::string_member(request.body, "key").value_or("");
  ask.url = json::string_member(request.body, "url").value_or("");
  ask.data = json::member(request.body, "data").value_or("{}");
  ask.caller = json::string_member(request.body, "caller").value_or("");
  ask.verb = json::string_member(request.body, "verb").value_or("");
  if (const auto bad = check_names(ask.branch, ask.name, ask.key)) return problem_response(*bad);
  if (const auto large = check_size("data", ask.data)) return problem_response(*large);
  flow::Attempt& attempt = *std::get<Attempt>(found);
  return asked(attempt, request, [&](const flow::Caller&) { return attempt.send(ask); });
}

Response result(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {{"result", Kind::any, true}})) return problem_response(*bad);
  const auto document = json::member(request.body, "result");
  if (const auto large = check_size("result", document)) return problem_response(*large);
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
  return closed(std::get<Attempt>(found)->end(error.text(), request.principal.step).why);
}

Response input(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, true);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  return json_response(200, std::get<Attempt>(found)->run().input);
}

}  // namespace

void add_attempt_routes(Router& router, Ports& ports) {
  const auto with = [&ports](Response (*handler)(Ports&, Request&)) {
    return [&ports, handler](Request& request) { return handler(ports, request); };
  };
  const std::string base = "/v1/runs/{id}/attempt/";
  router.verb("POST", base + "steps", with(begin_step));
  router.verb("POST", base + "steps/{step}/probe", with(probe_said));
  router.verb("POST", base + "steps/{step}/complete", with(complete));
  router.verb("POST", base + "steps/{step}/fail", with(fail));
  router.verb("POST", base + "waits", with(wait));
  router.verb("POST", base + "values", with(value), Lane::shorts);
  router.verb("POST", base + "messages", with(message), Lane::shorts);
  router.verb("POST", base + "result", with(result), Lane::shorts);
  router.verb("POST", base + "progress", with(progress), Lane::shorts);
  router.verb("POST", base + "end", with(end), Lane::shorts);
  router.verb("GET", base + "input", with(input), Lane::shorts);
}

}  // namespace bide::web
