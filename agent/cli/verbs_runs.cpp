// Runs: list, show, journal, explain, cancel, rm, retry, fork, pause, resume, signal.
#include <nlohmann/json.hpp>
#include <ostream>

#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/cli/verbs.h"

namespace bide::cli {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kCell = 60;  // characters of a cell whose text people wrote

std::string path_of(const Arguments& arguments, const char* rest = "") {
  return "/v1/runs/" + std::to_string(arguments.id) + rest;
}
std::string text_of(const Json& document, const char* member) {
  const auto found = document.find(member);
  return found != document.end() && found->is_string() ? found->get<std::string>() : "";
}
std::string number_of(const Json& document, const char* member) {
  const auto found = document.find(member);
  return found != document.end() && found->is_number_integer() ? std::to_string(found->get<std::int64_t>()) : "";
}

void line(Console& console, const char* name, const std::string& value) {
  if (value.empty()) return;
  std::string head = std::string(name) + ":";
  head.resize(14, ' ');
  console.out << console.paint(Style::dim, head) << value << "\n";
}

// A member as it was written, on one line; nothing for null.
std::string raw_of(std::string_view document, const char* member) {
  const std::string raw = json::member(document, member).value_or("null");
  return raw == "null" ? "" : printable(raw);
}

int say(Session& session, const Reply& reply, const std::string& line_of_text) {
  if (session.arguments.json) {
    print_json(session.console, reply.body);
  } else {
    session.console.out << line_of_text << "\n";
  }
  return kDone;
}

int post_and_say(Session& session, const char* verb) {
  const Reply reply = accepted(session.client.post(path_of(session.arguments, verb), "{}"));
  return say(
      session, reply,
      "run " + std::to_string(session.arguments.id) + " " + json::string_member(reply.body, "status").value_or(""));
}

}  // namespace

int verb_runs(Session& session) {
  const Arguments& a = session.arguments;
  std::string query;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) query += (query.empty() ? "?" : "&") + std::string(name) + "=" + percent_encode(value);
  };
  add("status", a.status);
  add("workflow", a.workflow);
  add("mission", a.mission);
  const std::string body = all_pages(session.client, "/v1/runs" + query, static_cast<std::size_t>(a.limit));
  if (a.json) {
    print_json(session.console, body);
    return kDone;
  }
  Table table({"RUN", "WORKFLOW", "STATUS", "CREATED", "KEY", "WHY"});
  table.paint_column(2);
  const Json list = Json::parse(body);
  for (const Json& run : list["items"]) {
    const Json& error = run["error"];
    const std::string why = error.is_object() ? text_of(error, "code") : text_of(run, "reason");
    table.add({number_of(run, "id"), shortened(text_of(run, "workflow"), 32), text_of(run, "status"),
               short_time(text_of(run, "created_at")), shortened(text_of(run, "key"), 32), shortened(why, kCell)});
  }
  if (table.empty())
    session.console.err << "no runs\n";
  else
    table.print(session.console);
  return kDone;
}

int verb_show(Session& session) {
  const std::string body = accepted(session.client.get(path_of(session.arguments))).body;
  Console& console = session.console;
  if (session.arguments.json) {
    print_json(console, body);
    return kDone;
  }
  const Json run = Json::parse(body);
  const std::string status = text_of(run, "status");
  const std::string reason = text_of(run, "reason");
  line(console, "run", number_of(run, "id") + " " + printable(text_of(run, "workflow")));
  line(console, "status",
       console.paint(style_of(status), status) + (reason.empty() ? "" : " (" + printable(reason) + ")"));
  line(console, "key", printable(text_of(run, "key")));
  line(console, "mission", printable(text_of(run, "mission")));
  line(console, "created", short_time(text_of(run, "created_at")) + " by " + printable(text_of(run, "created_by")));
  line(console, "started", short_time(text_of(run, "started_at")));
  line(console, "finished", short_time(text_of(run, "finished_at")));
  line(console, "cancelled", printable(text_of(run, "cancel_reason")));
  line(console, "input", raw_of(body, "input"));
  line(console, "result", raw_of(body, "result"));
  line(console, "error", raw_of(body, "error"));
  line(console, "next wake", short_time(text_of(run, "next_wake")));
  for (const Json& wait : run.value("waiting_on", Json::array())) {
    const std::string until = short_time(text_of(wait, "until"));
    line(console, "waits for",
         text_of(wait, "kind") + " " + number_of(wait, "id") + " " + shortened(text_of(wait, "asks"), 200) +
             (until.empty() ? "" : " until " + until));
  }
  return kDone;
}

