// /v1/events and /v1/runs/{id}/events: pages of what happened, oldest first. `next` is always there: it is where a
// reader goes on, also after an empty page. With `Prefer: wait` an empty page waits for the first event.
#include "agent/base/json.h"
#include "agent/base/text.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/render.h"
#include "web/routes.h"

namespace bide::web {
namespace {

// run invalid: of all. `ended`: nothing more will come of this run.
Response page_of(const std::vector<kernel::EventRow>& events, std::int64_t after, std::optional<bool> ended) {
  json::Writer out;
  out.begin_object().key("items").begin_array();
  for (const kernel::EventRow& event : events) write_event(out, event);
  out.end_array().member("next", std::to_string(events.empty() ? after : events.back().id.value));
  out.member("ended", ended).end_object();
  return json_response(200, out.take());
}

Response events(Ports& ports, Request& request, RunId run) {
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
      const auto found = kernel::events_after(tx, EventId(page.after), run, page.limit);
      const bool more = static_cast<int>(found.size()) == page.limit;
      if (ended) ended = *ended && !more;
      return {!found.empty() || ended.value_or(false), page_of(found, page.after, ended)};
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
