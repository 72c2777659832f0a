// /v1/runs/{id}/log/marks: where in a run's log its attempts began, did something new, and were suspended. And where
// the events of all runs end now, for whoever wants to see what comes.
#include "agent/base/json.h"
#include "agent/base/time.h"
#include "agent/kernel/events.h"
#include "agent/kernel/runs.h"
#include "agent/work/log_marks.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/routes.h"

namespace bide::web {
namespace {

Response log_marks(Ports& ports, Request& request) {
  const auto id = path_id(request, "run_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return problem_response(*bad);
  const RunId run(std::get<std::int64_t>(id));
  const bool there = ports.commands.store().read([&](db::ReadTx& tx) { return kernel::read_run(tx, run).has_value(); });
  if (!there) {
    return problem_response(problem("run_not_found", "there is no run " + std::to_string(run.value), "bide runs"));
  }
  const std::string log = ports.log_file ? ports.log_file(run) : "";
  json::Writer out;
  out.begin_object().key("items").begin_array();
  const std::string path = log.empty() ? "" : log.substr(0, log.rfind('.')) + ".marks";
  for (const work::LogMark& mark : work::read_marks(path)) {
    out.begin_object().member("kind", work::to_text(mark.kind)).member("epoch", mark.epoch);
    out.member("offset", mark.offset).member("at", format_time(mark.at_ms));
    if (mark.kind == work::LogMarkKind::cut) out.member("until", mark.until);
    out.end_object();
  }
  return json_response(200, out.end_array().end_object().take());
}

Response newest_event(Ports& ports, Request&) {
  const auto newest = ports.commands.store().read([](db::ReadTx& tx) { return kernel::last_event(tx); });
  return json_response(200,
                       json::Writer().begin_object().member("next", std::to_string(newest.value)).end_object().take());
}

}  // namespace

void add_log_routes(Router& router, Ports& ports) {
  router.get("/v1/runs/{id}/log/marks", kRead, [&ports](Request& request) { return log_marks(ports, request); });
  router.get("/v1/events/newest", kRead, [&ports](Request& request) { return newest_event(ports, request); });
}

}  // namespace bide::web
