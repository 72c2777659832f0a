// bide rehearse: a straight run and one that is killed after every verb, on an agent of its own in this process, and
// what the second one did otherwise.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <ostream>

#include "agent/base/json.h"
#include "agent/base/log.h"
#include "agent/base/text.h"
#include "agent/cli/scratch.h"
#include "agent/cli/verbs.h"
#include "agent/cli/workflow_files.h"
#include "agent/service.h"
#include "agent/work/program_driver.h"
#include "agent/work/rehearsal_differences.h"

namespace bide::cli {
namespace {

namespace fs = std::filesystem;
using work::RehearsalDifference;
using work::RehearsalTrace;

constexpr DurationMs kMost = 600'000;   // a run whose waits are answered at once takes as long as its steps
constexpr std::size_t kMoreVerbs = 10;  // beyond twice as many, a killed run is not waited for

// Between the attempts of a run days pass, for `date` in the program itself: what it prints there is another day's at
// the next attempt. In a step's command it is the system's.
std::string date_of_another_day(const std::string& folder, const std::string& path) {
  std::string real;
  for (std::size_t from = 0; from <= path.size() && real.empty();) {
    const std::size_t to = std::min(path.find(':', from), path.size());
    const std::string here = path.substr(from, to - from) + "/date";
    if (::access(here.c_str(), X_OK) == 0) real = here;
    from = to + 1;
  }
  if (real.empty()) return path;
  fs::create_directories(folder);
  std::ofstream(folder + "/date") << "#!/bin/sh\nreal=" << real << R"sh(
[ -n "${BIDE_ATTEMPT-}" ] || exec "$real" "$@"
for word; do
  case $word in -d* | --date* | -f* | --file* | -r* | --ref* | -s* | --set*) exec "$real" "$@" ;; esac
done
epoch=${BIDE_ATTEMPT#bat_*_}
exec "$real" -d "@$(($("$real" +%s) + (BIDE_RUN * 1000 + ${epoch%%_*}) * 90061))" "$@"
)sh";
  fs::permissions(folder + "/date", fs::perms(0755));
  return folder + ":" + path;
}

work::RehearsalAnswers answers_of(const Arguments& arguments) {
  work::RehearsalAnswers answers;
  answers.stub_steps = arguments.stub_steps;
  for (const std::string& text : arguments.answers) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) throw ConfigFault("--answer " + text + ": write NAME=VALUE");
    answers.by_name[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return answers;
}

// What somebody answered, or did not, is no fault of the program.
bool ended_by_answer(const RehearsalTrace& trace) {
  const std::string code = json::string_member(trace.error, "code").value_or("");
  return code == "Denied" || code == "ChangesRequested" || code == "Expired";
}

struct Rehearsed {
  RehearsalTrace straight;
  std::optional<RehearsalTrace> killed;  // absent: the straight run failed
  std::optional<RehearsalTrace> again;   // a second straight run, where the killed one did something otherwise
  std::vector<RehearsalDifference> found;
  // What a run leaves behind outside of its workspace is in the way of the next: then nothing can be compared.
  [[nodiscard]] bool repeatable() const { return !again || again->completed() || ended_by_answer(*again); }
  [[nodiscard]] bool well() const { return killed && found.empty() && repeatable(); }
  [[nodiscard]] int runs() const { return 1 + (killed ? 1 : 0) + (again ? 1 : 0); }
};

Rehearsed rehearse(work::Rehearser& rehearser, const std::string& name, const std::string& input) {
  Rehearsed all;
  all.straight = rehearser.run(name, input, false);
  if (!all.straight.completed() && !ended_by_answer(all.straight)) return all;
  all.killed = rehearser.run(name, input, true, 2 * all.straight.journal.size() + kMoreVerbs);
  all.found = work::differences(all.straight, *all.killed, nullptr);
  if (all.found.empty()) return all;
  all.again = rehearser.run(name, input, false);
  all.found = work::differences(all.straight, *all.killed, &*all.again);
  return all;
}

std::string verbs(std::size_t n) { return std::to_string(n) + (n == 1 ? " verb" : " verbs"); }

void say_failed(Console& console, const std::string& what, const RehearsalTrace& trace) {
  const std::string message = json::string_member(trace.error, "message").value_or("");
  const std::string said(trim(json::string_member(trace.error, "stderr").value_or("")));
  console.out << what << ": " << printable(json::string_member(trace.error, "code").value_or("cancelled")) << ": "
              << printable(message) << "\n";
  if (!said.empty()) console.out << printable(said.substr(said.rfind('\n') + 1)) << "\n";
}

void say(Console& console, const std::string& name, const Rehearsed& all) {
  if (!all.killed) return say_failed(console, "a straight run of " + name + " fails already", all.straight);
  if (!all.repeatable()) {
    say_failed(console, name + " cannot be rehearsed: a second straight run fails, where the first did not",
               *all.again);
    console.out
        << "what a run leaves outside of its workspace is in the way of the next: put it into a step that bears "
           "to be repeated, or into the workspace\n";
    return;
  }
  console.out << name << ": " << verbs(all.straight.journal.size()) << "; killed after each that recorded something\n";
  for (const RehearsalDifference& one : all.found) console.out << printable(one.sentence()) << "\n";
  if (all.found.empty())
    console.out << "no difference to a straight run in the journal, the result and the files of the workspace ("
                << all.runs() << " runs; what lies elsewhere is not compared, no probe was asked)\n";
}

std::string document(const std::string& name, const Rehearsed& all) {
  const auto run = [](json::Writer& out, const char* member, const RehearsalTrace& trace) {
    out.key(member).begin_object().member("status", to_text(trace.status)).member("attempts", trace.attempts);
    out.member("verbs", static_cast<std::int64_t>(trace.journal.size())).member_raw("result", trace.result);
    if (!trace.completed()) out.member_raw("error", trace.error);
    out.end_object();
  };
  json::Writer out;
  out.begin_object().member("workflow", name).member("ok", all.well());
  run(out, "straight", all.straight);
  if (all.killed) run(out, "killed", *all.killed);
  if (all.again) run(out, "again", *all.again);
  out.key("differences").begin_array();
  for (const RehearsalDifference& one : all.found) {
    out.begin_object().member("after", one.after).member("what", one.what).member("advice", one.advice).end_object();
  }
  return out.end_array().end_object().take();
}

}  // namespace

