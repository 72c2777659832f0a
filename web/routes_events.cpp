// /v1/events and /v1/runs/{id}/events: pages of what happened, oldest first. `next` is always there: it is where a
// reader goes on, also after an empty page. With `Prefer: wait` an empty page waits for the first event.
// With `Accept: text/event-stream` the same as server-sent events (streams.h): from Last-Event-ID or ?cursor= on;
// without either a run's from its beginning, those of all from now on.
#include "agent/base/json.h"
#include "agent/base/text.h"
#include "web/body.h"
#include "web/pages.h"
#include "web/problem.h"
#include "web/render.h"
#include "web/routes.h"

namespace bide::web {
namespace {

bool wants_stream(const Request& request) {
  const std::string* accept = request.field("accept");
  return accept != nullptr && lower(*accept).find("text/event-stream") != std::string::npos;
}

Response stream(Ports& ports, const Request& request, RunId run) {
  Streams::Ask ask{run, {}};
  const std::string* cursor = request.query_value("cursor");
  const std::string* last = request.field("last-event-id");  // after a lost connection: it knows more than the address
  for (const std::string* from : {cursor, last}) {
    if (from == nullptr || from->empty()) continue;
    ask.after = parse_number(*from);
    if (!ask.after) return problem_response(problem("bad_request", "Last-Event-ID and cursor are ids of events"));
  }
  auto opened = ports.streams->open(ask);
  if (const auto* refused = std::get_if<Problem>(&opened)) return problem_response(*refused);
  return stream_response("text/event-stream; charset=utf-8",
                         std::get<std::unique_ptr<StreamSource>>(std::move(opened)));
}

Response events(Ports& ports, Request& request, RunId run) {
  if (ports.streams != nullptr && wants_stream(request)) return stream(ports, request, run);
  auto read = read_page(request);
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  Page page = std::get<Page>(read);
  const std::string* last = request.field("last-event-id");
  if (page.after == 0 && last != nullptr) page.after = parse_number(*last).value_or(0);
  return long_poll(ports, request, [&]() -> Look {
    return ports.commands.store().read([&](db::ReadTx& tx) -> Look {
      std::optional<bool> ended;
      if (run.valid()) {
        const auto row = kernel::read_run(tx, run);
        if (!row) return {true, problem_response(problem("run_not_found", "there is no such run", "bide runs"))};
        ended = kernel::terminal(row->status);
      }
      json::Writer out;
      out.begin_object();
      std::int64_t reached = page.after;
      const auto write = [&](const kernel::EventRow& event) {
        reached = event.id.value;
        write_event(out, event);
      };
      const auto more = write_items(
          out, page, [&](std::int64_t from, int most) { return kernel::events_after(tx, EventId(from), run, most); },
          write, [](const kernel::EventRow& event) { return event.id.value; });
      if (ended) ended = *ended && !more;  // nothing more will come of this run
      out.member("next", std::to_string(reached)).member("ended", ended).end_object();
      return {reached != page.after || ended.value_or(false), json_response(200, out.take())};
    });
  });
}

}  // namespace

void add_event_routes(Router& router, Ports& ports) {
  router.get(
      "/v1/events", kRead, [&ports](Request& request) { return events(ports, request, RunId()); }, Lane::preferred);
  router.get(
      "/v1/runs/{id}/events", kRead,
      [&ports](Request& request) {
        const auto id = path_id(request, "run_not_found");
        if (const auto* bad = std::get_if<Problem>(&id)) return problem_response(*bad);
        return events(ports, request, RunId(std::get<std::int64_t>(id)));
      },
      Lane::preferred);
}

}  // namespace bide::web
