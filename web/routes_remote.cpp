// /v1/workflows: what an app drives itself. /v1/attempts: its workers come for work.
#include <nlohmann/json.hpp>

#include "agent/base/json.h"
#include "agent/base/time.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/routes.h"

namespace bide::web {
namespace {

using Json = nlohmann::json;

bool is_name(const std::string& text) { return !text.empty() && text.size() <= limits::kNameBytes; }

// A list of names; nullopt: it is none.
std::optional<std::vector<std::string>> names_of(const Json& list) {
  if (!list.is_array() || list.size() > limits::kClaimNames) return std::nullopt;
  std::vector<std::string> names;
  for (const Json& one : list) {
    if (!one.is_string() || !is_name(one.get_ref<const std::string&>())) return std::nullopt;
    names.push_back(one.get<std::string>());
  }
  return names;
}

std::string document_of(const kernel::RemoteVersion& version) {
  json::Writer out;
  out.begin_object().member("name", version.name).member("version", version.version).member("kind", "remote");
  out.key("accepts").begin_array();
  for (const std::string& older : version.accepts) out.string(older);
  out.end_array().key("url");
  version.url ? out.string(*version.url) : out.null();
  return out.member("max_running", version.max_running).end_object().take();
}

// Registers a version, or changes where its runs are called; the same again changes nothing.
Response register_workflow(Ports& ports, Request& request) {
  if (const auto bad = check_body(request, {{"name", Kind::string, true},
                                            {"version", Kind::string, true},
                                            {"accepts"},
                                            {"url", Kind::string},
                                            {"max_running", Kind::integer},
                                            {"description", Kind::string}})) {
    return problem_response(*bad);
  }
  const Json body = Json::parse(request.body);
  kernel::NewRemote remote;
  remote.name = body["name"].get<std::string>();
  remote.version = body["version"].get<std::string>();
  if (!is_name(remote.name)) return problem_response(misfit("/name", "has 1 to 128 bytes"));
  if (!is_name(remote.version)) return problem_response(misfit("/version", "has 1 to 128 bytes"));
  if (body.contains("accepts")) {
    auto names = names_of(body["accepts"]);
    if (!names) return problem_response(misfit("/accepts", "must be a list of versions"));
    remote.accepts = std::move(*names);
  }
  remote.url = json::string_member(request.body, "url");
  if (const auto wrong = remote.url ? work::app_url_error(*remote.url, allowed_targets(ports)) : std::nullopt)
    return problem_response(misfit("/url", *wrong));
  const std::int64_t most = json::int_member(request.body, "max_running").value_or(0);
  if (most < 0 || most > limits::kStepsPerRun)
    return problem_response(misfit("/max_running", "is 0, no limit, or more"));
  remote.max_running = static_cast<int>(most);
  remote.description = json::string_member(request.body, "description").value_or("");
  const auto made = ports.remotes->add(remote);
  if (const auto* bad = std::get_if<Problem>(&made)) return problem_response(*bad);
  return json_response(200, document_of(std::get<kernel::RemoteVersion>(made)));
}

std::variant<work::Remotes::Ask, Problem> read_ask(Request& request) {
  if (auto bad =
          check_body(request, {{"workflows", Kind::any, true}, {"worker", Kind::string}, {"run", Kind::integer}})) {
    return *bad;
  }
  const Json body = Json::parse(request.body);
  const Json& list = body["workflows"];
  if (!list.is_array() || list.empty() || list.size() > limits::kClaimNames)
    return misfit("/workflows", "is a list of 1 to 100 names, or {\"name\",\"version\"}");
  work::Remotes::Ask ask;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string pointer = "/workflows/" + std::to_string(i);
    work::Remotes::Ask::Workflow wanted;
    if (list[i].is_string()) {
      wanted.name = list[i].get<std::string>();
    } else if (list[i].is_object()) {
      wanted.name = json::string_member(list[i].dump(), "name").value_or("");
      wanted.version = json::string_member(list[i].dump(), "version");
    }
    if (!is_name(wanted.name)) return misfit(pointer, "is a workflow's name, or {\"name\",\"version\"}");
    ask.workflows.push_back(std::move(wanted));
  }
  const std::string worker = json::string_member(request.body, "worker").value_or("");
  if (worker.size() > limits::kNameBytes) return misfit("/worker", "may have 128 bytes");
  ask.worker = request.principal.name + (worker.empty() ? "" : "/" + worker);
  if (const auto run = json::int_member(request.body, "run")) ask.run = RunId(*run);
  return ask;
}

// 200 with the run and the attempt's token; 204 when nothing came within `Prefer: wait`.
Response claim(Ports& ports, Request& request) {
  const auto read = read_ask(request);
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  work::Feed& feed = ports.commands.feed();
  const std::stop_callback ring(request.stop, [&feed] { feed.notify(); });
  const BootMs until = ports.commands.store().system_clock().boot_ms() + request.prefer_wait_ms();
  const auto outcome = ports.remotes->claim(std::get<work::Remotes::Ask>(read), until,
                                            [&request] { return request.stop.stop_requested(); });
  if (const auto* bad = std::get_if<Problem>(&outcome)) return problem_response(*bad);
  const auto* given = std::get_if<work::Remotes::Given>(&outcome);
  if (given == nullptr) return json_response(204, "");
  const kernel::RunRow& run = given->attempt->run();
  json::Writer out;
  out.begin_object().member("run", run.id.value).member("epoch", given->attempt->fence().epoch);
  out.member("token", given->token).member("workflow", run.workflow_name).member("version", given->version);
  out.member("mission", run.mission).member("lease_ms", ports.remotes->lease());
  out.member("attempt", "/v1/runs/" + std::to_string(run.id.value) + "/attempt/");
  return json_response(200, out.member_raw("input", run.input).end_object().take());
}

}  // namespace

void add_remote_routes(Router& router, Ports& ports) {
  const auto with = [&ports](Response (*handler)(Ports&, Request&)) {
    return [&ports, handler](Request& request) { return handler(ports, request); };
  };
  router.post("/v1/workflows", kWork, with(register_workflow));
  router.post("/v1/attempts", kWork, with(claim), Lane::preferred);
}

}  // namespace bide::web
