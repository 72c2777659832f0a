// Many runs: POST /v1/runs/actions, and missions: what their runs are, and all of them cancelled.
#include <nlohmann/json.hpp>

#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/base/time.h"
#include "agent/kernel/run_actions.h"
#include "agent/kernel/usage.h"
#include "agent/work/many.h"
#include "agent/work/once.h"
#include "web/body.h"
#include "web/problem.h"
#include "web/routes.h"

namespace bide::web {
namespace {

using work::Answer;

constexpr std::size_t kMostRuns = 10'000;  // named one by one in a body

// {"workflow"?,"status"?,"mission"?,"label"?: "name" or "name=value"}
std::optional<Problem> read_filter(const std::string& text, kernel::ActionFilter& filter) {
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
  for (const auto& [name, value] : document.items()) {
    const std::string pointer = "/filter/" + name;
    if (!value.is_string()) return misfit(pointer, "must be a string");
    const std::string word = value.get<std::string>();
    if (name == "workflow") {
      filter.workflow = word;
    } else if (name == "mission") {
      filter.mission = word;
    } else if (name == "label") {
      const std::size_t equals = word.find('=');
      filter.label = word.substr(0, equals);
      if (equals != std::string::npos) filter.label_value = word.substr(equals + 1);
    } else if (name == "status") {
      filter.status = kernel::run_status_from(word);
      if (!filter.status) return misfit(pointer, "must be queued, running, waiting, completed, failed or cancelled");
    } else {
      return misfit(pointer, "is not known here");
    }
  }
  return std::nullopt;
}

std::optional<Problem> read_runs(const std::string& text, std::vector<RunId>& runs) {
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, false);
  if (!list.is_array() || list.empty() || list.size() > kMostRuns) {
    return misfit("/runs", "must be a list of 1 to " + std::to_string(kMostRuns) + " numbers");
  }
  for (const auto& one : list) {
    if (!one.is_number_unsigned() || one.get<std::uint64_t>() == 0 || one.get<std::uint64_t>() > INT64_MAX) {
      return misfit("/runs", "must be numbers of runs");
    }
    runs.push_back(RunId(one.get<std::int64_t>()));
  }
  return std::nullopt;
}

std::variant<work::ManyAsk, Problem> read_ask(Request& request) {
  if (auto bad = check_body(request, {{"action", Kind::string, true},
                                      {"filter", Kind::object},
                                      {"runs"},
                                      {"dry_run", Kind::boolean},
                                      {"reason", Kind::string},
                                      {"without_compensation", Kind::boolean}})) {
    return *bad;
  }
  work::ManyAsk ask;
  const auto action = kernel::run_action_from(json::string_member(request.body, "action").value_or(""));
  if (!action) return misfit("/action", "must be cancel, retry, pause or resume");
  ask.action = *action;
  ask.dry_run = json::bool_member(request.body, "dry_run").value_or(false);
  ask.reason = json::string_member(request.body, "reason").value_or("");
  ask.without_compensation = json::bool_member(request.body, "without_compensation").value_or(false);
  const auto filter = json::member(request.body, "filter");
  const auto runs = json::member(request.body, "runs");
  const bool has_filter = filter && *filter != "null";
  const bool has_runs = runs && *runs != "null";
  // Without either everything would be meant: that has to be said, by an empty filter.
  if (has_filter == has_runs) return misfit("/filter", "is needed, or /runs, and not both; {} stands for all");
  if (has_filter) {
    if (auto bad = read_filter(*filter, ask.filter)) return *bad;
  } else if (auto bad = read_runs(*runs, ask.runs)) {
    return *bad;
  }
  return ask;
}

void write_report(json::Writer& out, const work::ManyReport& report) {
  out.member("matched", report.matched).member("done", report.done).key("refused").begin_object();
  for (const auto& [code, times] : report.refused) out.member(code, times);
  out.end_object().member("cut_short", report.cut_short).key("items").begin_array();
  for (const work::ManyItem& item : report.items) {
    out.begin_object().member("id", item.run.value).member(item.done ? "status" : "code", item.what).end_object();
  }
  out.end_array();
}

// The answer is stored in the transaction after the last of the effects: each of those is done once anyway.
Response once_many(Ports& ports, Request& request, const std::function<std::string()>& act) {
  const auto key = command_key(request);
  if (const auto* bad = std::get_if<Problem>(&key)) return problem_response(*bad);
  const auto& once = std::get<work::Commands::Once>(key);
  db::Store& store = ports.commands.store();
  if (once) {
    const auto found = store.read([&](db::ReadTx& tx) { return kernel::find_answer(tx, *once); });
    if (!std::holds_alternative<kernel::NewCommand>(found)) {
      return respond(work::once(store, once, [](db::Tx&) { return Answer{}; }));
    }
  }
  const std::string body = act();
  if (!once) return json_response(200, body);
  return respond(work::once(
      store, once,
      [&](db::Tx&) {
        return Answer{200, body, {}, false};
      },
      db::Purpose::decision));
}

Response actions(Ports& ports, Request& request) {
  const auto read = read_ask(request);
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& ask = std::get<work::ManyAsk>(read);
  return once_many(ports, request, [&] {
    const auto report = work::act_on_many(ports.commands, ask, who(request), request.stop);
    json::Writer out;
    out.begin_object().member("action", to_text(ask.action)).member("dry_run", ask.dry_run);
    write_report(out, report);
    return out.end_object().take();
  });
}

// -- Missions.

Problem no_such_mission(const std::string& name) {
  return problem("mission_not_found", "no run that is kept belongs to the mission " + name, "bide runs");
}

Response one_mission(Ports& ports, Request& request) {
  const std::string& name = request.capture("name");
  return ports.commands.store().read([&](db::ReadTx& tx) {
    const auto states = kernel::mission_states(tx, name);
    if (states.empty()) return problem_response(no_such_mission(name));
    json::Writer out;
    std::int64_t all = 0;
    out.begin_object().member("name", name).key("runs").begin_object();
    for (const auto& [status, number] : states) {
      out.member(to_text(status), number);
      all += number;
    }
    out.end_object().member("total", all);
    out.member_raw("usage", kernel::to_json(kernel::mission_usage(tx, name)));
    out.member("began_at", format_time(kernel::mission_began(tx, name).value_or(0)));
    return json_response(200, out.end_object().take());
  });
}

Response cancel_mission(Ports& ports, Request& request) {
  if (const auto bad = check_body(request, {{"reason", Kind::string}, {"without_compensation", Kind::boolean}})) {
    return problem_response(*bad);
  }
  const std::string& name = request.capture("name");
  const bool known =
      ports.commands.store().read([&](db::ReadTx& tx) { return kernel::mission_began(tx, name).has_value(); });
  if (!known) return problem_response(no_such_mission(name));
  work::ManyAsk ask;
  ask.filter.mission = name;
  ask.reason = json::string_member(request.body, "reason").value_or("");
  ask.without_compensation = json::bool_member(request.body, "without_compensation").value_or(false);
  return once_many(ports, request, [&] {
    const auto report = work::act_on_many(ports.commands, ask, who(request), request.stop);
    json::Writer out;
    out.begin_object().member("name", name);
    write_report(out, report);
    return out.end_object().take();
  });
}

}  // namespace

void add_many_routes(Router& router, Ports& ports) {
  const auto with = [&ports](Response (*handler)(Ports&, Request&)) {
    return [&ports, handler](Request& request) { return handler(ports, request); };
  };
  router.post("/v1/runs/actions", kStart, with(actions), Lane::waits);
  router.get("/v1/missions/{name}", kRead, with(one_mission));
  router.post("/v1/missions/{name}/cancel", kStart, with(cancel_mission), Lane::waits);
}

}  // namespace bide::web
