// /v1/webhooks: endpoints that hear of events. A secret is shown once, in the answer that made it, and stored in no
// other [D4].
#include <nlohmann/json.hpp>

#include "agent/base/json.h"
#include "agent/base/time.h"
#include "agent/work/delivery_commands.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/routes.h"

namespace bide::web {
namespace {

using Json = nlohmann::json;

std::string document_of(const kernel::WebhookRow& row) {
  json::Writer out;
  out.begin_object().member("id", row.id.value).member("url", row.url);
  for (const char* name : {"events", "workflow", "mission"})
    out.member_raw(name, json::member(row.filter, name).value_or("null"));
  out.member("format", row.format).member("decision_links", row.decision_links);
  out.member_raw("allow", row.allow).member("enabled", !row.disabled_at).key("disabled_at");
  row.disabled_at ? out.string(format_time(*row.disabled_at)) : out.null();
  out.key("disabled_why");
  row.disabled_why ? out.string(*row.disabled_why) : out.null();
  out.member("created_by", row.created_by).member("created_at", format_time(row.created_at));
  return out.end_object().take();
}

Problem invalid(std::vector<PointerError> errors) {
  Problem bad = problem("invalid", errors.front().pointer + " " + errors.front().detail);
  bad.errors = std::move(errors);
  return bad;
}

struct Wanted {
  std::optional<std::string> url;
  std::optional<std::string> secret;
  std::optional<std::string> filter;  // if any of its members was given
  std::optional<std::string> allow;
  std::optional<bool> enabled;
  std::optional<std::string> format;
  std::optional<bool> decision_links;
};

std::variant<Wanted, Problem> read_wanted(Request& request, const std::string& old_url, const std::string& old_filter,
                                          const std::string& old_allow) {
  if (auto bad = check_body(request, {{"url", Kind::string, old_url.empty()},
                                      {"secret", Kind::string},
                                      {"events"},
                                      {"workflow"},
                                      {"mission"},
                                      {"allow"},
                                      {"enabled", Kind::boolean},
                                      {"format", Kind::string},
                                      {"decision_links", Kind::boolean}})) {
    return *bad;
  }
  Wanted wanted;
  wanted.url = json::string_member(request.body, "url");
  wanted.secret = json::string_member(request.body, "secret");
  wanted.enabled = json::bool_member(request.body, "enabled");
  wanted.decision_links = json::bool_member(request.body, "decision_links");
  wanted.format = json::string_member(request.body, "format");
  if (wanted.format && *wanted.format != "standard" && *wanted.format != "cloudevents")
    return invalid({{"/format", "must be standard or cloudevents"}});
  Json filter = Json::parse(old_filter);
  for (const char* name : {"events", "workflow", "mission"}) {
    const auto given = json::member(request.body, name);
    if (!given) continue;
    if (*given == "null") {
      filter.erase(name);
    } else {
      filter[name] = Json::parse(*given);
    }
    wanted.filter = "";
  }
  if (wanted.filter) wanted.filter = filter.dump();
  wanted.allow = json::member(request.body, "allow");
  const Json list = Json::parse(wanted.allow.value_or(old_allow));
  std::vector<std::string> rules;
  if (!list.is_array()) return invalid({{"/allow", "must be a list of addresses"}});
  for (const Json& rule : list) rules.push_back(rule.is_string() ? rule.get<std::string>() : "");
  const std::optional<std::string> url =
      wanted.url || !old_url.empty() ? std::optional(wanted.url.value_or(old_url)) : std::nullopt;
  auto errors = work::webhook_errors(url, wanted.secret, rules);
  if (wanted.filter) {
    for (auto& error : kernel::filter_errors(*wanted.filter)) errors.push_back(std::move(error));
  }
  if (!errors.empty()) return invalid(std::move(errors));
  return wanted;
}

// The secret stands in this answer alone.
Response shown(const std::variant<work::DeliveryCommands::Shown, Problem>& outcome, int status) {
  if (const auto* bad = std::get_if<Problem>(&outcome)) return problem_response(*bad);
  const auto& made = std::get<work::DeliveryCommands::Shown>(outcome);
  std::string body = made.body;
  if (!made.secret.empty()) {
    body.pop_back();
    body += ",\"secret\":" + json::quote(made.secret) + "}";
  }
  Response response = json_response(status, std::move(body));
  if (made.replayed) response.with("Idempotent-Replayed", "true");
  if (status == 201 && made.id.valid()) response.with("Location", "/v1/webhooks/" + std::to_string(made.id.value));
  return response;
}

Response add(Ports& ports, Request& request) {
  const auto read = read_wanted(request, "", "{}", "[]");
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& wanted = std::get<Wanted>(read);
  kernel::NewWebhook made;
  made.url = wanted.url.value_or("");
  made.filter = wanted.filter.value_or("{}");
  made.secret = wanted.secret.value_or("");
  made.allow = wanted.allow.value_or("[]");
  made.format = wanted.format.value_or("standard");
  made.decision_links = wanted.decision_links.value_or(false);
  const auto once = command_key(request);
  if (const auto* bad = std::get_if<Problem>(&once)) return problem_response(*bad);
  return shown(ports.deliveries->add(made, who(request), std::get<work::Commands::Once>(once), document_of), 201);
}

Response list(Ports& ports, Request& request) {
  const auto page = read_page(request);
  if (const auto* bad = std::get_if<Problem>(&page)) return problem_response(*bad);
  const auto& wanted = std::get<Page>(page);
  const auto rows = ports.commands.store().read(
      [&](db::ReadTx& tx) { return kernel::list_webhooks(tx, WebhookId(wanted.after), wanted.limit); });
  json::Writer out;
  out.begin_object().key("items").begin_array();
  for (const auto& row : rows) out.raw(document_of(row));
  out.end_array().key("next");
  static_cast<int>(rows.size()) == wanted.limit ? out.string(std::to_string(rows.back().id.value)) : out.null();
  return json_response(200, out.end_object().take());
}

// The row of {id}, or the refusal.
std::variant<kernel::WebhookRow, Problem> find(Ports& ports, const Request& request) {
  const auto id = path_id(request, "webhook_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return *bad;
  const auto row = ports.commands.store().read(
      [&](db::ReadTx& tx) { return kernel::read_webhook(tx, WebhookId(std::get<std::int64_t>(id))); });
  if (!row) return problem("webhook_not_found", "there is no such webhook", "bide webhook list");
  return *row;
}

Response one(Ports& ports, Request& request) {
  const auto found = find(ports, request);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  return json_response(200, document_of(std::get<kernel::WebhookRow>(found)));
}

Response change(Ports& ports, Request& request) {
  const auto found = find(ports, request);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  const auto& row = std::get<kernel::WebhookRow>(found);
  const auto read = read_wanted(request, row.url, row.filter, row.allow);
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& wanted = std::get<Wanted>(read);
  if (wanted.secret) return problem_response(invalid({{"/secret", "is changed by /rotate"}}));
  const auto outcome = ports.deliveries->change(
      row.id, {wanted.url, wanted.filter, wanted.allow, wanted.enabled, wanted.format, wanted.decision_links});
  if (const auto* bad = std::get_if<Problem>(&outcome)) return problem_response(*bad);
  return json_response(200, document_of(std::get<kernel::WebhookAdded>(outcome).row));
}

Response rotate(Ports& ports, Request& request) {
  const auto found = find(ports, request);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {{"secret", Kind::string}})) return problem_response(*bad);
  const auto secret = json::string_member(request.body, "secret");
  auto errors = work::webhook_errors(std::nullopt, secret, {});
  if (!errors.empty()) return problem_response(invalid(std::move(errors)));
  const auto once = command_key(request);
  if (const auto* bad = std::get_if<Problem>(&once)) return problem_response(*bad);
  return shown(ports.deliveries->rotate(std::get<kernel::WebhookRow>(found).id, secret.value_or(""),
                                        std::get<work::Commands::Once>(once), document_of),
               200);
}

Response test(Ports& ports, Request& request) {
  const auto found = find(ports, request);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  if (const auto bad = check_body(request, {})) return problem_response(*bad);
  const auto outcome = ports.deliveries->test(std::get<kernel::WebhookRow>(found).id, who(request));
  if (const auto* bad = std::get_if<Problem>(&outcome)) return problem_response(*bad);
  return json_response(
      202, json::Writer().begin_object().member("delivery", std::get<DeliveryId>(outcome).value).end_object().take());
}

Response remove(Ports& ports, Request& request) {
  const auto found = find(ports, request);
  if (const auto* bad = std::get_if<Problem>(&found)) return problem_response(*bad);
  const auto outcome = ports.deliveries->remove(std::get<kernel::WebhookRow>(found).id, who(request));
  if (const auto* bad = std::get_if<Problem>(&outcome)) return problem_response(*bad);
  return json_response(200,
                       json::Writer().begin_object().member("dropped", std::get<int>(outcome)).end_object().take());
}

}  // namespace

void add_webhook_routes(Router& router, Ports& ports) {
  const auto with = [&ports](Response (*handler)(Ports&, Request&)) {
    return [&ports, handler](Request& request) { return handler(ports, request); };
  };
  router.get("/v1/webhooks", kAdmin, with(list));
  router.post("/v1/webhooks", kAdmin, with(add));
  router.get("/v1/webhooks/{id}", kAdmin, with(one));
  router.post("/v1/webhooks/{id}", kAdmin, with(change));
  router.post("/v1/webhooks/{id}/rotate", kAdmin, with(rotate));
  router.post("/v1/webhooks/{id}/test", kAdmin, with(test));
  router.del("/v1/webhooks/{id}", kAdmin, with(remove));
}

}  // namespace bide::web
