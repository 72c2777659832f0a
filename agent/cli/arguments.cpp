#include "agent/cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "agent/base/text.h"
#include "agent/cli/arguments_operate.h"
#include "agent/cli/cli.h"

namespace bide::cli {
namespace {

std::string check_number(const std::string& text) {
  const auto number = parse_number(text);
  return number && *number > 0 ? "" : "\"" + text + "\" is no number, as bide runs and bide inbox show them";
}

CLI::Option* takes_id(CLI::App& app, Arguments& a, const char* what, const char* help) {
  return app.add_option(what, a.id, help)->required()->check(check_number)->type_name("");
}

void for_serve(CLI::App& app, Arguments& a) {
  app.add_option_function<std::string>(
         "--config", [&a](const std::string& file) { a.config = file; }, "configuration file (TOML)")
      ->type_name("FILE");
  for (const ConfigFlag& flag : config_flags()) {
    app.add_option_function<std::string>(
           flag.flag, [&a, key = flag.key](const std::string& text) { a.flags.emplace_back(key, text); }, flag.help)
        ->type_name(flag.value);
  }
  app.add_flag("--print-config", a.print_config, "show what is in force and where it comes from, and exit");
}

void for_run(CLI::App& app, Arguments& a) {
  app.add_option("WORKFLOW", a.name, "name of the workflow")->required()->type_name("");
  app.add_option("--input", a.input, "the input: JSON, @FILE, or - for stdin")->type_name("JSON");
  app.add_option("--key", a.key, "start key: a second start with it is the same run")->type_name("K");
  app.add_option("--mission", a.mission, "what the run is a part of")->type_name("M");
  app.add_option_function<std::string>(
         "--wait",
         [&a](const std::string& text) {
           a.wait = true;
           if (text != "forever") a.wait_for = parse_duration(text);
         },
         "wait until it ends, at most for T; prints its result alone")
      ->type_name("[T]");
}

void for_runs(CLI::App& app, Arguments& a) {
  app.add_option("--status", a.status, "only those in this state")
      ->type_name("S")
      ->check(CLI::IsMember({"queued", "running", "waiting", "completed", "failed", "cancelled"}));
  app.add_option("--workflow", a.workflow, "only those of this workflow")->type_name("W");
  app.add_option("--mission", a.mission, "only those of this mission")->type_name("M");
  app.add_option("--limit", a.limit, "how many, newest first")->type_name("N")->default_val(50)->check(check_number);
}

void for_a_run(CLI::App& app, Arguments& a) { takes_id(app, a, "RUN", "number of the run"); }
void for_none(CLI::App&, Arguments&) {}

void for_log(CLI::App& app, Arguments& a) {
  for_a_run(app, a);
  app.add_flag("--follow", a.follow, "go on with what comes, until the run has ended");
  app.add_flag("--all", a.all, "also what attempts wrote again on their way to where the run was");
}

void for_watch(CLI::App& app, Arguments& a) {
  app.add_option("RUN", a.id, "number of the run, with what its program writes; without it, all runs")
      ->check(check_number)
      ->type_name("");
}

void for_cancel(CLI::App& app, Arguments& a) {
  for_many(app, a);
  app.add_option("--reason", a.reason, "why; stands on the run")->type_name("T");
  app.add_flag("--without-compensation", a.without_compensation, "end it without taking back what its steps did");
}

void for_fork(CLI::App& app, Arguments& a) {
  for_a_run(app, a);
  app.add_option("--from", a.from, "how many entries of its journal the new run begins with")
      ->required()
      ->type_name("SEQ");
  app.add_flag("--latest", a.latest, "in the newest version of the workflow");
}

void for_signal(CLI::App& app, Arguments& a) {
  for_a_run(app, a);
  app.add_option("NAME", a.name, "name of the signal")->required()->type_name("");
  app.add_option("JSON", a.value, "payload: JSON, @FILE, or - for stdin")->default_val("null")->type_name("");
  app.add_option("--dedupe-key", a.dedupe_key, "a second signal with it is the same one")->type_name("K");
}

void for_decision(CLI::App& app, Arguments& a) {
  takes_id(app, a, "WAIT", "number of the wait, as bide inbox shows it");
  app.add_option("--comment", a.comment, "stands with the decision")->type_name("T");
  app.add_option("--if-match", a.if_match, "decide only if this is still what is asked")->type_name("ETAG");
}

void for_changes(CLI::App& app, Arguments& a) {
  for_decision(app, a);
  app.get_option("--comment")->required();
}

void for_answer(CLI::App& app, Arguments& a) {
  takes_id(app, a, "WAIT", "number of the wait, as bide inbox shows it");
  app.add_option("VALUE", a.value, "the answer: an option, JSON, or a text; for a step in doubt: ran, run or abort")
      ->required()
      ->type_name("");
  app.add_option_function<std::string>(
         "--result", [&a](const std::string& text) { a.result = text; },
         "with ran: what the step would have given, JSON or @FILE")
      ->type_name("V");
  app.add_flag("--text", a.text, "VALUE is a text, also if it looks like JSON");
  app.add_option("--if-match", a.if_match, "answer only if this is still what is asked")->type_name("ETAG");
}

void for_outbox(CLI::App& app, Arguments& a) {
  app.add_option("ACTION", a.action, "retry, drop or destinations; without it, a list")
      ->type_name("")
      ->check(CLI::IsMember({"retry", "drop", "destinations"}));
  app.add_option("ID", a.id, "number of the delivery")->check(check_number)->type_name("");
  app.add_flag("--parked", a.parked, "only those that somebody must look at");
  app.add_option("--to", a.to, "only those of this destination; retry: all that failed, drop: all")->type_name("URL");
}

void for_webhook(CLI::App& app, Arguments& a) {
  app.add_option("ACTION", a.action, "add, list, remove, test, rotate, enable or disable")
      ->required()
      ->type_name("")
      ->check(CLI::IsMember({"add", "list", "remove", "test", "rotate", "enable", "disable"}));
  app.add_option("WHAT", a.value, "with add, the URL; else the number of the webhook")->type_name("");
  app.add_option("--event", a.events, "hear of this kind: run.failed, wait.*, needs_attention; several may be given")
      ->type_name("KIND")
      ->take_all()
      ->expected(1);
  app.add_option("--workflow", a.workflow, "only of runs of this workflow")->type_name("W");
  app.add_option("--mission", a.mission, "only of runs of this mission")->type_name("M");
  app.add_option("--allow", a.allow, "an address inside that it may go to: 127.0.0.1:9000, 10.0.0.0/8")
      ->type_name("ADDRESS")
      ->take_all()
      ->expected(1);
  app.add_flag("--cloudevents", a.cloudevents, "send CloudEvents 1.0 instead of the plain form of Standard Webhooks");
  app.add_flag("--decision-links", a.decision_links,
               "notices of approvals carry a link that decides: whoever reads them may approve");
  app.add_option("--secret", a.secret, "sign with this one (whsec_…); else a new one is made")->type_name("S");
}

void for_environment(CLI::App& app, Arguments& a) {
  app.add_option("ACTION", a.action, "add, list or remove")
      ->required()
      ->type_name("")
      ->check(CLI::IsMember({"add", "list", "remove"}));
  app.add_option("NAME", a.name, "of the environment, as manifests name it")->type_name("");
  app.add_option("--seed", a.seed, "a folder that it begins as a copy of")->type_name("DIR");
  app.add_option("--delete-after", a.delete_after, "delete it when it was unused for so long; else only by hand")
      ->type_name("D");
  app.add_option("--run", a.id, "delete it when this run has ended")->check(check_number)->type_name("RUN");
}

void for_sql(CLI::App& app, Arguments& a) {
  app.add_option("QUERY", a.value, "one or more statements; without it they are read from stdin")->type_name("");
  app.add_option("--data", a.data_dir, "folder of the file")->type_name("DIR");
}

void for_clock(CLI::App& app, Arguments& a) {
  app.add_option("WHAT", a.name, "accept: the wall clock is right; the agent's clock follows it, backwards too")
      ->required()
      ->type_name("")
      ->check(CLI::IsMember({"accept"}));
}

// Where workflows lie, for verbs that need no agent.
void for_files(CLI::App& app, Arguments& a) {
  app.add_option("WORKFLOW", a.name, "name of the workflow, or the path of its file or folder")
      ->required()
      ->type_name("");
  app.add_option_function<std::string>(
         "--workflows", [&a](const std::string& text) { a.flags.emplace_back("workflows_dir", text); },
         "folder of the workflows")
      ->type_name("DIR");
  app.add_option_function<std::string>(
         "--config", [&a](const std::string& file) { a.config = file; }, "configuration file (TOML)")
      ->type_name("FILE");
}

void for_check(CLI::App& app, Arguments& a) { for_files(app, a); }

void for_rehearse(CLI::App& app, Arguments& a) {
  for_files(app, a);
  app.add_option("--input", a.input, "the input: JSON, @FILE, or - for stdin")->type_name("JSON");
  app.add_option(
         "--answer", a.answers,
         "what a wait gets: approved, denied, JSON or a text; with --stub-steps a step's output too; several may "
         "be given")
      ->type_name("NAME=V")
      ->take_all()
      ->expected(1);
  app.add_flag("--stub-steps", a.stub_steps, "do not run the commands of steps: their output is empty, or --answer's");
  app.add_option("--keep", a.keep, "leave the scratch agent's folder there: workspaces, logs, journals")
      ->type_name("DIR");
  app.add_option_function<std::string>(
         "--timeout",
         [&a](const std::string& text) {
           a.wait_for = parse_duration(text);
           if (!a.wait_for) throw CLI::ValidationError("--timeout", text + " is no length of time, such as 10m");
         },
         "give up when a run has not ended after D (10m)")
      ->type_name("D");
}

void for_completion(CLI::App& app, Arguments& a) {
  app.add_option("SHELL", a.name, "the shell")->required()->type_name("")->check(CLI::IsMember({"bash"}));
}

struct Verb {
  const char* name;
  const char* does;
  bool asks;  // the agent: takes --agent
  void (*build)(CLI::App&, Arguments&);
  const char* examples;
};
const Verb kVerbs[] = {
    {"serve", "start the agent; everything has a default", false, for_serve,
     "bide serve\nbide serve --data /srv/bide --listen none\nbide serve --print-config"},
    {"run", "start a workflow; prints the run's number", true, for_run,
     "bide run rollout --input '{\"url\":\"https://example.org/a\"}'\nbide run backup --input @job.json --key "
     "2026-11-29\n"
     "bide run report --wait 10m > report.json"},
    {"runs", "list runs, newest first", true, for_runs,
     "bide runs\nbide runs --status waiting\nbide runs --workflow rollout --json"},
    {"show", "one run: state, input, result, what it waits for", true, for_a_run, "bide show 12\nbide show 12 --json"},
    {"journal", "the steps of a run", true, for_a_run, "bide journal 12\nbide journal 12 --json"},
    {"log", "what a run's program wrote", true, for_log, "bide log 12\nbide log 12 --follow\nbide log 12 --all"},
    {"watch", "what happens, as it happens: one run to its end, or all of them", true, for_watch,
     "bide watch 12\nbide watch"},
    {"explain", "why a run does not move, and what unblocks it", true, for_a_run, "bide explain 12"},
    {"cancel", "cancel a run, or all that fit", true, for_cancel,
     "bide cancel 12\nbide cancel 12 --reason 'wrong file'\nbide cancel --workflow rollout --status waiting --dry-run"},
    {"rm", "delete a run that is over, with all that belongs to it", true, for_a_run, "bide rm 12"},
    {"export", "a run's whole history as one JSON document", true, for_a_run, "bide export 12 > run-12.json"},
    {"retry", "run a failed run again; completed steps stay", true, for_many,
     "bide retry 12\nbide retry --workflow rollout"},
    {"fork", "a new run that begins with a part of another one's journal", true, for_fork,
     "bide fork 12 --from 3\nbide fork 12 --from 3 --latest"},
    {"pause", "let a run rest: it is not driven until it is resumed", true, for_many,
     "bide pause 12\nbide pause --mission move"},
    {"resume", "let a paused run go on", true, for_many, "bide resume 12\nbide resume --mission move"},
    {"signal", "send a run a signal", true, for_signal,
     "bide signal 12 uploaded\nbide signal 12 price '{\"eur\":40}' --dedupe-key order-7"},
    {"inbox", "what waits for a person", true, for_none, "bide inbox\nbide inbox --json"},
    {"approve", "approve what is asked", true, for_decision, "bide approve 7\nbide approve 7 --comment 'seen the sum'"},
    {"deny", "deny it", true, for_decision, "bide deny 7 --comment 'not on a Friday'"},
    {"request-changes", "send it back with a comment", true, for_changes,
     "bide request-changes 7 --comment 'smaller batches'"},
    {"answer", "answer a question, or say what became of a step in doubt", true, for_answer,
     "bide answer 7 yes\nbide answer 7 '{\"keep\":3}'\nbide answer 8 ran --result '\"abc\"'   it did run, with this "
     "result\n"
     "bide answer 8 run                    it did not: run it\nbide answer 8 abort                  cancel the run"},
    {"outbox", "what has not gone out yet; try again, or drop it", true, for_outbox,
     "bide outbox\nbide outbox --parked\nbide outbox destinations\nbide outbox retry 5\nbide outbox retry --to "
     "https://example.org"},
    {"webhook", "endpoints that hear of events", true, for_webhook,
     "bide webhook add https://example.org/hook --event needs_attention\n"
     "bide webhook add mqtts://broker.example/fleet/box-17   a topic of an MQTT broker\n"
     "bide webhook list\nbide webhook test 1\n"
     "bide webhook rotate 1"},
    {"environment", "folders that runs share", true, for_environment,
     "bide environment add builds --seed /srv/checkout --delete-after 30d\nbide environment list\n"
     "bide environment remove builds"},
    {"workflows", "what there is to start, and how many runs of it", true, for_none, "bide workflows"},
    {"token", "credentials for TCP: add, list, remove", true, for_token,
     "bide token add board --scope read\nbide token add ci --scope start --scope read --expires 90d\nbide token list\n"
     "bide token remove board"},
    {"audit", "verify: is the chain of decisions whole? 0 yes, 2 tampered with, 3 cannot tell", true, for_audit,
     "bide audit verify\nbide audit verify --head 12:9f86d081884c7d65…   a line audit.head of the log"},
    {"doctor", "what is wrong with the agent, its file and disk; ends with 1 if anything is", true, for_none,
     "bide doctor\nbide doctor --json"},
    {"sweep", "one pass of the sweep now, and what it did", true, for_none, "bide sweep"},
    {"clock", "accept: take the wall clock as it is, backwards too", true, for_clock, "bide clock accept"},
    {"drain", "claim nothing new, and say when nothing executes any more", true, for_drain,
     "bide drain && systemctl stop bide\nbide drain --off                       it claims again; so does a restart"},
    {"check", "read a workflow's script for known faults; would its open runs go on in it?", true, for_check,
     "bide check rollout\nbide check ./flows/backup.sh --json"},
    {"rehearse", "try a workflow out, for real: does it bear to be killed between its verbs?", false, for_rehearse,
     "bide rehearse rollout --input '{\"url\":\"https://example.org/a\"}'\n"
     "bide rehearse ./flows/backup.sh --answer prune=no --stub-steps"},
    {"sql", "the agent's file, read-only", false, for_sql,
     "bide sql 'SELECT id, status FROM runs ORDER BY id DESC LIMIT 5'\nbide sql < report.sql"},
    {"ui", "a link to the page, for one use within a minute", true, for_none, "bide ui"},
    {"version", "versions of bide, its file and SQLite", false, for_none, "bide version --json"},
    {"completion", "the script that completes bide's words in a shell", false, for_completion,
     "bide completion bash > /etc/bash_completion.d/bide"},
};
constexpr const char* kWorkflowVerbs[] = {"call", "continue-as-new", "each",  "input", "progress", "result",
                                          "send", "sleep",           "state", "step",  "value",    "wait"};

const Verb* find_verb(const std::string& name) {
  const auto* found =
      std::find_if(std::begin(kVerbs), std::end(kVerbs), [&](const Verb& verb) { return verb.name == name; });
  return found == std::end(kVerbs) ? nullptr : found;
}

std::unique_ptr<CLI::App> app_of(const Verb& verb, Arguments& a) {
  auto app = std::make_unique<CLI::App>(verb.does, std::string("bide ") + verb.name);
  app->get_formatter()->column_width(28);
  app->set_help_flag("-h,--help", "this text");
  verb.build(*app, a);
  if (std::string(verb.name) != "serve" && std::string(verb.name) != "completion") {
    app->add_flag("--json", a.json, "one JSON document instead of a table");
  }
  if (verb.asks) {
    app->add_option("--agent", a.agent, "the agent's socket or URL; else BIDE_AGENT, else the usual socket")
        ->type_name("A");
  }
  std::string examples = std::string("Examples:\n  ") + verb.examples;
  for (std::size_t at = 0; (at = examples.find('\n', at + 11)) != std::string::npos;) examples.insert(at + 1, "  ");
  app->footer(examples);
  return app;
}

std::string all_help() {
  std::string out = "bide: durable execution for one box.\nUsage: bide VERB …, and bide VERB --help for each.\n\n";
  for (const Verb& verb : kVerbs) {
    std::string name = verb.name;
    name.resize(18, ' ');
    out += "  " + name + verb.does + "\n";
  }
  out +=
      "\nInside a workflow:\n  step each wait sleep call send value state continue-as-new input result progress\n  "
      "(bide "
      "step --help, and so on)\n";
  out +=
      "\nThe agent is found by --agent or BIDE_AGENT (a socket's path or a URL, with its token in BIDE_TOKEN).\n"
      "Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 conflict, 5 still going, 6 no agent,\n"
      "            7 cancelled, 10 denied, 11 changes requested, 12 expired.\n";
  return out;
}

Ended misuse(const std::string& what, const std::string& verb) {
  return {kUsage, "", "bide: " + what + "\n" + "hint: bide " + (verb.empty() ? "" : verb + " ") + "--help\n"};
}

Ended wrong_verb(const std::string& name) {
  if (std::find(std::begin(kWorkflowVerbs), std::end(kWorkflowVerbs), name) != std::end(kWorkflowVerbs)) {
    return {kUsage, "", "bide: " + name + " works inside a workflow: start one with bide run NAME\n"};
  }
  const std::string near = nearest(name, verb_names());
  return misuse("there is no verb " + name + (near.empty() ? "" : "; did you mean bide " + near + "?"), "");
}

// "--wait" alone means for ever; what follows it belongs to it only if it is a length of time.
std::vector<std::string> joined_wait(std::vector<std::string> words) {
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (words[i] != "--wait") continue;
    if (i + 1 < words.size() && parse_duration(words[i + 1])) {
      words[i] += "=" + words[i + 1];
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    } else {
      words[i] += "=forever";
    }
  }
  return words;
}

Ended extras(const CLI::App& app, const std::string& verb) {
  const std::vector<std::string> rest = app.remaining();
  const auto flag =
      std::find_if(rest.begin(), rest.end(), [](const std::string& word) { return word.size() > 1 && word[0] == '-'; });
  if (flag == rest.end()) return misuse(verb + " does not take \"" + (rest.empty() ? "" : rest.front()) + "\"", verb);
  const std::string name = flag->substr(0, flag->find('='));
  const std::string near = nearest(name, flag_names(verb));
  return misuse(verb + " has no flag " + name + (near.empty() ? "" : "; did you mean " + near + "?"), verb);
}

}  // namespace

