// /v1/runs: start, list, one, delete, journal, log, explain, cancel, retry, fork, pause, resume, signals.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/base/time.h"
#include "agent/kernel/continue.h"
#include "agent/kernel/explain.h"
#include "agent/kernel/run_actions.h"
#include "agent/kernel/run_links.h"
#include "agent/kernel/undo.h"
#include "agent/kernel/usage.h"
#include "agent/work/explain.h"
#include "web/body.h"
#include "web/pages.h"
#include "web/problem.h"
#include "web/render.h"
#include "web/routes.h"

namespace bide::web {
namespace {

using work::Answer;

constexpr std::int64_t kLogPage = 1 << 20;  // bytes of a log in one answer

Problem no_such_run(std::int64_t run) {
  return problem("run_not_found", "there is no run " + std::to_string(run), "bide runs");
}
Problem bad_query(std::string_view name, const std::string& why) {
  return problem("bad_request", "the query's " + std::string(name) + " " + why);
}

// -- Starting.

std::variant<work::StartRequest, Problem> read_start(Request& request) {
  if (auto bad = check_body(request, {{"workflow", Kind::string, true},
                                      {"input"},
                                      {"key", Kind::string},
                                      {"mission", Kind::string},
                                      {"priority", Kind::integer},
                                      {"run_at", Kind::string},
                                      {"labels", Kind::object}})) {
    return *bad;
  }
  const std::string& body = request.body;
  work::StartRequest start;
  start.workflow = json::string_member(body, "workflow").value_or("");
  start.input = json::member(body, "input").value_or("{}");
  if (auto large = check_size("input", start.input)) return *large;
  start.key = json::string_member(body, "key");
  start.mission = json::string_member(body, "mission");
  start.priority = json::int_member(body, "priority").value_or(0);
  const auto labels = json::member(body, "labels");
  if (labels && *labels != "null") start.labels = *labels;
  for (const auto& text : {start.key, start.mission}) {
    if (text && (text->empty() || text->size() > limits::kKeyBytes)) {
      return problem("invalid", "key and mission have 1 to " + std::to_string(limits::kKeyBytes) + " bytes");
    }
  }
  if (const auto run_at = json::string_member(body, "run_at")) {
    start.run_at = parse_time(*run_at);
    if (!start.run_at) return misfit("/run_at", "must be an RFC 3339 time");
  }
  return start;
}

Answer started(const kernel::StartOutcome& outcome, const std::string& workflow) {
  const auto document = [&workflow](RunId run, bool existed) {
    json::Writer out;
    out.begin_object().member("id", run.value).member("workflow", workflow).member("existed", existed).end_object();
    return out.take();
  };
  if (const auto* begun = std::get_if<kernel::RunStarted>(&outcome))
    return {201, document(begun->run, false), {}, false};
  if (const auto* there = std::get_if<kernel::RunExists>(&outcome)) return {200, document(there->run, true), {}, false};
  const RunId run = std::get<kernel::StartKeyTaken>(outcome).run;
  Problem taken =
      problem("start_key_conflict", "run " + std::to_string(run.value) + " began under this key with another input",
              "bide show " + std::to_string(run.value));
  taken.extra = "\"run\":" + std::to_string(run.value);
  return answer_of(taken);
}

Response start_run(Ports& ports, Request& request) {
  auto read = read_start(request);
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& start = std::get<work::StartRequest>(read);
  const auto key = command_key(request);
  if (const auto* bad = std::get_if<Problem>(&key)) return problem_response(*bad);
  kernel::Principal by = who(request);
  if (request.principal.is_attempt()) {  // the command of a step: it may run again, and its start must not
    if (!start.key) {
      Problem bad = problem("invalid", "/key is missing: a step may run again, and must not start a second run");
      bad.errors.push_back({"/key", "is missing"});
      bad.hint = "bide run " + start.workflow + " --key KEY";
      return problem_response(bad);
    }
    const auto row =
        ports.commands.store().read([&](db::ReadTx& tx) { return kernel::read_run(tx, *request.principal.run); });
    if (row) by.name = row->created_by;
  }
  return respond(
      ports.commands.start_run(start, by, std::get<work::Commands::Once>(key),
                               [&](const kernel::StartOutcome& outcome) { return started(outcome, start.workflow); }));
}

// -- Reading.

std::variant<kernel::RunFilter, Problem> read_filter(const Request& request) {
  const auto page = read_page(request);
  if (const auto* bad = std::get_if<Problem>(&page)) return *bad;
  kernel::RunFilter filter;
  filter.limit = std::get<Page>(page).limit;
  filter.before = RunId(std::get<Page>(page).after);
  if (const std::string* status = request.query_value("status")) {
    filter.status = kernel::run_status_from(*status);
    if (!filter.status) return bad_query("status", "must be queued, running, waiting, completed, failed or cancelled");
  }
  if (const std::string* workflow = request.query_value("workflow")) filter.workflow = *workflow;
  if (const std::string* mission = request.query_value("mission")) filter.mission = *mission;
  return filter;
}

// ?label=name or ?label=name=value.
std::vector<kernel::RunRow> labelled_runs(db::ReadTx& tx, const kernel::RunFilter& filter, const std::string& label) {
  kernel::ActionFilter wanted{filter.status, filter.workflow, filter.mission, {}, {}};
  const std::size_t equals = label.find('=');
  wanted.label = label.substr(0, equals);
  if (equals != std::string::npos) wanted.label_value = label.substr(equals + 1);
  std::vector<kernel::RunRow> runs;
  for (const RunId run : kernel::runs_with_label(tx, wanted, filter.before, filter.limit)) {
    if (auto row = kernel::read_run(tx, run)) runs.push_back(std::move(*row));
  }
  return runs;
}

Response list_runs(Ports& ports, Request& request) {
  const auto filter = read_filter(request);
  if (const auto* bad = std::get_if<Problem>(&filter)) return problem_response(*bad);
  auto wanted = std::get<kernel::RunFilter>(filter);
  const std::string* label = request.query_value("label");
  json::Writer out;
  out.begin_object();
  const auto next = ports.commands.store().read([&](db::ReadTx& tx) {
    const auto read = [&](std::int64_t before, int most) {
      wanted.before = RunId(before);
      wanted.limit = most;
      return label == nullptr ? kernel::list_runs(tx, wanted) : labelled_runs(tx, wanted, *label);
    };
    return write_items(
        out, {wanted.before.value, wanted.limit}, read, [&](const kernel::RunRow& run) { write_run(out, run); },
        [](const kernel::RunRow& run) { return run.id.value; });
  });
  write_next(out, next);
  return json_response(200, out.end_object().take());
}

// "Until it ends or waits": for somebody to do something, not for a clock.
bool rests(const kernel::RunRow& run, const kernel::Explanation& explanation) {
  if (kernel::terminal(run.status)) return true;
  if (run.status == kernel::RunStatus::running) return false;
  return std::any_of(explanation.waiting_on.begin(), explanation.waiting_on.end(),
                     [](const kernel::WaitingOn& wait) { return wait.kind != kernel::WaitKind::timer; });
}

// What is derived from its journal [J7, J10], what it is tied to [X4, X7, A11], and what its end would take back [E6].
std::string with_more(std::string document, db::ReadTx& tx, RunId run) {
  json::Writer more;
  more.begin_object().member_raw("usage", kernel::to_json(kernel::run_usage(tx, run))).key("state").begin_object();
  for (const auto& [name, value] : kernel::run_state(tx, run)) more.member_raw(name, value);
  more.end_object();
  const auto next = kernel::continued_as(tx, run);
  more.key("continued_as");
  next ? more.number(next->value) : more.null();
  const kernel::RunLinks links = kernel::run_links(tx, run);
  more.member("version", links.version);
  for (const auto& [name, other] : {std::pair("forked_from", links.forked_from), std::pair("parent", links.parent)}) {
    more.key(name);
    other.valid() ? more.number(other.value) : more.null();
  }
  more.key("to_undo").begin_array();
  for (const kernel::Compensation& one : kernel::open_compensations(tx, run)) {
    more.begin_object().member("seq", one.seq).member("step", one.step).end_object();
  }
  more.end_array();
  document.back() = ',';
  return document + more.end_object().text().substr(1);
}

Response one_run(Ports& ports, Request& request) {
  const auto id = path_id(request, "run_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return problem_response(*bad);
  const RunId run(std::get<std::int64_t>(id));
  db::Store& store = ports.commands.store();
  return long_poll(ports, request, [&]() -> Look {
    return store.read([&](db::ReadTx& tx) -> Look {
      const auto row = kernel::read_run(tx, run);
      const auto more = kernel::explain_run(tx, run, {}, store.now());
      if (!row || !more) return {true, problem_response(no_such_run(run.value))};
      json::Writer out;
      write_run(out, *row, &*more);
      return {rests(*row, *more), json_response(200, with_more(out.take(), tx, run))};
    });
  });
}

Response journal(Ports& ports, Request& request) {
  const auto id = path_id(request, "run_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return problem_response(*bad);
  const auto page = read_page(request);
  if (const auto* bad = std::get_if<Problem>(&page)) return problem_response(*bad);
  const auto& [after, limit] = std::get<Page>(page);
  const RunId run(std::get<std::int64_t>(id));
  return ports.commands.store().read([&, first = after, most = limit](db::ReadTx& tx) {
    if (!kernel::read_run(tx, run)) return problem_response(no_such_run(run.value));
    json::Writer out;
    out.begin_object();
    const auto next = write_items(
        out, {first, most}, [&](std::int64_t from, int some) { return kernel::journal_page(tx, run, from, some); },
        [&](const kernel::StepRow& step) { write_step(out, step); },
        [](const kernel::StepRow& step) { return step.seq; });
    write_next(out, next);
    return json_response(200, out.end_object().take());
  });
}

Response explain(Ports& ports, Request& request) {
  const auto id = path_id(request, "run_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return problem_response(*bad);
  const RunId run(std::get<std::int64_t>(id));
  const auto told = work::explain(ports.commands.store(), ports.commands.executor(), run);
  if (!told) return problem_response(no_such_run(run.value));
  return json_response(200, kernel::to_json(*told));
}

// The program's output from ?offset= on, at most 1 MiB; Bide-Next-Offset says where the next part begins.
Response log(Ports& ports, Request& request) {
  const auto id = path_id(request, "run_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return problem_response(*bad);
  const RunId run(std::get<std::int64_t>(id));
  const bool there = ports.commands.store().read([&](db::ReadTx& tx) { return kernel::read_run(tx, run).has_value(); });
  if (!there) return problem_response(no_such_run(run.value));
  std::int64_t offset = 0;
  if (const std::string* text = request.query_value("offset")) {
    const auto number = *text == "0" ? std::optional<std::int64_t>(0) : parse_number(*text);
    if (!number) return problem_response(bad_query("offset", "must be a number of bytes"));
    offset = *number;
  }
  Response response;
  response.content_type = "text/plain; charset=utf-8";
  const std::string path = ports.log_file ? ports.log_file(run) : "";
  Fd fd(path.empty() ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat file {};
  std::int64_t size = 0;
  if (fd.valid() && ::fstat(fd.get(), &file) == 0 && S_ISREG(file.st_mode)) size = file.st_size;
  std::int64_t end = size;
  if (offset < size) {  // the middle of one that grew too large is a hole: it is passed over
    if (const off_t data = ::lseek(fd.get(), offset, SEEK_DATA); data > offset) offset = data;
    if (const off_t hole = ::lseek(fd.get(), offset, SEEK_HOLE); hole > offset) end = hole;
  }
  const std::int64_t length = std::clamp<std::int64_t>(end - offset, 0, kLogPage);
  response.with("Bide-Next-Offset", std::to_string(offset + length));
  if (length > 0) response.file = FileBytes{std::move(fd), offset, length};
  return response;
}

// -- Commands.

Answer cancelled(RunId run, const kernel::CancelOutcome& outcome) {
  const auto document = [run](std::string_view status) {
    json::Writer out;
    out.begin_object().member("id", run.value).member("status", status).end_object();
    return out.take();
  };
  if (const auto* ended = std::get_if<kernel::CancelEnded>(&outcome)) {
    if (ended->left.empty()) return {200, document("cancelled"), {}, false};
    json::Writer out;  // what stays as it is in the world
    out.begin_object().member("id", run.value).member("status", "cancelled").key("not_compensated").begin_array();
    for (const auto& one : ended->left) out.begin_object().member("seq", one.seq).member("step", one.step).end_object();
    return {200, out.end_array().end_object().take(), {}, false};
  }
  if (std::holds_alternative<kernel::CancelTold>(outcome)) return {202, document("cancelling"), {}, false};
  if (std::holds_alternative<kernel::CancelCompensates>(outcome)) return {202, document("compensating"), {}, false};
  if (const auto* ended = std::get_if<kernel::AlreadyEnded>(&outcome)) {
    Problem over = problem("run_ended", "the run has ended: " + std::string(to_text(ended->status)),
                           "bide show " + std::to_string(run.value));
    over.extra = "\"run_status\":" + json::quote(to_text(ended->status));
    return answer_of(over);
  }
  return answer_of(no_such_run(run.value));
}

// What every command on one run needs: its id, its body, its key.
struct Command {
  RunId run;
  work::Commands::Once once;
};
std::variant<Command, Problem> read_command(Request& request, std::initializer_list<Member> members) {
  const auto id = path_id(request, "run_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return *bad;
  if (auto bad = check_body(request, members)) return *bad;
  auto key = command_key(request);
  if (const auto* bad = std::get_if<Problem>(&key)) return *bad;
  return Command{RunId(std::get<std::int64_t>(id)), std::get<work::Commands::Once>(std::move(key))};
}

Response cancel(Ports& ports, Request& request) {
  const auto read = read_command(request, {{"reason", Kind::string}, {"without_compensation", Kind::boolean}});
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& command = std::get<Command>(read);
  const kernel::CancelAsk ask{who(request).name, json::string_member(request.body, "reason").value_or(""),
                              json::bool_member(request.body, "without_compensation").value_or(false)};
  return respond(ports.commands.cancel(command.run, ask, command.once, [&](const kernel::CancelOutcome& outcome) {
    return cancelled(command.run, outcome);
  }));
}

Response retry(Ports& ports, Request& request) {
  const auto read = read_command(request, {});
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& command = std::get<Command>(read);
  return respond(
      ports.commands.retry(command.run, who(request), command.once, [&](const kernel::RetryOutcome& outcome) {
        if (const auto* refused = std::get_if<Problem>(&outcome)) return answer_of(*refused);
        json::Writer out;
        out.begin_object().member("id", command.run.value).member("status", "queued").end_object();
        return Answer{200, out.take(), {}, false};
      }));
}

// W9: gone for everybody when it is answered; its rows and files go in the background.
Response remove(Ports& ports, Request& request) {
  const auto id = path_id(request, "run_not_found");
  if (const auto* bad = std::get_if<Problem>(&id)) return problem_response(*bad);
  const auto key = command_key(request);
  if (const auto* bad = std::get_if<Problem>(&key)) return problem_response(*bad);
  const RunId run(std::get<std::int64_t>(id));
  return respond(ports.commands.delete_run(
      run, who(request), std::get<work::Commands::Once>(key), [&](const kernel::DeleteOutcome& outcome) {
        if (const auto* refused = std::get_if<Problem>(&outcome)) return answer_of(*refused);
        json::Writer out;
        out.begin_object().member("id", run.value).member("status", "deleted").end_object();
        return Answer{200, out.take(), {}, false};
      }));
}

// {"from":n,"latest":bool}: the first n entries are copied.
Response fork_of(Ports& ports, Request& request) {
  const auto read = read_command(request, {{"from", Kind::integer, true}, {"latest", Kind::boolean}});
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& command = std::get<Command>(read);
  const std::int64_t entries = json::int_member(request.body, "from").value_or(-1);
  if (entries < 0) return problem_response(problem("invalid", "from is the number of entries to copy, 0 or more"));
  const bool latest = json::bool_member(request.body, "latest").value_or(false);
  return respond(ports.commands.fork_run(
      command.run, entries, latest, who(request), command.once, [&](const kernel::ForkOutcome& outcome) {
        if (const auto* refused = std::get_if<Problem>(&outcome)) return answer_of(*refused);
        const auto& forked = std::get<kernel::Forked>(outcome);
        json::Writer out;
        out.begin_object().member("id", forked.run.value).member("forked_from", command.run.value);
        out.member("copied", forked.copied).end_object();
        return Answer{201, out.take(), "/v1/runs/" + std::to_string(forked.run.value), false};
      }));
}

Response set_paused(Ports& ports, Request& request, bool paused) {
  const auto read = read_command(request, {});
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& command = std::get<Command>(read);
  return respond(
      ports.commands.pause(command.run, paused, who(request), command.once, [&](const kernel::PauseOutcome& outcome) {
        if (const auto* refused = std::get_if<Problem>(&outcome)) return answer_of(*refused);
        const auto* changed = std::get_if<kernel::PauseChanged>(&outcome);
        const bool later = paused && changed != nullptr && changed->running;  // at its next step boundary
        json::Writer out;
        out.begin_object().member("id", command.run.value);
        out.member("status", later ? "pausing" : paused ? "paused" : "resumed").end_object();
        return Answer{later ? 202 : 200, out.take(), {}, false};
      }));
}
Response pause(Ports& ports, Request& request) { return set_paused(ports, request, true); }
Response resume(Ports& ports, Request& request) { return set_paused(ports, request, false); }

// {"payload":…,"dedupe_key":"…"}
Response signal(Ports& ports, Request& request) {
  const auto read = read_command(request, {{"payload"}, {"dedupe_key", Kind::string}});
  if (const auto* bad = std::get_if<Problem>(&read)) return problem_response(*bad);
  const auto& command = std::get<Command>(read);
  const std::string& name = request.capture("name");
  if (name.size() > limits::kNameBytes) return problem_response(problem("invalid", "a name may have 128 bytes"));
  const std::string payload = json::member(request.body, "payload").value_or("null");
  if (const auto large = check_size("payload", payload)) return problem_response(*large);
  const auto dedupe = json::string_member(request.body, "dedupe_key");
  return respond(ports.commands.signal(
      command.run, name, payload, dedupe, who(request), command.once, [&](const kernel::SignalOutcome& outcome) {
        if (const auto* refused = std::get_if<Problem>(&outcome)) return answer_of(*refused);
        json::Writer out;
        out.begin_object();
        if (const auto* sent = std::get_if<kernel::SignalSent>(&outcome)) {
          out.member("id", sent->id.value).member("repeated", false).member("consumed", sent->consumed);
        } else {
          out.member("id", std::get<kernel::SignalRepeated>(outcome).id.value).member("repeated", true);
        }
        out.end_object();
        return Answer{200, out.take(), {}, false};
      }));
}

}  // namespace

void add_run_routes(Router& router, Ports& ports) {
  const auto with = [&ports](Response (*handler)(Ports&, Request&)) {
    return [&ports, handler](Request& request) { return handler(ports, request); };
  };
  router.add({.method = "POST", .pattern = "/v1/runs", .handler = with(start_run), .scope = kStart, .by_step = true});
  router.get("/v1/runs", kRead, with(list_runs));
  router.get("/v1/runs/{id}", kRead, with(one_run), Lane::preferred);
  router.del("/v1/runs/{id}", kAdmin, with(remove));
  router.get("/v1/runs/{id}/journal", kRead, with(journal));
  router.get("/v1/runs/{id}/log", kRead, with(log));
  router.get("/v1/runs/{id}/explain", kRead, with(explain));
  router.post("/v1/runs/{id}/cancel", kStart, with(cancel));
  router.post("/v1/runs/{id}/retry", kStart, with(retry));
  router.post("/v1/runs/{id}/fork", kStart, with(fork_of));
  router.post("/v1/runs/{id}/pause", kStart, with(pause));
  router.post("/v1/runs/{id}/resume", kStart, with(resume));
  router.post("/v1/runs/{id}/signals/{name}", kStart, with(signal));
}

}  // namespace bide::web
