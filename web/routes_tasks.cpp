// /v1/tasks: steps that any worker may do. A worker names the functions that it has, and what it was given by number
// and epoch [K8].
#include <nlohmann/json.hpp>

#include "agent/base/json.h"
#include "agent/base/time.h"
#include "agent/kernel/remotes.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/routes.h"

namespace bide::web {
namespace {

using Json = nlohmann::json;

// The credential stands in it: a worker speaks for its own tasks only.
std::string worker_of(const Request& request) {
  const std::string name = json::string_member(request.body, "worker").value_or("");
  return std::string(kernel::kRemoteOwner) + request.principal.name + (name.empty() ? "" : "/" + name);
}

// 200 with the task; 204 when none came within `Prefer: wait`.
Response claim(Ports& ports, Request& request) {
  if (const auto bad = check_body(request, {{"functions", Kind::any, true}, {"worker", Kind::string}}))
    return problem_response(*bad);
  const Json list = Json::parse(request.body)["functions"];
  if (!list.is_array() || list.empty() || list.size() > limits::kClaimNames)
    return problem_response(misfit("/functions", "is a list of 1 to 100 names"));
  std::vector<std::string> functions;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_string()) return problem_response(misfit("/functions/" + std::to_string(i), "must be a name"));
    functions.push_back(list[i].get<std::string>());
  }
  work::Feed& feed = ports.commands.feed();
  const std::stop_callback ring(request.stop, [&feed] { feed.notify(); });
  const BootMs until = ports.commands.store().system_clock().boot_ms() + request.prefer_wait_ms();
  const auto given = ports.remote_tasks->claim(functions, worker_of(request), until,
                                               [&request] { return request.stop.stop_requested(); });
  if (!given) return json_response(204, "");
  json::Writer out;
  out.begin_object().member("task", given->step.value).member("epoch", given->epoch).member("run", given->run.value);
  out.member("function", given->name).member("idempotency_key", given->key).member("execution", given->execution);
  out.member("lease_ms", limits::kTaskLeaseMs);
  return json_response(200, out.member_raw("request", given->request).end_object().take());
}

std::variant<work::RemoteTasks::Worker, Problem> read_worker(Request& request, std::initializer_list<Member> members) {
  const auto id = path_id(request, "task_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return *bad;
  if (auto bad = check_body(request, members)) return *bad;
  return work::RemoteTasks::Worker{StepId(std::get<std::int64_t>(id)),
                                   json::int_member(request.body, "epoch").value_or(0), worker_of(request)};
}

Response recorded(const work::RemoteTasks::Outcome& outcome) {
  if (const auto* bad = std::get_if<Problem>(&outcome)) return problem_response(*bad);
  const auto& retry_at = std::get<work::RemoteTasks::Recorded>(outcome).retry_at;
  json::Writer out;
  out.begin_object().member("state", retry_at ? "again" : "recorded");
  if (retry_at) out.member("retry_at", format_time(*retry_at));
  return json_response(200, out.end_object().take());
}

Response complete(Ports& ports, Request& request) {
  const auto read = read_worker(
      request, {{"epoch", Kind::integer, true}, {"worker", Kind::string}, {"result"}, {"usage", Kind::object}});
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto result = json::member(request.body, "result");
  if (const auto large = check_size("result", result)) return problem_response(*large);
  auto usage = json::member(request.body, "usage");
  if (usage == "null") usage.reset();
  return recorded(
      ports.remote_tasks->complete(std::get<work::RemoteTasks::Worker>(read), result.value_or("null"), usage));
}

Response fail(Ports& ports, Request& request) {
  const auto read = read_worker(request, {{"epoch", Kind::integer, true},
                                          {"worker", Kind::string},
                                          {"error", Kind::object, true},
                                          {"retryable", Kind::boolean}});
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto error = json::member(request.body, "error");
  if (const auto large = check_size("error", error)) return problem_response(*large);
  if (json::string_member(*error, "code").value_or("").empty())
    return problem_response(misfit("/error/code", "is missing"));
  const bool retryable = json::bool_member(request.body, "retryable").value_or(true);
  return recorded(ports.remote_tasks->fail(std::get<work::RemoteTasks::Worker>(read), *error, retryable));
}

Response heartbeat(Ports& ports, Request& request) {
  const auto read = read_worker(request, {{"epoch", Kind::integer, true}, {"worker", Kind::string}});
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  if (const auto lost = ports.remote_tasks->heartbeat(std::get<work::RemoteTasks::Worker>(read)))
    return problem_response(*lost);
  json::Writer out;
  return json_response(
      200, out.begin_object().member("state", "ok").member("lease_ms", limits::kTaskLeaseMs).end_object().take());
}

// A function that is called at a URL; null: its tasks wait for workers again.
Response set_function(Ports& ports, Request& request) {
  if (const auto bad = check_body(request, {{"function", Kind::string, true}, {"url"}})) return problem_response(*bad);
  kernel::TaskFunction function;
  function.name = json::string_member(request.body, "function").value_or("");
  function.url = json::string_member(request.body, "url").value_or("");
  if (function.name.empty() || function.name.size() > limits::kNameBytes)
    return problem_response(misfit("/function", "has 1 to 128 bytes"));
  if (const auto wrong =
          function.url.empty() ? std::nullopt : work::app_url_error(function.url, allowed_targets(ports)))
    return problem_response(misfit("/url", *wrong));
  ports.remote_tasks->set_function(function, request.principal.name);
  json::Writer out;
  out.begin_object().member("function", function.name).key("url");
  function.url.empty() ? out.null() : out.string(function.url);
  return json_response(200, out.end_object().take());
}

Response list_functions(Ports& ports, Request&) {
  json::Writer out;
  out.begin_object().key("items").begin_array();
  for (const auto& one : ports.commands.store().read([](db::ReadTx& tx) { return kernel::task_functions(tx); }))
    out.begin_object().member("function", one.name).member("url", one.url).end_object();
  return json_response(200, out.end_array().key("next").null().end_object().take());
}

}  // namespace

void add_task_routes(Router& router, Ports& ports) {
  const auto with = [&ports](Response (*handler)(Ports&, Request&)) {
    return [&ports, handler](Request& request) { return handler(ports, request); };
  };
  router.get("/v1/tasks/functions", kRead, with(list_functions));
  router.post("/v1/tasks/functions", kWork, with(set_function));
  router.post("/v1/tasks/claim", kWork, with(claim), Lane::preferred);
  router.post("/v1/tasks/{id}/complete", kWork, with(complete));
  router.post("/v1/tasks/{id}/fail", kWork, with(fail));
  router.post("/v1/tasks/{id}/heartbeat", kWork, with(heartbeat));
}

}  // namespace bide::web
