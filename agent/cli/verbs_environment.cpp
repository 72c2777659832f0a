// Environments: folders that runs share: add, list, remove.
#include <nlohmann/json.hpp>
#include <ostream>

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

int list_environments(Session& session) {
  const std::string body = all_pages(session.client, "/v1/environments");
  if (session.arguments.json) {
    print_json(session.console, body);
    return kDone;
  }
  Table table({"NAME", "STATUS", "USED", "GOES", "PATH", "WHY"});
  table.paint_column(1);
  const Json list = Json::parse(body);
  for (const Json& row : list["items"]) {
    const std::string after = text_of(row, "delete_after");
    const std::string owner = row["run"].is_null() ? "" : "with run " + row["run"].dump();
    table.add({text_of(row, "name"), text_of(row, "status"), short_time(text_of(row, "last_used_at")),
               after.empty() ? owner : "unused for " + after + (owner.empty() ? "" : ", ") + owner,
               shortened(text_of(row, "path"), 80), shortened(text_of(row, "last_error"), 60)});
  }
  if (table.empty())
    session.console.err << "no environments\n";
  else
    table.print(session.console);
  return kDone;
}

// A relative seed is one of the folder where it was typed.
std::string whole_path(const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  return surroundings_of_process().cwd + "/" + path;
}

Reply add_environment(Session& session) {
  const Arguments& a = session.arguments;
  json::Writer body;
  body.begin_object().member("name", a.name);
  if (!a.seed.empty()) body.member("seed", whole_path(a.seed));
  if (!a.delete_after.empty()) body.member("delete_after", a.delete_after);
  if (a.id > 0) body.member("run", a.id);
  return accepted(session.client.post("/v1/environments", body.end_object().text()));
}

}  // namespace

int verb_environment(Session& session) {
  const Arguments& a = session.arguments;
  if (a.action == "list") return list_environments(session);
  if (a.name.empty()) throw ConfigFault("environment " + a.action + " takes the name of one");
  const Reply reply = a.action == "add" ? add_environment(session)
                                        : accepted(session.client.del("/v1/environments/" + percent_encode(a.name)));
  if (a.json) {
    print_json(session.console, reply.body);
    return kDone;
  }
  const std::string path = json::string_member(reply.body, "path").value_or("");
  session.console.out << (a.action == "add" ? path : "environment " + a.name + " is being deleted") << "\n";
  return kDone;
}

}  // namespace bide::cli