int verb_rehearse(Console& console, const Arguments& arguments) {
  WorkflowPlace place = find_workflow_files(arguments);
  const std::string input = typed_json(arguments.input, "the input", console);
  const auto answers = answers_of(arguments);
  const Scratch scratch(arguments.keep);
  Config& config = place.config;
  scratch.take_in(config);
  config.path =
      date_of_another_day(scratch.path() + "/path", config.path.empty() ? work::ProgramSettings().path : config.path);
  log::set_level(log::Level::error);
  Service::block_signals();
  work::MovableClock clock;
  const std::string workspaces = config.data_dir + "/workspaces/";
  work::RehearsalWatch watch(answers, [workspaces](RunId run) { return workspaces + std::to_string(run.value); });
  std::optional<Rehearsed> all;
  std::string why_not;
  {
    Service service(config, {}, {&clock, &watch});
    service.start();
    try {
      work::Rehearser rehearser(service.commands(), clock, watch, arguments.wait_for.value_or(kMost), was_signalled);
      all = rehearse(rehearser, place.name, input);
    } catch (const work::CannotRehearse& cannot) {
      why_not = cannot.why ? told(*cannot.why) : cannot.what();
    }
    (void)service.stop();
  }
  if (!all) {
    console.err << "bide: " << place.name << " cannot be rehearsed: " << printable(why_not) << "\n";
    return kUsage;
  }
  if (const std::string unused = watch.unused(); !unused.empty() && all->killed && all->repeatable())
    console.err << "bide: nothing asked for --answer " << printable(unused) << "\n";
  if (arguments.json) {
    print_json(console, document(place.name, *all));
  } else {
    say(console, place.name, *all);
  }
  return all->well() ? kDone : kFailed;
}

}  // namespace bide::cli
