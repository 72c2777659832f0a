// /v1/waits: the inbox, one wait, decisions. A GET never decides; If-Match holds a decision to what was shown.
#include <map>

#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/kernel/evidence.h"
#include "agent/kernel/run_links.h"
#include "web/body.h"
#include "web/pages.h"
#include "web/problem.h"
#include "web/render.h"
#include "web/routes.h"

namespace bide::web {
namespace {

using work::Answer;

std::variant<kernel::WaitFilter, Problem> read_filter(const Request& request) {
  const auto page = read_page(request);
  if (const auto* bad = std::get_if<Problem>(&page)) return *bad;
  kernel::WaitFilter filter;
  filter.limit = std::get<Page>(page).limit;
  filter.after = WaitId(std::get<Page>(page).after);
  if (const std::string* status = request.query_value("status")) {
    filter.status = kernel::wait_status_from(*status);
    if (!filter.status) return problem("bad_request", "status must be pending, resolved, expired or cancelled");
  }
  if (const std::string* kind = request.query_value("kind")) {
    filter.kind = kernel::wait_kind_from(*kind);
    if (!filter.kind)
      return problem("bad_request", "kind must be approval, question, reconcile, signal, timer or child");
  }
  if (const std::string* run = request.query_value("run")) {
    const auto number = parse_number(*run);
    if (!number) return problem("bad_request", "run must be a run's number");
    filter.run = RunId(*number);
  }
  const std::string* inbox = request.query_value("inbox");
  filter.inbox_only = inbox != nullptr && *inbox != "false" && *inbox != "0";
  return filter;
}

// Who has said yes so far, where more than one has to.
std::optional<std::string> votes_of(db::ReadTx& tx, const kernel::WaitRow& wait) {
  if (wait.kind != kernel::WaitKind::approval || json::int_member(wait.payload, "quorum").value_or(1) < 2)
    return std::nullopt;
  return kernel::votes_json(tx, wait.id);
}

Response list_waits(Ports& ports, Request& request) {
  const auto filter = read_filter(request);
  if (const auto* bad = std::get_if<Problem>(&filter)) return problem_response(*bad);
  const auto& wanted = std::get<kernel::WaitFilter>(filter);
  return long_poll(ports, request, [&]() -> Look {
    return ports.commands.store().read([&](db::ReadTx& tx) -> Look {
      kernel::WaitFilter some = wanted;
      const auto read = [&](std::int64_t after, int most) {
        some.after = WaitId(after);
        some.limit = most;
        return kernel::list_waits(tx, some);
      };
      bool any = false;
      std::map<RunId, std::string> workflows;
      json::Writer out;
      out.begin_object();
      const auto write = [&](const kernel::WaitRow& wait) {
        any = true;
        auto known = workflows.find(wait.run);
        if (known == workflows.end()) {
          const auto run = kernel::read_run(tx, wait.run);
          known = workflows.emplace(wait.run, run ? run->workflow_name : "").first;
        }
        write_wait(out, wait, known->second, std::nullopt, votes_of(tx, wait));
      };
      write_next(out, write_items(out, {wanted.after.value, wanted.limit}, read, write,
                                  [](const kernel::WaitRow& wait) { return wait.id.value; }));
      return {any, json_response(200, out.end_object().take())};
    });
  });
}

Response one_wait(Ports& ports, Request& request) {
  const auto id = path_id(request, "wait_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return problem_response(*bad);
  const WaitId wait(std::get<std::int64_t>(id));
  return long_poll(ports, request, [&]() -> Look {
    return ports.commands.store().read([&](db::ReadTx& tx) -> Look {
      const auto row = kernel::read_wait(tx, wait);
      if (!row) return {true, problem_response(problem("wait_not_found", "there is no such wait", "bide inbox"))};
      const auto run = kernel::read_run(tx, row->run);
      json::Writer out;
      // What came in after the question was asked is shown too, beside what was asked.
      std::optional<std::string> evidence;
      if (row->kind == kernel::WaitKind::reconcile) evidence = kernel::evidence_of(tx, row->step);
      write_wait(out, *row, run ? std::optional(run->workflow_name) : std::nullopt, evidence, votes_of(tx, *row));
      Response response = json_response(200, out.take());
      response.with("ETag", "\"" + json::string_member(response.body, "etag").value_or("") + "\"");
      return {row->status != kernel::WaitStatus::pending, std::move(response)};
    });
  });
}

std::optional<std::string> from_hex(std::string_view text) {
  std::string bytes;
  if (text.size() % 2 != 0) return std::nullopt;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const auto byte = percent_decode("%" + std::string(text.substr(i, 2)));
    if (!byte || byte->size() != 1) return std::nullopt;
    bytes += *byte;
  }
  return bytes;
}

// The ETag as it was given, "…" or bare; "*" asks for nothing.
std::variant<std::optional<std::string>, Problem> read_if_match(const Request& request) {
  const std::string* field = request.field("if-match");
  if (field == nullptr || *field == "*") return std::optional<std::string>{};
  std::string_view text = *field;
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  auto digest = from_hex(text);
  if (!digest || digest->size() != 32) return problem("bad_request", "If-Match takes the ETag of one wait");
  return digest;
}

struct Decided {
  kernel::Decision decision;
  work::Commands::Once once;
};
std::variant<Decided, Problem> read_decision(Request& request) {
  if (auto bad = check_body(request, {{"decision", Kind::string}, {"comment", Kind::string}, {"answer"}, {"result"}})) {
    return *bad;
  }
  for (const char* name : {"answer", "result", "comment"}) {
    if (auto large = check_size(name, json::member(request.body, name))) return *large;
  }
  auto parsed = kernel::parse_decision(request.body);
  if (auto* bad = std::get_if<Problem>(&parsed)) return std::move(*bad);
  auto if_match = read_if_match(request);
  if (auto* bad = std::get_if<Problem>(&if_match)) return std::move(*bad);
  auto once = command_key(request);
  if (auto* bad = std::get_if<Problem>(&once)) return std::move(*bad);
  Decided decided{std::get<kernel::Decision>(std::move(parsed)), std::get<work::Commands::Once>(std::move(once))};
  decided.decision.if_match = std::get<std::optional<std::string>>(std::move(if_match));
  return decided;
}

Answer say(const kernel::WaitResolved& resolved) { return {200, wait_document(resolved.wait), {}, false}; }
Answer say(const kernel::SameDecision& same) { return {200, wait_document(same.wait), {}, false}; }
Answer say(const kernel::VoteCounted& counted) {
  std::string document = wait_document(counted.wait);
  document.pop_back();
  document += ",\"votes\":" + std::to_string(counted.votes) + ",\"quorum\":" + std::to_string(counted.quorum) + "}";
  return {202, std::move(document), {}, false};
}
Answer say(const kernel::DecisionKept&) { return {202, "{\"kept\":true}", {}, false}; }
Answer say(const Problem& refused) { return answer_of(refused); }

Response resolve(Ports& ports, Request& request) {
  const auto id = path_id(request, "wait_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return problem_response(*bad);
  const auto read = read_decision(request);
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& decided = std::get<Decided>(read);
  return respond(ports.commands.resolve(WaitId(std::get<std::int64_t>(id)), decided.decision, who(request),
                                        decided.once, [](const kernel::ResolveOutcome& outcome) {
                                          return std::visit([](const auto& one) { return say(one); }, outcome);
                                        }));
}

Response resolve_named(Ports& ports, Request& request) {
  const auto id = path_id(request, "run_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return problem_response(*bad);
  const auto read = read_decision(request);
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& decided = std::get<Decided>(read);
  return respond(ports.commands.resolve_named(RunId(std::get<std::int64_t>(id)), request.capture("name"),
                                              decided.decision, request.body, who(request), decided.once,
                                              [](const kernel::NamedOutcome& outcome) {
                                                return std::visit([](const auto& one) { return say(one); }, outcome);
                                              }));
}

}  // namespace

void add_wait_routes(Router& router, Ports& ports) {
  const auto with = [&ports](Response (*handler)(Ports&, Request&)) {
    return [&ports, handler](Request& request) { return handler(ports, request); };
  };
  router.get("/v1/waits", kRead, with(list_waits), Lane::preferred);
  router.get("/v1/waits/{id}", kRead, with(one_wait), Lane::preferred);
  // Whoever may read may ask: the kernel refuses without the scope, and its audit keeps that [A7].
  router.post("/v1/waits/{id}/resolve", kRead, with(resolve));
  router.post("/v1/runs/{id}/waits/{name}/resolve", kRead, with(resolve_named));
}

}  // namespace bide::web
