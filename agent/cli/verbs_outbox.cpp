// What leaves the agent: the outbox, and webhooks.
#include <nlohmann/json.hpp>
#include <ostream>

#include "agent/base/errors.h"
#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/cli/verbs.h"

namespace bide::cli {
namespace {

using Json = nlohmann::json;

std::string text_of(const Json& document, const char* member) {
  const auto found = document.find(member);
  return found != document.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string number_of(const Json& document, const char* member) {
  const auto found = document.find(member);
  return found != document.end() && found->is_number() ? std::to_string(found->get<std::int64_t>()) : "";
}

int list_outbox(Session& session) {
  const Arguments& a = session.arguments;
  std::string path = "/v1/outbox?";
  if (a.parked) path += "status=parked&";
  if (!a.to.empty()) path += "to=" + percent_encode(a.to) + "&";
  path.pop_back();
  const std::string body = all_pages(session.client, path);
  if (a.json) {
    print_json(session.console, body);
    return kDone;
  }
  Table table({"ID", "KIND", "STATUS", "RUN", "TO", "TRIES", "NEXT", "ERROR"});
  table.paint_column(2);
  const Json list = Json::parse(body);
  for (const Json& row : list["items"]) {
    table.add({number_of(row, "id"), text_of(row, "kind"), text_of(row, "status"), number_of(row, "run"),
               shortened(text_of(row, "to"), 40), number_of(row, "tries"), short_time(text_of(row, "next_try_at")),
               shortened(text_of(row, "last_error"), 60)});
  }
  if (table.empty())
    session.console.err << (a.parked ? "nothing is parked\n" : "everything has gone out\n");
  else
    table.print(session.console);
  return kDone;
}

int list_destinations(Session& session) {
  const std::string body = all_pages(session.client, "/v1/outbox/destinations");
  if (session.arguments.json) {
    print_json(session.console, body);
    return kDone;
  }
  Table table({"TO", "STATE", "ROWS", "RETRYING", "PARKED", "FAILING SINCE", "NEXT", "ERROR"});
  table.paint_column(1);
  const Json list = Json::parse(body);
  for (const Json& row : list["items"]) {
    table.add({shortened(text_of(row, "to"), 40), text_of(row, "state"), number_of(row, "rows"),
               number_of(row, "retrying"), number_of(row, "parked"), short_time(text_of(row, "failing_since")),
               short_time(text_of(row, "next_try_at")), shortened(text_of(row, "last_error"), 60)});
  }
  if (table.empty())
    session.console.err << "everything has gone out\n";
  else
    table.print(session.console);
  return kDone;
}

int change_lane(Session& session) {
  const Arguments& a = session.arguments;
  const std::string body =
      json::Writer().begin_object().member("action", a.action).member("to", a.to).end_object().take();
  const Reply reply = accepted(session.client.post("/v1/outbox/actions", body));
  if (a.json) {
    print_json(session.console, reply.body);
    return kDone;
  }
  session.console.out << json::int_member(reply.body, "done").value_or(0) << " deliveries "
                      << (a.action == "retry" ? "are tried again" : "dropped") << "\n";
  return kDone;
}

std::string place_of(const Arguments& a) {
  const auto id = parse_number(a.value);
  if (!id || *id < 1)
    throw ConfigFault("webhook " + a.action + " takes the number of a webhook, as bide webhook list shows it");
  return "/v1/webhooks/" + std::to_string(*id);
}

void write_list(json::Writer& out, const char* name, const std::vector<std::string>& items) {
  if (items.empty()) return;
  out.key(name).begin_array();
  for (const std::string& item : items) out.string(item);
  out.end_array();
}

Reply add_webhook(Session& session) {
  const Arguments& a = session.arguments;
  if (a.value.empty()) throw ConfigFault("webhook add takes the URL of the endpoint");
  json::Writer body;
  body.begin_object().member("url", a.value);
  write_list(body, "events", a.events);
  write_list(body, "allow", a.allow);
  if (!a.workflow.empty()) body.member("workflow", a.workflow);
  if (!a.mission.empty()) body.member("mission", a.mission);
  if (!a.secret.empty()) body.member("secret", a.secret);
  if (a.cloudevents) body.member("format", "cloudevents");
  if (a.decision_links) body.member("decision_links", true);
  return accepted(session.client.post("/v1/webhooks", body.end_object().text()));
}

Reply rotate_webhook(Session& session) {
  const Arguments& a = session.arguments;
  json::Writer body;
  body.begin_object();
  if (!a.secret.empty()) body.member("secret", a.secret);
  return accepted(session.client.post(place_of(a) + "/rotate", body.end_object().text()));
}

int list_webhooks(Session& session) {
  const std::string body = all_pages(session.client, "/v1/webhooks");
  if (session.arguments.json) {
    print_json(session.console, body);
    return kDone;
  }
  Table table({"ID", "URL", "EVENTS", "WORKFLOW", "MISSION", "STATE"});
  const Json list = Json::parse(body);
  for (const Json& row : list["items"]) {
    std::string events;
    if (row["events"].is_array()) {
      for (const Json& one : row["events"]) events += (events.empty() ? "" : " ") + one.get<std::string>();
    }
    table.add({number_of(row, "id"), shortened(text_of(row, "url"), 60), shortened(events.empty() ? "all" : events, 40),
               text_of(row, "workflow"), text_of(row, "mission"),
               row["enabled"].get<bool>() ? "on" : "off: " + shortened(text_of(row, "disabled_why"), 40)});
  }
  if (table.empty())
    session.console.err << "no endpoint hears of anything\n";
  else
    table.print(session.console);
  return kDone;
}

int change_webhook(Session& session) {
  const Arguments& a = session.arguments;
  Reply reply;
  std::string said;
  if (a.action == "add") {
    reply = add_webhook(session);
    said = "webhook " + std::to_string(json::int_member(reply.body, "id").value_or(0));
  } else if (a.action == "rotate") {
    reply = rotate_webhook(session);
    said = "webhook " + a.value + " signs with a new secret; the old one is good for a day";
  } else if (a.action == "remove") {
    reply = accepted(session.client.del(place_of(a)));
    said = "removed; " + std::to_string(json::int_member(reply.body, "dropped").value_or(0)) + " deliveries dropped";
  } else if (a.action == "test") {
    reply = accepted(session.client.post(place_of(a) + "/test", "{}"));
    said = "delivery " + std::to_string(json::int_member(reply.body, "delivery").value_or(0)) + " is on its way";
  } else {
    const std::string on = a.action == "enable" ? "true" : "false";
    reply = accepted(session.client.post(place_of(a), "{\"enabled\":" + on + "}"));
    said = "webhook " + a.value + (a.action == "enable" ? " is on" : " is off");
  }
  if (a.json) {
    print_json(session.console, reply.body);
    return kDone;
  }
  session.console.out << said << "\n";
  if (const auto secret = json::string_member(reply.body, "secret"))
    session.console.out << "secret " << *secret << "   it is not shown again\n";
  return kDone;
}

}  // namespace

int verb_outbox(Session& session) {
  const Arguments& a = session.arguments;
  if (a.action.empty()) return list_outbox(session);
  if (a.action == "destinations") return list_destinations(session);
  if (a.id == 0 && a.to.empty())
    throw ConfigFault("outbox " + a.action + " takes the number of a delivery, or --to URL");
  if (a.id == 0) return change_lane(session);
  const std::string place = "/v1/outbox/" + std::to_string(a.id);
  const Reply reply =
      accepted(a.action == "retry" ? session.client.post(place + "/retry", "{}") : session.client.del(place));
  if (a.json) {
    print_json(session.console, reply.body);
    return kDone;
  }
  session.console.out << "delivery " << a.id << (a.action == "retry" ? " is tried again" : " dropped") << "\n";
  return kDone;
}

int verb_webhook(Session& session) {
  return session.arguments.action == "list" ? list_webhooks(session) : change_webhook(session);
}

}  // namespace bide::cli
