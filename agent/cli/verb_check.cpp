// bide check: what in a workflow's script does not bear to be killed and run again, found by reading it; and whether
// the open runs would go on in the version that lies in the folder.
#include <algorithm>
#include <ostream>

#include "agent/base/clock.h"
#include "agent/base/json.h"
#include "agent/base/log.h"
#include "agent/base/text.h"
#include "agent/cli/scratch.h"
#include "agent/cli/verb_usage.h"
#include "agent/cli/verbs.h"
#include "agent/cli/workflow_files.h"
#include "agent/service.h"
#include "agent/work/program_files.h"
#include "agent/work/replay_check.h"
#include "agent/work/script_check.h"

namespace bide::cli {
namespace {

using work::RecordedRun;
using work::ReplayVerdict;
using work::ScriptFinding;

constexpr DurationMs kMost = 120'000;  // a replay runs no step: seconds, unless what is between the steps hangs

struct Checked {
  std::vector<ScriptFinding> findings;
  std::optional<std::vector<ReplayVerdict>> runs;  // absent: no agent answers
  [[nodiscard]] bool well() const {
    bool all = findings.empty();
    for (const auto& run : runs.value_or(std::vector<ReplayVerdict>())) all &= run.says != ReplayVerdict::Says::fails;
    return all;
  }
};

std::vector<ScriptFinding> read_scripts(const WorkflowPlace& place) {
  SystemClock clock;
  work::ProgramFiles files(place.config.workflows_dir, clock);
  const auto read = files.read(place.name);
  if (const auto* refused = std::get_if<Problem>(&read)) throw ConfigFault(told(*refused));
  const auto& tree = std::get<work::ProgramTree>(read);
  std::vector<ScriptFinding> found;
  for (const auto& file : tree.files) {
    const auto bytes = files.bytes(tree, file);
    if (const auto* refused = std::get_if<Problem>(&bytes)) throw ConfigFault(refused->detail);
    const std::string& text = std::get<std::string>(bytes);
    std::vector<ScriptFinding> here = work::check_script(file.path, text);
    for (auto& finding : check_usage(file.path, work::verb_calls(file.path, text))) here.push_back(std::move(finding));
    std::stable_sort(here.begin(), here.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
    for (auto& finding : here) found.push_back(std::move(finding));
  }
  return found;
}

// -- The open runs, as the agent tells them.

kernel::StepRow read_entry(const std::string& entry) {
  const auto text = [&](const char* member) { return json::string_member(entry, member).value_or(""); };
  const auto raw = [&](const char* member) {
    auto value = json::member(entry, member);
    return value == "null" ? std::nullopt : std::move(value);
  };
  kernel::StepRow row;
  row.seq = json::int_member(entry, "seq").value_or(0);
  row.position = text("position");
  row.kind = kernel::step_kind_from(text("kind")).value_or(kernel::StepKind::step);
  row.name = text("name");
  row.effect = kernel::effect_from(text("effect")).value_or(kernel::Effect::non_idempotent);
  row.status = kernel::step_status_from(text("status")).value_or(kernel::StepStatus::started);
  row.executions = json::int_member(entry, "executions").value_or(1);
  row.failures = json::int_member(entry, "failures").value_or(0);
  row.retries = json::int_member(entry, "retries").value_or(0);
  row.request = json::member(entry, "request").value_or("null");
  // A result may be null, too.
  row.error = raw("error");
  if (row.status == kernel::StepStatus::completed && !row.error) row.result = json::member(entry, "result");
  return row;
}

RecordedRun read_recorded(Client& client, std::int64_t id, const std::string& data) {
  const std::string path = "/v1/runs/" + std::to_string(id);
  const std::string document = accepted(client.get(path)).body;
  RecordedRun run;
  run.id = RunId(id);
  run.status = json::string_member(document, "status").value_or("");
  run.input = json::member(document, "input").value_or("{}");
  if (!data.empty()) run.workspace = data + "/workspaces/" + std::to_string(id);
  const std::string journal = all_pages(client, path + "/journal");
  for (std::size_t i = 0; const auto entry = json::at_pointer(journal, "/items/" + std::to_string(i)); ++i)
    run.journal.push_back(read_entry(*entry));
  return run;
}

std::vector<RecordedRun> open_runs(Client& client, const std::string& workflow) {
  std::vector<RecordedRun> runs;
  const std::string data = json::string_member(accepted(client.get("/v1/info")).body, "data").value_or("");
  for (const char* status : {"waiting", "queued", "running"}) {
    const std::string page =
        all_pages(client, "/v1/runs?status=" + std::string(status) + "&workflow=" + percent_encode(workflow));
    for (std::size_t i = 0; const auto run = json::at_pointer(page, "/items/" + std::to_string(i)); ++i)
      runs.push_back(read_recorded(client, json::int_member(*run, "id").value_or(0), data));
  }
  return runs;
}

std::vector<ReplayVerdict> replay(const WorkflowPlace& place, std::vector<RecordedRun> runs) {
  if (runs.empty()) return {};
  const Scratch scratch("");
  Config config = place.config;
  scratch.take_in(config);
  log::set_level(log::Level::error);
  Service::block_signals();
  work::ReplayWatch watch;
  Service service(config, {}, {nullptr, &watch});
  service.start();
  std::vector<ReplayVerdict> said;
  std::string why_not;
  try {
    said = work::replay_all(service.commands(), place.name, std::move(runs), config.data_dir + "/workspaces/", kMost,
                            was_signalled);
  } catch (const work::CannotRehearse& cannot) {
    why_not = cannot.what();
  }
  (void)service.stop();
  if (!why_not.empty()) throw ConfigFault("the open runs of " + place.name + " cannot be replayed: " + why_not);
  return said;
}

// -- What is said.

const char* word(ReplayVerdict::Says says) {
  switch (says) {
    case ReplayVerdict::Says::goes_on: return "goes_on";
    case ReplayVerdict::Says::completes: return "completes";
    case ReplayVerdict::Says::fails: return "fails";
  }
  return "";
}

std::string document(const std::string& name, const Checked& checked) {
  json::Writer out;
  out.begin_object().member("workflow", name).member("ok", checked.well()).key("findings").begin_array();
  for (const auto& one : checked.findings) {
    out.begin_object().member("file", one.file).member("line", one.line).member("code", one.code);
    out.member("text", one.text).member("what", one.what).member("instead", one.instead).end_object();
  }
  out.end_array().key("runs");
  if (!checked.runs) return out.null().end_object().take();
  out.begin_array();
  for (const auto& run : *checked.runs) {
    out.begin_object().member("run", run.run.value).member("status", run.status).member("says", word(run.says));
    if (!run.where.empty()) out.member("at", run.where);
    if (!run.error.empty()) out.member_raw("error", run.error);
    out.end_object();
  }
  return out.end_array().end_object().take();
}

void say_run(Console& console, const ReplayVerdict& run) {
  console.out << "run " << run.run.value << " (" << run.status << ") ";
  switch (run.says) {
    case ReplayVerdict::Says::goes_on: console.out << "goes on at " << printable(run.where) << "\n"; return;
    case ReplayVerdict::Says::completes: console.out << "completes\n"; return;
    case ReplayVerdict::Says::fails: break;
  }
  const std::string code = json::string_member(run.error, "code").value_or("failed");
  console.out << "would end: " << printable(code) << ": "
              << printable(json::string_member(run.error, "message").value_or("")) << "\n";
}

void say(Console& console, const std::string& name, const Checked& checked) {
  for (const auto& one : checked.findings) {
    console.out << one.file << ":" << one.line << ": " << printable(one.text) << "\n  " << printable(one.what)
                << "\n  instead: " << printable(one.instead) << "\n";
  }
  if (checked.findings.empty()) console.out << name << ": nothing found by reading; bide rehearse tries it out\n";
  for (const auto& run : checked.runs.value_or(std::vector<ReplayVerdict>())) say_run(console, run);
}

}  // namespace

int verb_check(Session& session) {
  const WorkflowPlace place = find_workflow_files(session.arguments);
  Checked checked;
  checked.findings = read_scripts(place);
  try {
    checked.runs = replay(place, open_runs(session.client, place.name));
  } catch (const Unreachable&) {
    session.console.err << "bide: no agent answers: its open runs are not looked at\n";
  }
  if (session.arguments.json) {
    print_json(session.console, document(place.name, checked));
  } else {
    say(session.console, place.name, checked);
  }
  return checked.well() ? kDone : kFailed;
}

}  // namespace bide::cli
