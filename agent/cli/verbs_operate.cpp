// What operates an agent and many runs: workflows, token, audit, doctor, export, and actions on all that fit.
#include <nlohmann/json.hpp>
#include <ostream>

#include "agent/base/errors.h"
#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"
#include "agent/base/time.h"
#include "agent/cli/verbs.h"

namespace bide::cli {
namespace {

using Json = nlohmann::json;

constexpr int kTampered = 2;
constexpr int kCannotTell = 3;

std::string text_of(const Json& document, const char* member) {
  const auto found = document.find(member);
  return found != document.end() && found->is_string() ? found->get<std::string>() : "";
}
std::string number_of(const Json& document, const char* member) {
  const auto found = document.find(member);
  return found != document.end() && found->is_number_integer() ? std::to_string(found->get<std::int64_t>()) : "";
}

int list_tokens(Session& session) {
  const std::string body = all_pages(session.client, "/v1/tokens");
  if (session.arguments.json) {
    print_json(session.console, body);
    return kDone;
  }
  Table table({"NAME", "SCOPES", "CREATED", "EXPIRES", "REVOKED"});
  const Json list = Json::parse(body);
  for (const Json& row : list["items"]) {
    table.add({printable(text_of(row, "name")), text_of(row, "scopes"), short_time(text_of(row, "created_at")),
               short_time(text_of(row, "expires_at")), short_time(text_of(row, "revoked_at"))});
  }
  table.print(session.console);
  return kDone;
}

Reply add_token(Session& session) {
  const Arguments& a = session.arguments;
  std::string scopes;
  for (const std::string& one : a.scopes) scopes += (scopes.empty() ? "" : " ") + one;
  if (scopes.empty()) throw ConfigFault("token add takes what it may do: --scope read, --scope approve …");
  json::Writer body;
  body.begin_object().member("name", a.name).member("scopes", scopes);
  if (!a.expires.empty()) body.member("expires_in", a.expires);
  return accepted(session.client.post("/v1/tokens", body.end_object().text()));
}

}  // namespace

int verb_token(Session& session) {
  const Arguments& a = session.arguments;
  if (a.action == "list") return list_tokens(session);
  if (a.name.empty()) throw ConfigFault("token " + a.action + " takes the name of one");
  const Reply reply =
      a.action == "add" ? add_token(session) : accepted(session.client.del("/v1/tokens/" + percent_encode(a.name)));
  if (a.json) {
    print_json(session.console, reply.body);
    return kDone;
  }
  if (a.action == "remove") {
    session.console.out << "token " << a.name << " opens nothing any more\n";
    return kDone;
  }
  session.console.out << json::string_member(reply.body, "token").value_or("") << "\n";
  session.console.err << "it is shown this once; put it into BIDE_TOKEN, or send Authorization: Bearer …\n";
  return kDone;
}

int verb_audit(Session& session) {
  const Arguments& a = session.arguments;
  const std::string query = a.head.empty() ? "" : "?head=" + percent_encode(a.head);
  const Reply reply = accepted(session.client.get("/v1/audit/verify" + query));
  const std::string verdict = json::string_member(reply.body, "verdict").value_or("cannot_tell");
  const int code = verdict == "whole" ? kDone : verdict == "tampered" ? kTampered : kCannotTell;
  if (a.json) {
    print_json(session.console, reply.body);
    return code;
  }
  const Json told = Json::parse(reply.body);
  if (code == kDone) {
    session.console.out << "the chain of " << number_of(told, "rows") << " decisions is whole\n";
    if (!text_of(told, "head").empty()) session.console.out << "head " << text_of(told, "head") << "\n";
    return code;
  }
  const std::string row = number_of(told, "row");
  session.console.out << (code == kTampered ? "the audit was tampered with" : "it cannot be told")
                      << (row.empty() ? "" : ", row " + row) << ": " << text_of(told, "why") << "\n";
  return code;
}

int verb_doctor(Session& session) {
  const Reply reply = accepted(session.client.get("/v1/doctor"));
  const Json told = Json::parse(reply.body);
  const int code = told.value("well", false) ? kDone : kFailed;
  if (session.arguments.json) {
    print_json(session.console, reply.body);
    return code;
  }
  for (const Json& finding : told["findings"]) {
    const bool error = text_of(finding, "weight") == "error";
    session.console.out << session.console.paint(error ? Style::bad : Style::busy, text_of(finding, "weight")) << " "
                        << printable(text_of(finding, "text"))
                        << "\n      type: " << printable(text_of(finding, "command")) << "\n";
  }
  if (code == kDone) session.console.out << "nothing is wrong\n";
  return code;
}

int verb_workflows(Session& session) {
  const Reply reply = accepted(session.client.get("/v1/workflows"));
  if (session.arguments.json) {
    print_json(session.console, reply.body);
    return kDone;
  }
  Table table({"WORKFLOW", "KIND", "VERSION", "RUNS", "LIVE", "FAILED", "INSTALLED"});
  const Json list = Json::parse(reply.body);
  for (const Json& row : list["items"]) {
    const Json& runs = row["runs"];
    const std::int64_t live = runs.value("queued", std::int64_t{0}) + runs.value("running", std::int64_t{0}) +
                              runs.value("waiting", std::int64_t{0});
    table.add({shortened(text_of(row, "name"), 40), text_of(row, "kind"), shortened(text_of(row, "version"), 12),
               number_of(runs, "total"), std::to_string(live), number_of(runs, "failed"),
               row.value("installed", false) ? "yes" : "no"});
  }
  if (table.empty())
    session.console.err << "no workflows\n";
  else
    table.print(session.console);
  return kDone;
}

int verb_export(Session& session) {
  const Reply reply = session.client.get_streamed("/v1/runs/" + std::to_string(session.arguments.id) + "/export",
                                                  [&](std::string_view bytes) { session.console.out << bytes; });
  (void)accepted(reply);
  return kDone;
}

bool names_many(const Arguments& a) {
  const bool filter = !a.workflow.empty() || !a.status.empty() || !a.mission.empty() || !a.label.empty();
  if (a.id > 0 && (filter || a.dry_run))
    throw ConfigFault(a.verb + " takes a run or what many have in common, not both");
  if (a.id == 0 && !filter) {
    throw ConfigFault(a.verb + " takes a run, or what many have in common: --workflow, --status, --mission, --label");
  }
  return a.id == 0;
}

int act_on_many(Session& session, const char* action) {
  const Arguments& a = session.arguments;
  json::Writer body;
  body.begin_object().member("action", action).key("filter").begin_object();
  if (!a.workflow.empty()) body.member("workflow", a.workflow);
  if (!a.status.empty()) body.member("status", a.status);
  if (!a.mission.empty()) body.member("mission", a.mission);
  if (!a.label.empty()) body.member("label", a.label);
  body.end_object().member("dry_run", a.dry_run);
  if (!a.reason.empty()) body.member("reason", a.reason);
  if (a.without_compensation) body.member("without_compensation", true);
  const Reply reply = accepted(session.client.post("/v1/runs/actions", body.end_object().text()));
  const Json told = Json::parse(reply.body);
  const bool all = told["refused"].empty();
  if (a.json) {
    print_json(session.console, reply.body);
    return all ? kDone : kConflict;
  }
  if (!told["items"].empty()) {
    Table table({"RUN", "WHAT"});
    table.paint_column(1);
    for (const Json& item : told["items"]) {
      table.add({number_of(item, "id"), text_of(item, item.contains("status") ? "status" : "code")});
    }
    table.print(session.console);
  }
  session.console.err << number_of(told, "matched") << " fit, "
                      << (a.dry_run ? "none was touched" : number_of(told, "done") + " done");
  for (const auto& [code, times] : told["refused"].items()) session.console.err << ", " << times.dump() << " " << code;
  session.console.err << "\n";
  return all ? kDone : kConflict;
}

}  // namespace bide::cli
