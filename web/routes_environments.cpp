// /v1/environments: folders that runs share [W8].
#include "agent/base/json.h"
#include "agent/base/time.h"
#include "agent/work/environments.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/routes.h"

namespace bide::web {
namespace {

void write_text(json::Writer& out, std::string_view name, const std::optional<std::string>& text) {
  out.key(name);
  text ? out.string(*text) : out.null();
}

void write_environment(json::Writer& out, const kernel::EnvironmentRow& row) {
  out.begin_object().member("name", row.name).member("status", row.status).member("path", row.path);
  write_text(out, "seed", row.seed);
  out.key("delete_after");
  row.delete_after ? out.string(format_duration(*row.delete_after)) : out.null();
  out.key("run");
  row.owner.valid() ? out.number(row.owner.value) : out.null();
  write_text(out, "last_error", row.last_error);
  out.member("last_used_at", format_time(row.last_used_at)).member("created_at", format_time(row.created_at));
  out.end_object();
}

// The cursor is a name, not a number.
Response list(Ports& ports, Request& request) {
  const std::string* cursor = request.query_value("cursor");
  const std::string after = cursor == nullptr ? "" : *cursor;
  const auto rows = ports.commands.store().read(
      [&](db::ReadTx& tx) { return kernel::list_environments(tx, after, limits::kPageMax); });
  json::Writer out;
  out.begin_object().key("items").begin_array();
  for (const auto& row : rows) write_environment(out, row);
  out.end_array().key("next");
  rows.size() == static_cast<std::size_t>(limits::kPageMax) ? out.string(rows.back().name) : out.null();
  return json_response(200, out.end_object().take());
}

Response one(Ports& ports, Request& request) {
  const std::string& name = request.capture("name");
  const auto row = ports.commands.store().read([&](db::ReadTx& tx) { return kernel::read_environment(tx, name); });
  if (!row) {
    return problem_response(
        problem("environment_not_found", "There is no environment " + name + ".", "bide environment list"));
  }
  json::Writer out;
  write_environment(out, *row);
  return json_response(200, out.take());
}

// {"name","seed"?,"delete_after"?,"run"?}
Response add(Ports& ports, Request& request) {
  if (const auto bad = check_body(request, {{"name", Kind::string, true},
                                            {"seed", Kind::string},
                                            {"delete_after", Kind::string},
                                            {"run", Kind::integer}})) {
    return problem_response(*bad);
  }
  work::EnvironmentAsk ask;
  ask.name = json::string_member(request.body, "name").value_or("");
  ask.seed = json::string_member(request.body, "seed");
  if (const auto text = json::string_member(request.body, "delete_after")) {
    ask.delete_after = parse_duration(*text);
    if (!ask.delete_after) return problem_response(problem("invalid", "delete_after is a length of time, such as 30d"));
  }
  ask.owner = RunId(json::int_member(request.body, "run").value_or(0));
  const auto outcome = ports.environments->add(ask, who(request));
  if (const auto* bad = std::get_if<Problem>(&outcome)) return problem_response(*bad);
  json::Writer out;
  write_environment(out, std::get<kernel::EnvironmentRow>(outcome));
  Response response = json_response(201, out.take());
  response.with("Location", "/v1/environments/" + ask.name);
  return response;
}

Response remove(Ports& ports, Request& request) {
  const std::string& name = request.capture("name");
  if (const auto refused = ports.environments->remove(name, who(request))) return problem_response(*refused);
  return json_response(
      202, json::Writer().begin_object().member("name", name).member("status", "deleting").end_object().take());
}

}  // namespace

void add_environment_routes(Router& router, Ports& ports) {
  const auto with = [&ports](Response (*handler)(Ports&, Request&)) {
    return [&ports, handler](Request& request) { return handler(ports, request); };
  };
  router.get("/v1/environments", kRead, with(list));
  router.post("/v1/environments", kAdmin, with(add));
  router.get("/v1/environments/{name}", kRead, with(one));
  router.del("/v1/environments/{name}", kAdmin, with(remove));
}

}  // namespace bide::web