std::vector<std::string> verb_names() {
  std::vector<std::string> names(std::begin(kWorkflowVerbs), std::end(kWorkflowVerbs));
  for (const Verb& verb : kVerbs) names.emplace_back(verb.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> flag_names(const std::string& name) {
  const Verb* verb = find_verb(name);
  std::vector<std::string> names;
  if (verb == nullptr) return names;
  Arguments ignored;
  const auto app = app_of(*verb, ignored);
  for (const CLI::Option* option : app->get_options()) {
    for (const std::string& flag : option->get_lnames()) names.push_back("--" + flag);
  }
  return names;
}

std::string help_of(const std::string& name) {
  const Verb* verb = find_verb(name);
  if (verb == nullptr) return all_help();
  Arguments ignored;
  return app_of(*verb, ignored)->help();
}

std::optional<Ended> parse(const std::vector<std::string>& argv, Arguments& into) {
  std::vector<std::string> words = argv;
  // Flags of all verbs may come first.
  std::vector<std::string> before;
  while (!words.empty() && words.front().rfind("--", 0) == 0 && words.front() != "--help" &&
         words.front() != "--version") {
    const bool pair = words.front() == "--agent" && words.size() > 1;
    if (!pair && words.front() != "--json" && words.front().rfind("--agent=", 0) != 0) break;
    before.insert(before.end(), words.begin(), words.begin() + (pair ? 2 : 1));
    words.erase(words.begin(), words.begin() + (pair ? 2 : 1));
  }
  if (words.empty()) return Ended{kUsage, "", all_help()};
  std::string name = words.front();
  words.erase(words.begin());
  if (name == "--version") name = "version";
  if (name == "--help" || name == "-h" || name == "help") {
    const std::string about = words.empty() ? "" : words.front();
    if (!about.empty() && find_verb(about) == nullptr) return wrong_verb(about);
    return Ended{kDone, help_of(about), ""};
  }
  const Verb* verb = find_verb(name);
  if (verb == nullptr) return wrong_verb(name);
  into.verb = name;
  words.insert(words.begin(), before.begin(), before.end());
  if (name == "run") words = joined_wait(std::move(words));
  const auto app = app_of(*verb, into);
  try {
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    app->parse(words);
  } catch (const CLI::CallForHelp&) {
    return Ended{kDone, app->help(), ""};
  } catch (const CLI::ExtrasError&) {
    return extras(*app, name);
  } catch (const CLI::ParseError& error) {
    // A flag that is not there may be why something else is missing: say that first.
    if (!app->remaining().empty()) return extras(*app, name);
    return misuse(name + ": " + error.what(), name);
  }
  if (into.wait && !into.wait_for && std::find(argv.begin(), argv.end(), "--wait") == argv.end()) {
    return misuse("--wait takes a length of time, such as 10m", name);
  }
  return std::nullopt;
}

}  // namespace bide::cli
