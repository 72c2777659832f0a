// What the routes below /v1/runs/{id}/attempt/ have in common: whose attempt it is, and how its outcomes are said.
// Used by attempt_route.cpp and routes_attempt*.cpp only. Any thread; an attempt that this process does not drive is
// the Problem lease_lost, and a request that must not return stays open [V1].
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "agent/base/json.h"
#include "agent/flow/attempt.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/router.h"

namespace bide::web::attempt_route {

using Attempt = std::shared_ptr<flow::Attempt>;

[[nodiscard]] Problem invalid(std::string pointer, std::string why);

// `by_step`: a step's command may ask for this too, under its nonce.
[[nodiscard]] std::variant<Attempt, Problem> find_attempt(Ports& ports, const Request& request, bool by_step);

// Where an operation stands in the journal, and which verb asks [V3]: members that all of them have.
struct Place {
  std::string branch;
  std::int64_t seq = 0;  // remote workers [J5]
  std::string name;
  std::string key;
  std::string caller;
  std::string verb;
};
[[nodiscard]] std::variant<Place, Problem> read_place(const Request& request);
template <class Ask>
void set_place(Ask& ask, const Place& place) {
  ask.branch = place.branch;
  ask.seq = place.seq;
  ask.name = place.name;
  ask.key = place.key;
  ask.caller = place.caller;
  ask.verb = place.verb;
}

// -- Answers.
[[nodiscard]] json::Writer begin(std::string_view state);
[[nodiscard]] Response state(json::Writer&& out);
[[nodiscard]] Response closed(flow::Closing why);
[[nodiscard]] Response say(flow::Attempt& attempt, const flow::Outcome& outcome);
// To a remote worker: it is always answered. {"state": settled | failed | execute | probe | waiting | suspended | ended
// | ending}: suspended: stop here, it will be called again; ended: the run is over, or will be without it; ending:
// begin nothing more, and hand in what executes.
[[nodiscard]] Response say_remote(flow::Attempt& attempt, const flow::Outcome& outcome);
[[nodiscard]] Response closed_remote(flow::Attempt& attempt);
// Until when a remote worker is kept waiting, and what it says of its branches.
[[nodiscard]] flow::Caller who_asks(const flow::Attempt& attempt, const Request& request);

// Calls `ask` with who asks; a peer that hangs up meanwhile rings the attempt. (When the agent closes, the executor
// closes the attempt before the server is stopped, and that ends the call.)
template <class Ask>
Response asked(flow::Attempt& attempt, Request& request, Ask ask) {
  const std::stop_callback ring(request.stop, [&attempt] { attempt.ring(); });
  flow::Caller caller = who_asks(attempt, request);
  if (request.peer.unix_socket) caller.process = {static_cast<int>(request.peer.pid), request.peer.pid_start};
  caller.gone = [&request] { return request.peer_gone(); };
  const flow::Outcome outcome = ask(caller);
  return attempt.style() == flow::Style::remote ? say_remote(attempt, outcome) : say(attempt, outcome);
}

// The same for one who holds a step that others may wait for: if what comes of it takes time, it is waited for among
// those that wait.
template <class Ask>
Response acted(const Attempt& attempt, Request& request, std::int64_t step, const std::string& nonce, Ask ask) {
  if (attempt->style() == flow::Style::remote) return asked(*attempt, request, ask);
  flow::Caller caller;
  if (request.peer.unix_socket) caller.process = {static_cast<int>(request.peer.pid), request.peer.pid_start};
  caller.must_not_wait = true;
  const flow::Outcome outcome = ask(caller);
  if (!std::holds_alternative<flow::Later>(outcome)) return say(*attempt, outcome);
  Response response;
  response.rest = [attempt, step, nonce](Request& again) {
    return asked(*attempt, again, [&](const flow::Caller& who) { return attempt->await(step, nonce, who); });
  };
  return response;
}

// -- Routes, by resource.
void add_steps(Ports& ports, Router& router, const std::string& base);
void add_waits(Ports& ports, Router& router, const std::string& base);
void add_values(Ports& ports, Router& router, const std::string& base);  // values, state, messages, children
void add_remote(Ports& ports, Router& router, const std::string& base);  // tasks, heartbeat, finish, release
void add_ends(Ports& ports, Router& router, const std::string& base);    // result, progress, input, the run's end

// A handler that knows the ports.
[[nodiscard]] inline Handler with(Ports& ports, Response (*handler)(Ports&, Request&)) {
  return [&ports, handler](Request& request) { return handler(ports, request); };
}

}  // namespace bide::web::attempt_route
