#include "web/server.h"

#include <atomic>
#include <chrono>
#include <optional>

#include "agent/base/errors.h"
#include "agent/base/log.h"
#include "agent/base/thread_name.h"
#include "web/problem.h"
#include "web/reactor.h"
#include "web/task_queue.h"

namespace bide::web {
namespace {

constexpr std::chrono::seconds kThreadLinger{10};

const char* scope_name(Scope scope) {
  switch (scope) {
    case kNoScope: return "none";
    case kRead: return "read";
    case kStart: return "start";
    case kApprove: return "approve";
    case kWork: return "work";
    case kAdmin: return "admin";
    case kAttempt: return "attempt";
  }
  return "none";
}

Response forbidden(Scope scope) {
  return problem_response(problem("forbidden", "this needs the scope " + std::string(scope_name(scope))));
}

bool allows(const Route& route, const Principal& who) {
  return who.may(route.scope) || (route.by_step && who.is_step());
}

Request take_request(Connection& connection) {
  Request request;
  request.method = connection.head.method == "HEAD" ? "GET" : connection.head.method;
  request.path = std::move(connection.head.path);
  request.captures = std::move(connection.matched.captures);
  request.query = parse_query(connection.head.query).value_or(std::vector<std::pair<std::string, std::string>>{});
  request.fields = std::move(connection.head.fields);
  request.body = std::move(connection.body);
  request.peer = connection.peer;
  request.principal = connection.principal;  // a stream's is looked at again later
  request.stop = connection.stop.get_token();
  request.hung_up = &connection.hung_up;
  return request;
}

// Faults end here; of what they say nothing goes to the client.
Response call(const Handler& handler, Request& request) {
  const std::string what = request.method + " " + request.path;
  try {
    return handler(request);
  } catch (const StorageFull&) {
    return problem_response(problem("storage_full", "the disk is full: nothing was changed", "bide doctor"));
  } catch (const StorageBusy&) {
    return problem_response(problem("storage_busy", "another program holds the file's write lock", "bide doctor"));
  } catch (const StorageFault& fault) {
    // Its outcome is unknown and must not be told as either [C4]: the client finds the connection closed.
    log::error("http.storage_fault", {{"request", what}, {"what", fault.what()}});
    return hang_up();
  } catch (const std::exception& fault) {
    log::error("http.fault", {{"request", what}, {"what", fault.what()}});
  } catch (...) {
    log::error("http.fault", {{"request", what}, {"what", "something that is no exception"}});
  }
  return problem_response(problem("internal", "a fault of the agent; its log says more", "bide doctor"));
}

}  // namespace

class Server::Impl final : public Desk {
 public:
  Impl(const Router& router, const Auth& auth, Clock& clock, ServerOptions options)
      : router_(router),
        auth_(auth),
        clock_(clock),
        options_(std::move(options)),
        shorts_(options_.request_threads, options_.queued_requests, kThreadLinger),
        waits_(options_.wait_threads, 0, kThreadLinger),
        acts_(options_.act_threads, options_.queued_requests, kThreadLinger),
        polls_(options_.poll_threads, 0, kThreadLinger),
        health_(options_.health_threads, 16, kThreadLinger) {}

  void listen(Listener listener) { listeners_.push_back(std::move(listener)); }

  void start() {
    const ReactorBounds bounds{options_.head_ms,     options_.body_ms,        options_.write_ms,
                               options_.idle_ms,     options_.linger_ms,      options_.heartbeat_ms,
                               options_.connections, options_.tcp_connections};
    reactor_ = std::make_unique<Reactor>(*this, clock_, bounds, std::move(listeners_), options_.hosts);
    thread_ = std::thread([this] {
      name_thread("bide-reactor");
      reactor_->run();
    });
  }

  void stop() {
    if (!thread_.joinable()) return;
    closing_.store(true);
    reactor_->stop();
    thread_.join();  // every connection has ended by then, so no task is left
    shorts_.close();
    acts_.close();
    waits_.close();
    polls_.close();
    health_.close();
  }

  void ring_streams() { reactor_->ring_streams(); }
  void recheck() { reactor_->recheck(); }

  [[nodiscard]] ServerCounts counts() const {
    return {reactor_ ? reactor_->connections() : 0, shorts_.busy() + acts_.busy(), waits_.busy() + polls_.busy()};
  }

 private:
  std::optional<Response> receive(Connection& connection) override {
    const Head& head = connection.head;
    if (head.method == "OPTIONS") return options_answer(head);
    auto found = router_.match(head.method, head.path);
    if (std::holds_alternative<NoSuchPath>(found)) {
      return problem_response(problem("not_found", "there is nothing at this path"));
    }
    if (const auto* other = std::get_if<NoSuchMethod>(&found)) {
      return problem_response(problem("method_not_allowed", "this path has " + other->allow))
          .with("Allow", other->allow);
    }
    connection.matched = std::get<Matched>(std::move(found));
    const Route& route = *connection.matched.route;
    if (head.content_length > route.body_bytes) {
      return problem_response(
          problem("too_large", "a body may have " + std::to_string(route.body_bytes) + " bytes here"));
    }
    if (!parse_query(head.query)) return problem_response(problem("bad_request", "the query does not decode to UTF-8"));
    if (route.open) return std::nullopt;
    auto admitted = auth_.admit(head, connection.peer);
    if (const auto* refused = std::get_if<Problem>(&admitted)) return problem_response(*refused);
    connection.principal = std::get<Principal>(std::move(admitted));
    if (!allows(route, connection.principal)) return forbidden(route.scope);
    return std::nullopt;
  }

