// Steps of an attempt: begin, the probe's verdict, the outcome.
#include <nlohmann/json.hpp>

#include "agent/kernel/evidence.h"
#include "web/attempt_route.h"
#include "web/secrets.h"

namespace bide::web::attempt_route {
namespace {

std::variant<flow::StepAsk, Problem> read_step(Request& request) {
  if (auto bad = check_body(request, {{"branch", Kind::string},
                                      {"seq", Kind::integer},
                                      {"branches", Kind::integer},
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
                                      {"compensate", Kind::object},
                                      {"caller", Kind::string},
                                      {"try", Kind::boolean},
                                      {"holder", Kind::boolean},
                                      {"no_effect_yet", Kind::boolean},
                                      {"verb", Kind::string}})) {
    return *bad;
  }
  const auto place = read_place(request);
  if (const auto* bad = std::get_if<Problem>(&place)) return *bad;
  const std::string& body = request.body;
  flow::StepAsk ask;
  set_place(ask, std::get<Place>(place));
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
  ask.compensate = json::member(body, "compensate");
  if (ask.compensate && json::string_member(*ask.compensate, "command").value_or("").empty())
    return invalid("/compensate/command", "is missing: the shell text that takes the step back");
  ask.tried = json::bool_member(body, "try").value_or(false);
  ask.holder = json::bool_member(body, "holder").value_or(false);
  return ask;
}

Response begin_step(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  auto read = read_step(request);
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  flow::Attempt& attempt = *std::get<Attempt>(found);
  if (attempt.style() == flow::Style::remote && std::get<flow::StepAsk>(read).compensate)
    return problem_response(invalid("/compensate", "is not for remote workers: take it back in a step of your own"));
  auto& ask = std::get<flow::StepAsk>(read);
  // What the verb leaves open, the manifest says.
  const bool repeatable = ask.effect != kernel::Effect::non_idempotent;
  if (repeatable && !json::int_member(request.body, "retries")) ask.retries = attempt.options().retries;
  if (!json::int_member(request.body, "backoff_ms")) ask.backoff = attempt.options().backoff;
  return asked(attempt, request, [&](const flow::Caller& caller) {
    flow::Outcome outcome = attempt.begin_step(ask, caller);
    const auto* execute = std::get_if<flow::Execute>(&outcome);
    const auto stub = execute != nullptr ? attempt.rehearsal_stub(execute->step) : std::nullopt;
    return stub ? attempt.complete(execute->step, execute->nonce, *stub) : std::move(outcome);
  });
}

// What of a list of steps is settled already, for a verb that has many: {"looked":n,"settled":[{"item":i,"result":…}]}.
// An item that ended the run, or does not fit what is recorded, is answered as a single step would be.
Response settled(Ports& ports, Request& request) {
  constexpr std::size_t kEnough = 4 << 20;  // of results in one answer; the rest is asked for again
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {{"branch", Kind::string},
                                            {"seq", Kind::integer},
                                            {"branches", Kind::integer},
                                            {"name", Kind::string, true},
                                            {"effect", Kind::string},
                                            {"caller", Kind::string},
                                            {"items", Kind::any, true}})) {
    return problem_response(*bad);
  }
  const auto place = read_place(request);
  if (const auto* bad = std::get_if<Problem>(&place)) return problem_response(*bad);
  const auto effect = kernel::effect_from(json::string_member(request.body, "effect").value_or("non_idempotent"));
  if (!effect) return problem_response(invalid("/effect", "must be pure, idempotent or non_idempotent"));
  flow::Attempt& attempt = *std::get<Attempt>(found);
  const auto items = nlohmann::json::parse(json::member(request.body, "items").value_or("[]"), nullptr, false);
  json::Writer out = begin("ok");
  out.key("settled").begin_array();
  std::int64_t looked = 0;
  for (const auto& item : items) {
    if (!item.is_object() || !item.contains("request") || !item.contains("key") || !item["key"].is_string() ||
        item["key"].get_ref<const std::string&>().size() > limits::kKeyBytes)
      return problem_response(invalid("/items/" + std::to_string(looked), "has a key and a request"));
    flow::StepAsk ask;
    set_place(ask, std::get<Place>(place));
    ask.key = item["key"].get<std::string>();
    ask.effect = *effect;
    ask.request = item["request"].dump();
    const auto outcome = attempt.replay_step(ask);
    const auto* done = outcome ? std::get_if<flow::Settled>(&*outcome) : nullptr;
    if (outcome && done == nullptr) return say(attempt, *outcome);
    if (done != nullptr) {
      out.begin_object().member("item", looked).member_raw("result", done->result).end_object();
    }
    ++looked;
    if (out.text().size() > kEnough) break;
  }
  return state(std::move(out.end_array().member("looked", looked).member("outputs", attempt.outputs())));
}

