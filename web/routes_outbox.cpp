// /v1/outbox: what has not gone out yet, and what became of it; operators try again or drop, by row or destination.
#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/base/time.h"
#include "agent/work/delivery_commands.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/routes.h"

namespace bide::web {
namespace {

using kernel::OutboxRow;

void write_time(json::Writer& out, std::string_view name, const std::optional<TimeMs>& at) {
  out.key(name);
  at ? out.string(format_time(*at)) : out.null();
}

// The whole URL and the body may carry secrets: they are shown to those who may change them.
void write_delivery(json::Writer& out, const OutboxRow& row, bool admin, bool body) {
  out.begin_object().member("id", row.id.value).member("kind", kernel::to_text(row.kind));
  out.member("status", kernel::to_text(kernel::status_of(row))).member("to", row.lane).key("run");
  row.run.valid() ? out.number(row.run.value) : out.null();
  out.key("webhook");
  row.webhook.valid() ? out.number(row.webhook.value) : out.null();
  out.member("key", row.idem_key).member("tries", row.tries);
  write_time(out, "next_try_at", row.parked_at ? std::nullopt : std::optional(row.next_try_at));
  write_time(out, "first_failed_at", row.first_failed_at);
  out.key("last_error");
  row.last_error ? out.string(*row.last_error) : out.null();
  write_time(out, "parked_at", row.parked_at);
  write_time(out, "created_at", row.created_at);
  if (admin) out.member("url", row.destination);
  if (admin && body) {
    out.key("body");
    json::check(row.request) ? out.string(row.request) : out.raw(row.request);
  }
  out.end_object();
}

std::variant<kernel::DeliveryFilter, Problem> read_filter(const Request& request) {
  const auto page = read_page(request);
  if (const auto* bad = std::get_if<Problem>(&page)) return *bad;
  kernel::DeliveryFilter filter;
  filter.limit = std::get<Page>(page).limit;
  filter.after = DeliveryId(std::get<Page>(page).after);
  if (const std::string* status = request.query_value("status")) {
    for (const auto one :
         {kernel::DeliveryStatus::due, kernel::DeliveryStatus::retrying, kernel::DeliveryStatus::parked}) {
      if (*status == kernel::to_text(one)) filter.status = one;
    }
    if (!filter.status) return problem("bad_request", "status must be due, retrying or parked");
  }
  if (const std::string* run = request.query_value("run")) {
    const auto number = parse_number(*run);
    if (!number) return problem("bad_request", "run must be a run's number");
    filter.run = RunId(*number);
  }
  if (const std::string* to = request.query_value("to")) filter.lane = kernel::lane_of(*to);
  return filter;
}

Response list(Ports& ports, Request& request) {
  const auto filter = read_filter(request);
  if (const auto* bad = std::get_if<Problem>(&filter)) return problem_response(*bad);
  const auto& wanted = std::get<kernel::DeliveryFilter>(filter);
  const auto rows = ports.commands.store().read([&](db::ReadTx& tx) { return kernel::list_deliveries(tx, wanted); });
  json::Writer out;
  out.begin_object().key("items").begin_array();
  for (const OutboxRow& row : rows) write_delivery(out, row, request.principal.may(kAdmin), false);
  out.end_array().key("next");
  static_cast<int>(rows.size()) == wanted.limit ? out.string(std::to_string(rows.back().id.value)) : out.null();
  return json_response(200, out.end_object().take());
}

Response one(Ports& ports, Request& request) {
  const auto id = path_id(request, "delivery_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return problem_response(*bad);
  const auto row = ports.commands.store().read(
      [&](db::ReadTx& tx) { return kernel::read_delivery(tx, DeliveryId(std::get<std::int64_t>(id))); });
  if (!row) {
    return problem_response(
        problem("delivery_not_found", "there is no such delivery: it went out, or was dropped", "bide outbox"));
  }
  json::Writer out;
  write_delivery(out, *row, request.principal.may(kAdmin), true);
  return json_response(200, out.take());
}

// By destination: the cursor is the last one of the page.
Response destinations(Ports& ports, Request& request) {
  const std::string* after = request.query_value("cursor");
  const auto wanted = read_limit(request);
  if (const auto* bad = std::get_if<Problem>(&wanted)) return problem_response(*bad);
  const int limit = std::get<int>(wanted);
  const auto found = ports.commands.store().read(
      [&](db::ReadTx& tx) { return kernel::list_destinations(tx, after == nullptr ? "" : *after, limit); });
  json::Writer out;
  out.begin_object().key("items").begin_array();
  for (const kernel::Destination& one : found) {
    out.begin_object().member("to", one.lane).member("state", one.state()).member("rows", one.rows);
    out.member("retrying", one.retrying).member("parked", one.parked);
    write_time(out, "oldest_at", one.oldest_at);
    write_time(out, "failing_since", one.failing_since);
    write_time(out, "next_try_at", one.next_try_at);
    out.key("last_error");
    one.last_error ? out.string(*one.last_error) : out.null();
    out.end_object();
  }
  out.end_array().key("next");
  static_cast<int>(found.size()) == limit ? out.string(found.back().lane) : out.null();
  return json_response(200, out.end_object().take());
}

template <class Change>
Response change(Ports& ports, Request& request, Change apply) {
  const auto id = path_id(request, "delivery_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return problem_response(*bad);
  if (const auto bad = check_body(request, {})) return problem_response(*bad);
  const auto outcome = apply(*ports.deliveries, DeliveryId(std::get<std::int64_t>(id)), who(request));
  if (const auto* bad = std::get_if<Problem>(&outcome)) return problem_response(*bad);
  return json_response(200, json::Writer()
                                .begin_object()
                                .member("id", std::get<kernel::DeliveryChanged>(outcome).id.value)
                                .end_object()
                                .take());
}

Response retry(Ports& ports, Request& request) {
  return change(ports, request, [](auto& commands, DeliveryId id, const auto& by) { return commands.retry(id, by); });
}

Response drop(Ports& ports, Request& request) {
  return change(ports, request, [](auto& commands, DeliveryId id, const auto& by) { return commands.drop(id, by); });
}

// {"action":"retry"|"drop","to":"https://host"}
Response act(Ports& ports, Request& request) {
  if (const auto bad = check_body(request, {{"action", Kind::string, true}, {"to", Kind::string, true}}))
    return problem_response(*bad);
  const std::string action = json::string_member(request.body, "action").value_or("");
  const std::string lane = kernel::lane_of(json::string_member(request.body, "to").value_or(""));
  if (action != "retry" && action != "drop") return problem_response(misfit("/action", "must be retry or drop"));
  const std::int64_t done = action == "retry" ? ports.deliveries->retry_lane(lane, who(request))
                                              : ports.deliveries->drop_lane(lane, who(request));
  return json_response(200, json::Writer().begin_object().member("done", done).end_object().take());
}

}  // namespace

void add_outbox_routes(Router& router, Ports& ports) {
  const auto with = [&ports](Response (*handler)(Ports&, Request&)) {
    return [&ports, handler](Request& request) { return handler(ports, request); };
  };
  router.get("/v1/outbox", kRead, with(list));
  router.get("/v1/outbox/destinations", kRead, with(destinations));
  router.get("/v1/outbox/{id}", kRead, with(one));
  router.post("/v1/outbox/actions", kAdmin, with(act));
  router.post("/v1/outbox/{id}/retry", kAdmin, with(retry));
  router.del("/v1/outbox/{id}", kAdmin, with(drop));
}

}  // namespace bide::web
