#include "web/attempt_route.h"

#include <algorithm>

#include "agent/base/hash.h"
#include "agent/base/log.h"
#include "agent/base/text.h"

namespace bide::web::attempt_route {

Problem invalid(std::string pointer, std::string why) { return misfit(std::move(pointer), std::move(why)); }

namespace {

// Of a verb that says that it has read something for this. nullopt: nothing is known against it.
std::optional<Problem> refused_reader(flow::Attempt& attempt, const Request& request) {
  switch (attempt.reader_asks()) {
    case flow::Attempt::Reader::may_ask: return std::nullopt;
    case flow::Attempt::Reader::unknown: return problem("busy", "the attempt's program is being started");
    case flow::Attempt::Reader::too_late: break;
  }
  log::info("attempt.reader_too_late",
            {{"run", attempt.run().id.value}, {"epoch", attempt.fence().epoch}, {"pid", request.peer.pid}});
  return problem("lease_lost", "the program has ended: what was read from it may be cut");
}

}  // namespace

std::variant<Attempt, Problem> find_attempt(Ports& ports, const Request& request, bool by_step) {
  const auto id = path_id(request, "run_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return *bad;
  const Principal& who = request.principal;
  const RunId run(std::get<std::int64_t>(id));
  if (who.run != run) return problem("forbidden", "the token is that of another run");
  if (who.attempt_secret.empty()) return problem("unauthorized", "send the attempt's token, BIDE_ATTEMPT");
  // A step's command may outlive the attempt that began it: its nonce is what counts [K2].
  work::Executor& executor = ports.commands.executor();
  Attempt attempt = who.step != 0 ? executor.attempt(run) : executor.attempt(run, who.epoch);
  if (!attempt && who.step == 0 && ports.remotes != nullptr) {
    auto remote = ports.remotes->attempt(run, who.epoch, who.attempt_secret);
    if (auto* found = std::get_if<Attempt>(&remote)) return std::move(*found);
    const auto* refused = std::get_if<Problem>(&remote);
    if (refused->code != "unauthorized" || ports.remotes->lease_lives(run, who.epoch)) return *refused;
  }
  if (!attempt) return problem("lease_lost", "the attempt is over; another one has the run, or will");
  if (who.step != 0) {
    if (!by_step) return problem("forbidden", "a step's command has no right to the journal");
    if (!attempt->executes(who.step, who.attempt_secret))
      return problem("unauthorized", "the step's token is not valid");
    return attempt;
  }
  if (!same_secret(attempt->secret(), who.attempt_secret))
    return problem("unauthorized", "the attempt's token is not valid");
  if (request.field("bide-read") != nullptr) {
    if (auto refused = refused_reader(*attempt, request)) return std::move(*refused);
  }
  return attempt;
}

std::variant<Place, Problem> read_place(const Request& request) {
  const auto text = [&](std::string_view member) { return json::string_member(request.body, member).value_or(""); };
  Place place{text("branch"), json::int_member(request.body, "seq").value_or(0),
              text("name"),   text("key"),
              text("caller"), text("verb")};
  if (place.branch.size() > limits::kNameBytes) return invalid("/branch", "may have 128 bytes");
  if (place.name.empty() || place.name.size() > limits::kNameBytes) return invalid("/name", "has 1 to 128 bytes");
  if (place.key.size() > limits::kKeyBytes) return invalid("/key", "may have 512 bytes");
  if (place.branch == kernel::kUndoBranch) return invalid("/branch", "is the agent's own");
  return place;
}

json::Writer begin(std::string_view state) {
  json::Writer out;
  out.begin_object().member("state", state);
  return out;
}

Response state(json::Writer&& out) { return json_response(200, out.end_object().take()); }

namespace {

// {"spilled":…}: the output lies in a file below outputs().
bool is_spilled(std::string_view result) { return result.starts_with("{\"spilled\":"); }

// An object that both say and add to: `error` with one more member.
std::string with_member(const std::string& error, std::string_view name, std::string_view value) {
  if (error.empty() || error.back() != '}') return error;
  const std::string member = json::quote(name) + ":" + json::quote(value) + "}";
  std::string whole = error.substr(0, error.size() - 1);
  if (trim(whole) != "{") whole += ",";
  return whole + member;
}

}  // namespace

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
  const auto* final_failure = std::get_if<flow::Failed>(&outcome);
  const bool goes_on = std::holds_alternative<flow::Settled>(outcome) || (final_failure && final_failure->tried);
  if (goes_on && attempt.rehearsal_ends_here()) return closed(attempt.closing());
  if (const auto* settled = std::get_if<flow::Settled>(&outcome)) {
    json::Writer out = begin("settled");
    if (!settled->outcome.empty()) out.member("outcome", settled->outcome);
    if (is_spilled(settled->result)) out.member("outputs", attempt.outputs());
    return state(std::move(out.member_raw("result", settled->result)));
  }
  if (const auto* failed = std::get_if<flow::Failed>(&outcome)) {
    if (failed->tried)
      return state(std::move(begin("failed").member_raw("error", failed->error).member("outputs", attempt.outputs())));
    return closed(attempt.end(with_member(failed->error, "step", failed->name)).why);
  }
  if (const auto* execute = std::get_if<flow::Execute>(&outcome)) {
    json::Writer out = begin(execute->offered ? "hold" : "execute");
    out.member("step", execute->step).member("nonce", execute->nonce);
    out.member("idempotency_key", execute->idempotency_key).member("execution", execute->execution);
    if (execute->offered) {
      out.member("outcome_file", attempt.outcome_file(execute->nonce));
      out.member("output_file", attempt.output_file(execute->nonce));
    }
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

// -- Remote workers.

flow::Caller who_asks(const flow::Attempt& attempt, const Request& request) {
  flow::Caller caller;
  if (attempt.style() != flow::Style::remote) return caller;
  const std::int64_t branches = json::int_member(request.body, "branches").value_or(0);
  caller.branches = static_cast<int>(std::clamp<std::int64_t>(branches, 0, limits::kStepsPerRun));
  caller.poll_until = attempt.poll_end(request.prefer_wait_ms());
  return caller;
}

Response closed_remote(flow::Attempt& attempt) {
  const flow::Closing was = attempt.closing();
  if (was == flow::Closing::shutdown) return hang_up();  // it tries again until the agent is back
  work::conclude(attempt);
  switch (attempt.closing()) {
    case flow::Closing::lease_lost:
      return problem_response(problem("lease_lost", "the attempt is over; another one has the run, or will"));
    case flow::Closing::shutdown: return hang_up();
    case flow::Closing::suspended: return state(begin("suspended"));
    case flow::Closing::finished:
      return state(begin(was == flow::Closing::paused || was == flow::Closing::fault ? "suspended" : "ended"));
    case flow::Closing::open:  // cancelled, or its end is written, and a step executes still
    case flow::Closing::ending:
    case flow::Closing::cancelled:
    case flow::Closing::fault:
    case flow::Closing::paused: break;
  }
  return state(begin("ending"));
}

Response say_remote(flow::Attempt& attempt, const flow::Outcome& outcome) {
  // The last step that was let finish: nobody may come again to end the run.
  const bool settled = std::holds_alternative<flow::Settled>(outcome) || std::holds_alternative<flow::Failed>(outcome);
  if (settled && attempt.closing() == flow::Closing::ending) work::conclude(attempt);
  if (const auto* failed = std::get_if<flow::Failed>(&outcome))
    return state(std::move(begin("failed").member_raw("error", failed->error)));
  if (const auto* waiting = std::get_if<flow::Waiting>(&outcome)) {
    json::Writer out = begin("waiting");
    if (waiting->wait.valid()) out.member("wait", waiting->wait.value);
    if (waiting->until) out.member("until", format_time(*waiting->until));
    return state(std::move(out));
  }
  if (std::holds_alternative<flow::Closed>(outcome)) return closed_remote(attempt);
  return say(attempt, outcome);
}

}  // namespace bide::web::attempt_route