// E6: what is to be taken back next, as the step of ~undo that does it: {"state":"hold",…,"compensate","result"} for
// the process that runs it, "settled" or "failed" when it was done meanwhile, "done" when nothing is left.
Response undo(Ports& ports, Request& request) {
  const auto found = find_attempt(ports, request, false);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  flow::Attempt& attempt = *std::get<Attempt>(found);
  if (!attempt.undoing()) return problem_response(problem("forbidden", "the attempt does not take anything back"));
  const auto open = attempt.open_compensations();
  if (open.empty()) return state(begin("done"));
  const kernel::Compensation& next = open.front();
  flow::StepAsk ask;
  ask.branch = std::string(kernel::kUndoBranch);
  ask.name = next.step;
  ask.effect = kernel::Effect::idempotent;
  ask.retries = limits::kNativeRetries;
  ask.tried = true;  // one that fails is noted, and the next runs
  ask.holder = true;
  json::Writer what;
  what.begin_object().member("step", next.seq).member("name", next.step);
  ask.request = what.member_raw("compensate", next.compensate).end_object().take();
  Response answer = asked(attempt, request, [&](const flow::Caller& caller) {
    return attempt.begin_undo(next.seq, next.key_uid, ask, caller);
  });
  if (json::string_member(answer.body, "state") == "hold") {
    answer.body.pop_back();
    answer.body += ",\"compensate\":" + next.compensate + ",\"result\":" + next.result +
                   ",\"outputs\":" + json::quote(attempt.outputs()) + "}";
  }
  return answer;
}

// K2: what an attempt of a dead agent hands in changes nothing, but it is evidence. (A probe's verdict is no outcome.)
void keep_late(Ports& ports, const Request& request) {
  const auto step = request.capture_id("step");
  const auto nonce = json::string_member(request.body, "nonce");
  const Principal& who = request.principal;
  const auto error = json::member(request.body, "error");
  const bool outcome = error || json::member(request.body, "result");
  if (!step || !nonce || !who.run || !outcome || json::member(request.body, "verdict")) return;
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
  return acted(handed.attempt, request, handed.step, handed.nonce, [&](const flow::Caller& caller) {
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
  if (const auto leaks = secret_in_result(ports.secrets, request.body)) {
    return asked(*handed.attempt, request, [&](const flow::Caller& caller) {
      return handed.attempt->fail(handed.step, handed.nonce, {*leaks, false}, caller);
    });
  }
  return acted(handed.attempt, request, handed.step, handed.nonce,
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
  return acted(handed.attempt, request, handed.step, handed.nonce, [&](const flow::Caller& caller) {
    return handed.attempt->fail(handed.step, handed.nonce, report, caller);
  });
}

// The holder of an offered execution is ready [K7]. The answer says that it may go.
Response hold(Ports& ports, Request& request) {
  const auto read =
      read_handed(ports, request,
                  {{"nonce", Kind::string, true}, {"pid", Kind::integer, true}, {"pid_start", Kind::integer, true}});
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& handed = std::get<Handed>(read);
  const ProcessKey holder{static_cast<int>(json::int_member(request.body, "pid").value_or(0)),
                          static_cast<std::uint64_t>(json::int_member(request.body, "pid_start").value_or(0))};
  if (holder.pid <= 1 || holder.start == 0) return problem_response(invalid("/pid", "names no process"));
  return acted(handed.attempt, request, handed.step, handed.nonce,
               [&](const flow::Caller&) { return handed.attempt->hold(handed.step, handed.nonce, holder); });
}

// Open until the holder has handed in, or the step is to be held once more.
Response await(Ports& ports, Request& request) {
  const auto read = read_handed(ports, request, {{"nonce", Kind::string, true}});
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& handed = std::get<Handed>(read);
  return asked(*handed.attempt, request,
               [&](const flow::Caller& caller) { return handed.attempt->await(handed.step, handed.nonce, caller); });
}

}  // namespace

void add_steps(Ports& ports, Router& router, const std::string& base) {
  router.verb("POST", base + "steps", with(ports, begin_step));
  router.verb("POST", base + "steps/settled", with(ports, settled), Lane::shorts);
  router.verb("POST", base + "steps/{step}/hold", with(ports, hold), Lane::acts);
  router.verb("POST", base + "steps/{step}/await", with(ports, await));
  router.verb("POST", base + "steps/{step}/probe", with(ports, probe_said), Lane::acts);
  router.verb("POST", base + "steps/{step}/complete", with(ports, complete), Lane::acts);
  router.verb("POST", base + "steps/{step}/fail", with(ports, fail), Lane::acts);
  router.verb("POST", base + "undo", with(ports, undo));
}

}  // namespace bide::web::attempt_route
