// /v1/workflows: what there is, in the file and in the workflows' folder; one with its versions.
#include <algorithm>
#include <map>

#include "agent/base/json.h"
#include "agent/base/limits_api.h"
#include "agent/base/text.h"
#include "agent/base/time.h"
#include "agent/kernel/catalog.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/routes.h"

namespace bide::web {
namespace {

void write_counts(json::Writer& out, const kernel::WorkflowCounts& counts) {
  out.key("runs").begin_object().member("total", counts.runs).member("queued", counts.queued);
  out.member("running", counts.running).member("waiting", counts.waiting).member("failed", counts.failed);
  out.end_object();
}

Response unknown(db::ReadTx& tx, const std::string& name, std::vector<std::string> names) {
  for (const auto& known : kernel::list_workflows(tx)) names.push_back(known.name);
  const std::string near = nearest(name, names);
  return problem_response(problem("workflow_unknown",
                                  "no workflow is called " + name + (near.empty() ? "" : "; is " + near + " meant?"),
                                  "bide workflows"));
}

// {"name","kind","version","installed","runs"}. A program that lies in the folder and was never started has no version
// and no runs yet; one that has runs and left the folder is not installed.
Response list(Ports& ports, Request& request) {
  const auto page = read_page(request);
  if (const auto* bad = std::get_if<Problem>(&page)) return problem_response(*bad);
  std::vector<std::string> folder;
  if (ports.installed) folder = ports.installed();
  struct Line {
    std::optional<kernel::WorkflowSummary> known;
    bool in_folder = false;
  };
  return ports.commands.store().read([&](db::ReadTx& tx) {
    std::map<std::string, Line> lines;
    for (auto& known : kernel::list_workflows(tx)) lines[known.name].known = known;
    for (const std::string& name : folder) lines[name].in_folder = true;
    json::Writer out;
    out.begin_object().key("items").begin_array();
    for (const auto& [name, line] : lines) {
      const bool program = !line.known || line.known->kind == kernel::WorkflowKind::program;
      out.begin_object().member("name", name);
      out.member("kind", line.known ? to_text(line.known->kind) : std::string_view("program")).key("version");
      line.known ? out.string(line.known->newest_version) : out.null();
      out.member("installed", line.in_folder || (!program && ports.commands.executor().knows_workflow(line.known->id)));
      write_counts(out, line.known ? kernel::count_runs(tx, line.known->id) : kernel::WorkflowCounts{});
      out.end_object();
    }
    return json_response(200, out.end_array().member_raw("next", "null").end_object().take());
  });
}

// The answer of bide check NAME --json. It runs what lies between the verbs of the program, so it is an operator's.
Response check(Ports& ports, Request& request) {
  if (const auto bad = check_body(request, {})) return problem_response(*bad);
  const std::string& name = request.capture("name");
  const std::vector<std::string> folder = ports.installed ? ports.installed() : std::vector<std::string>();
  if (!ports.check || std::find(folder.begin(), folder.end(), name) == folder.end()) {
    const bool known = ports.commands.store().read(
        [&](db::ReadTx& tx) { return kernel::read_workflow(tx, name, limits::kVersionsShown).has_value(); });
    if (!known) {
      return ports.commands.store().read([&](db::ReadTx& tx) { return unknown(tx, name, folder); });
    }
    return problem_response(problem("no_program", name + " is no program that lies in the workflows' folder"));
  }
  const auto said = ports.check(name, [&request] { return request.stop.stop_requested(); });
  if (const auto* bad = std::get_if<Problem>(&said)) return problem_response(*bad);
  return json_response(200, std::get<std::string>(said));
}

Response one(Ports& ports, Request& request) {
  const std::string& name = request.capture("name");
  std::vector<std::string> folder;
  if (ports.installed) folder = ports.installed();
  const bool in_folder = std::find(folder.begin(), folder.end(), name) != folder.end();
  return ports.commands.store().read([&](db::ReadTx& tx) {
    const auto found = kernel::read_workflow(tx, name, limits::kVersionsShown);
    if (!found && !in_folder) return unknown(tx, name, folder);
    json::Writer out;
    out.begin_object().member("name", name);
    out.member("installed", in_folder || (found && ports.commands.executor().knows_workflow(found->id)));
    write_counts(out, found ? found->counts : kernel::WorkflowCounts{});
    out.key("versions").begin_array();
    if (found) {
      for (const auto& version : found->versions) {
        out.begin_object().member("version", version.version).member("kind", to_text(version.kind));
        out.member("created_at", format_time(version.created_at)).member("runs", version.runs);
        out.member_raw("manifest", version.manifest).end_object();
      }
    }
    return json_response(200, out.end_array().end_object().take());
  });
}

}  // namespace

void add_catalog_routes(Router& router, Ports& ports) {
  const auto with = [&ports](Response (*handler)(Ports&, Request&)) {
    return [&ports, handler](Request& request) { return handler(ports, request); };
  };
  router.get("/v1/workflows", kRead, with(list));
  router.get("/v1/workflows/{name}", kRead, with(one));
  router.post("/v1/workflows/{name}/check", kAdmin, with(check), Lane::waits);
}

}  // namespace bide::web