int verb_journal(Session& session) {
  const std::string body = all_pages(session.client, path_of(session.arguments, "/journal"));
  if (session.arguments.json) {
    print_json(session.console, body);
    return kDone;
  }
  Table table({"SEQ", "NAME", "KIND", "EFFECT", "STATUS", "RAN", "UPDATED", "OUTCOME"});
  table.paint_column(4);
  const Json list = Json::parse(body);
  for (const Json& step : list["items"]) {
    const Json& outcome = step["error"].is_null() ? step["result"] : step["error"];
    std::string text = outcome.is_null() ? "" : outcome.is_string() ? outcome.get<std::string>() : outcome.dump();
    table.add({number_of(step, "seq"), shortened(text_of(step, "name"), 32), text_of(step, "kind"),
               text_of(step, "effect"), text_of(step, "status"), number_of(step, "executions"),
               short_time(text_of(step, "updated_at")), shortened(trim(text), kCell)});
  }
  if (table.empty())
    session.console.err << "no steps\n";
  else
    table.print(session.console);
  return kDone;
}

int verb_explain(Session& session) {
  const Reply reply = accepted(session.client.get(path_of(session.arguments, "/explain")));
  Console& console = session.console;
  if (session.arguments.json) {
    print_json(console, reply.body);
    return kDone;
  }
  const Json told = Json::parse(reply.body);
  console.out << printable(text_of(told, "text")) << "\n";
  line(console, "state", text_of(told, "state") + " (" + text_of(told, "reason") + ")");
  line(console, "wakes at", short_time(text_of(told, "wakes_at")));
  for (const Json& held : told.value("held_by", Json::array())) {
    line(console, "held by", "pid " + number_of(held, "pid") + " " + printable(text_of(held, "what")));
  }
  line(console, "type", printable(text_of(told, "command")));
  return kDone;
}

int verb_cancel(Session& session) {
  if (names_many(session.arguments)) return act_on_many(session, "cancel");
  json::Writer body;
  body.begin_object();
  if (!session.arguments.reason.empty()) body.member("reason", session.arguments.reason);
  if (session.arguments.without_compensation) body.member("without_compensation", true);
  const Reply reply = accepted(session.client.post(path_of(session.arguments, "/cancel"), body.end_object().text()));
  std::string left;
  const Json answer = Json::parse(reply.body);
  for (const Json& step : answer.value("not_compensated", Json::array()))
    left += "\nnot taken back: step " + number_of(step, "seq") + " " + printable(text_of(step, "step"));
  return say(session, reply, "run " + std::to_string(session.arguments.id) + " " + text_of(answer, "status") + left);
}

int verb_rm(Session& session) {
  const Reply reply = accepted(session.client.del(path_of(session.arguments)));
  return say(session, reply, "run " + std::to_string(session.arguments.id) + " deleted");
}

int verb_retry(Session& session) {
  return names_many(session.arguments) ? act_on_many(session, "retry") : post_and_say(session, "/retry");
}

int verb_fork(Session& session) {
  const Arguments& a = session.arguments;
  json::Writer body;
  body.begin_object().member("from", a.from);
  if (a.latest) body.member("latest", true);
  const Reply reply = accepted(session.client.post(path_of(a, "/fork"), body.end_object().text()));
  const Json answer = Json::parse(reply.body);
  return say(session, reply,
             "run " + number_of(answer, "id") + " begins with " + number_of(answer, "copied") + " entries of run " +
                 std::to_string(a.id));
}

int verb_pause(Session& session) {
  return names_many(session.arguments) ? act_on_many(session, "pause") : post_and_say(session, "/pause");
}
int verb_resume(Session& session) {
  return names_many(session.arguments) ? act_on_many(session, "resume") : post_and_say(session, "/resume");
}

int verb_signal(Session& session) {
  const Arguments& a = session.arguments;
  json::Writer body;
  body.begin_object().member_raw("payload", typed_json(a.value, "the payload", session.console));
  if (!a.dedupe_key.empty()) body.member("dedupe_key", a.dedupe_key);
  const Reply reply =
      accepted(session.client.post(path_of(a, "/signals/") + percent_encode(a.name), body.end_object().text()));
  const bool repeated = json::bool_member(reply.body, "repeated").value_or(false);
  const bool consumed = json::bool_member(reply.body, "consumed").value_or(false);
  return say(session, reply,
             "signal " + printable(a.name) + " to run " + std::to_string(a.id) +
                 (repeated   ? ": it was sent before"
                  : consumed ? ": taken by a wait"
                             : ": kept until it is asked for"));
}

}  // namespace bide::cli
