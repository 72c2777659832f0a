// Waits: the inbox and decisions.
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

std::string command_for(const std::string& kind, const std::string& id) {
  if (kind == "approval") return "bide approve " + id + " | deny " + id;
  if (kind == "reconcile") return "bide answer " + id + " ran|run|abort";
  return "bide answer " + id + " VALUE";
}

int resolve(Session& session, const std::string& body) {
  const Arguments& a = session.arguments;
  const Reply reply = accepted(session.client.post("/v1/waits/" + std::to_string(a.id) + "/resolve", body, a.if_match));
  if (a.json) {
    print_json(session.console, reply.body);
    return kDone;
  }
  const Json answer = Json::parse(reply.body);
  const Json resolution = answer.value("resolution", Json());
  const std::string decision = resolution.is_object() ? text_of(resolution, "decision") : "";
  session.console.out << "wait " << a.id << " ";
  if (answer.contains("votes")) {
    session.console.out << "counted: " << answer["votes"] << " of " << answer["quorum"] << "\n";
  } else {
    session.console.out << (decision.empty() ? "answered" : decision) << "\n";
  }
  return kDone;
}

int decide(Session& session, const char* decision) {
  json::Writer body;
  body.begin_object().member("decision", decision);
  if (!session.arguments.comment.empty()) body.member("comment", session.arguments.comment);
  return resolve(session, body.end_object().text());
}

// What was typed, as the question wants it: one of its options as they are, else JSON, else a text.
std::string answer_json(const Json& wait, const Arguments& a) {
  const Json& request = wait["request"];
  const Json options = request.is_object() ? request.value("options", Json::array()) : Json::array();
  for (const Json& option : options) {
    if (option == a.value) return json::quote(a.value);
  }
  return !a.text && !json::check(a.value) ? a.value : json::quote(a.value);
}

}  // namespace

int verb_inbox(Session& session) {
  const std::string body = all_pages(session.client, "/v1/waits?status=pending&inbox=true");
  if (session.arguments.json) {
    print_json(session.console, body);
    return kDone;
  }
  Table table({"WAIT", "RUN", "WORKFLOW", "KIND", "UNTIL", "ASKS", "TYPE"});
  const Json list = Json::parse(body);
  for (const Json& wait : list["items"]) {
    const std::string id = std::to_string(wait["id"].get<std::int64_t>());
    const std::string kind = text_of(wait, "kind");
    table.add({id, std::to_string(wait["run"].get<std::int64_t>()), shortened(text_of(wait, "workflow"), 24), kind,
               short_time(text_of(wait, "resolve_by")), shortened(text_of(wait, "asks"), 60), command_for(kind, id)});
  }
  if (table.empty())
    session.console.err << "nothing waits for anybody\n";
  else
    table.print(session.console);
  return kDone;
}

int verb_approve(Session& session) { return decide(session, "approved"); }
int verb_deny(Session& session) { return decide(session, "denied"); }
int verb_request_changes(Session& session) { return decide(session, "changes_requested"); }

int verb_answer(Session& session) {
  const Arguments& a = session.arguments;
  const Json wait = Json::parse(accepted(session.client.get("/v1/waits/" + std::to_string(a.id))).body);
  const std::string kind = text_of(wait, "kind");
  if (kind == "approval") {
    throw ConfigFault("wait " + std::to_string(a.id) +
                      " is an approval\nhint: " + command_for(kind, std::to_string(a.id)));
  }
  const bool in_doubt = kind == "reconcile";
  if (in_doubt && a.value != "ran" && a.value != "run" && a.value != "abort") {
    throw ConfigFault("a step in doubt is answered with ran (it had its effect), run (it had not: run it) or abort");
  }
  if (a.result && !(in_doubt && a.value == "ran"))
    throw ConfigFault("--result goes with ran, the answer to a step in doubt");
  json::Writer body;
  body.begin_object().member_raw("answer", in_doubt ? json::quote(a.value) : answer_json(wait, a));
  if (a.result) body.member_raw("result", typed_json(*a.result, "the result", session.console));
  return resolve(session, body.end_object().text());
}

}  // namespace bide::cli