  Response options_answer(const Head& head) {
    const std::string allow = head.path == "*" ? "GET, HEAD, OPTIONS, POST, DELETE" : router_.allow(head.path);
    if (allow.empty()) return problem_response(problem("not_found", "there is nothing at this path"));
    Response answer;
    answer.status = 204;
    answer.with("Allow", allow);
    return answer;
  }

  bool hand_over(Connection& connection) override {
    TaskQueue& queue = queue_for(connection);
    auto task = [this, &connection] { serve(connection); };
    // A read computes; a write waits for its COMMIT, and has a thread for that.
    const bool reads = connection.head.method == "GET" || connection.head.method == "HEAD";
    return &queue == &shorts_ && reads ? queue.try_run_quick(std::move(task), clock_.boot_ms())
                                       : queue.try_run(std::move(task));
  }

  bool look() override { return shorts_.look(clock_.boot_ms()); }

  TaskQueue& queue_for(const Connection& connection) {
    switch (connection.matched.route->lane) {
      case Lane::shorts: return shorts_;
      case Lane::acts: return acts_;
      case Lane::waits: return waits_;
      case Lane::health: return health_;
      case Lane::preferred: break;
    }
    const std::string* prefer = connection.head.field("prefer");
    return prefer != nullptr && prefer_wait_ms(*prefer) > 0 ? polls_ : shorts_;
  }

  Response refusal(int, const std::string& code, const std::string& detail) override {
    return problem_response(problem(code, detail));
  }

  bool still_admitted(const Connection& connection) override {
    return connection.matched.route->open || auth_.holds(connection.principal);
  }

  // On a pool thread.
  void serve(Connection& connection) {
    auto request = std::make_shared<Request>(take_request(connection));
    Response response = answer(*connection.matched.route, *request);
    if (!response.rest) {
      finish(connection, std::move(response));
      return;
    }
    const Handler rest = std::move(response.rest);
    const bool taken =
        waits_.take_over([this, &connection, request, rest] { finish(connection, call(rest, *request)); });
    if (!taken) finish(connection, problem_response(problem("busy", "no thread is left for those that wait")));
  }

  void finish(Connection& connection, Response response) {
    const bool head_only = connection.head.method == "HEAD";
    connection.after = response.after;
    if (head_only && response.after == Response::After::stream) connection.after = Response::After::answer;
    if (response.after == Response::After::answer || response.after == Response::After::stream) {
      const bool keep = connection.head.keep_alive && !closing_.load();
      try {
        write_answer(connection, std::move(response), clock_.wall_ms(), head_only, keep);
        [[maybe_unused]] const bool all = flush(connection);  // the reactor sends the rest
      } catch (const std::exception& fault) {
        log::error("http.fault", {{"what", fault.what()}});
        connection.after = Response::After::hang_up;
      }
    }
    reactor_->give_back(connection);
  }

  Response answer(const Route& route, Request& request) {
    if (!route.open) {
      try {
        if (const auto refused = auth_.narrow(request.principal, request.peer, route.scope))
          return problem_response(*refused);
      } catch (const std::exception& fault) {  // not known who asks: nobody [A7]
        log::warn("http.cannot_identify", {{"what", fault.what()}});
        return problem_response(problem("too_many_connections", "the agent has no descriptors left to see who asks"));
      }
      if (!allows(route, request.principal)) return forbidden(route.scope);
    }
    return call(route.handler, request);
  }

  const Router& router_;
  const Auth& auth_;
  Clock& clock_;
  const ServerOptions options_;
  std::atomic<bool> closing_{false};
  std::vector<Listener> listeners_;
  std::unique_ptr<Reactor> reactor_;
  TaskQueue shorts_;
  TaskQueue waits_;
  TaskQueue acts_;
  TaskQueue polls_;
  TaskQueue health_;
  std::thread thread_;
};

Server::Server(const Router& router, const Auth& auth, Clock& clock, ServerOptions options)
    : impl_(std::make_unique<Impl>(router, auth, clock, std::move(options))) {}

Server::~Server() { stop(); }

void Server::listen(Listener listener) { impl_->listen(std::move(listener)); }
void Server::start() { impl_->start(); }
void Server::stop() { impl_->stop(); }
void Server::ring_streams() { impl_->ring_streams(); }
void Server::recheck() { impl_->recheck(); }
ServerCounts Server::counts() const { return impl_->counts(); }

}  // namespace bide::web
