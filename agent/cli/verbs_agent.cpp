// The agent itself: serve, sweep, clock, ui, version, completion.
#include <nlohmann/json.hpp>
#include <ostream>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/base/text.h"
#include "agent/cli/verbs.h"
#include "agent/version.h"
#include "db/embedded.h"
#include "db/shell.h"

namespace bide::cli {
namespace {

using Json = nlohmann::json;

// The compiler, and what the checks cost.
std::string build() {
#ifdef NDEBUG
  return std::string("release, GCC ") + __VERSION__;
#else
  return std::string("with assertions, GCC ") + __VERSION__;
#endif
}

// "2 runs, 1 run of an app and 3 tasks execute still"
std::string executing(const std::string& document) {
  const auto part = [&](const char* member, const char* one, const char* many) {
    const std::int64_t n = json::int_member(document, member).value_or(0);
    return std::to_string(n) + (n == 1 ? one : many);
  };
  return part("runs", " run, ", " runs, ") + part("apps", " run of an app", " runs of apps") + " and " +
         part("tasks", " task", " tasks") + " execute still; new ones stay queued";
}

}  // namespace

int verb_sweep(Session& session) {
  const Reply reply = accepted(session.client.post("/v1/sweep", "{}"));
  const Json report = Json::parse(reply.body);
  const bool well = report.value("first_error", Json()).is_null();
  if (session.arguments.json) {
    print_json(session.console, reply.body);
    return well ? kDone : kFailed;
  }
  Table table({"DUTY", "DONE", "ERROR"});
  for (const Json& duty : report.value("duties", Json::array())) {
    const Json error = duty.value("error", Json());
    table.add({duty.value("name", ""), std::to_string(duty.value("done", std::int64_t{0})),
               error.is_string() ? shortened(error.get<std::string>(), 100) : ""});
  }
  table.print(session.console);
  return well ? kDone : kFailed;
}

int verb_clock(Session& session) {
  const Reply reply = accepted(session.client.post("/v1/clock/accept", "{}"));
  if (session.arguments.json) {
    print_json(session.console, reply.body);
    return kDone;
  }
  session.console.out << "the agent's clock was " << short_time(json::string_member(reply.body, "was").value_or(""))
                      << " and is " << short_time(json::string_member(reply.body, "now").value_or("")) << "\n";
  if (json::bool_member(reply.body, "was_held").value_or(false)) session.console.err << "it is held no more\n";
  return kDone;
}

// 0: nothing executes any more; 4: somebody let it claim again, or it was restarted.
int verb_drain(Session& session) {
  const Arguments& a = session.arguments;
  Reply reply = accepted(session.client.post("/v1/drain", a.off ? R"({"off":true})" : "{}"));
  const auto is = [&](const char* member) { return json::bool_member(reply.body, member).value_or(false); };
  for (std::string said; !a.off && is("draining") && !is("idle");) {
    if (std::string line = executing(reply.body); line != said) session.console.err << (said = std::move(line)) << "\n";
    reply = accepted(session.client.get("/v1/drain", limits::kClientPollMs));
  }
  const bool well = is("draining") != a.off;
  if (a.json) {
    print_json(session.console, reply.body);
  } else if (a.off) {
    session.console.out << "runs and tasks are claimed again\n";
  } else if (well) {
    session.console.out << "idle: nothing executes any more\n";
    session.console.err << "it claims again after bide drain --off, or when it is restarted\n";
  } else {
    session.console.err << "bide: it claims again: somebody said so, or it was restarted\nhint: bide drain\n";
  }
  return well ? kDone : kConflict;
}

int verb_ui(Session& session) {
  const Reply reply = accepted(session.client.post("/v1/session/codes", "{}"));
  if (session.arguments.json) {
    print_json(session.console, reply.body);
    return kDone;
  }
  const auto url = json::string_member(reply.body, "url");
  if (!url) {
    session.console.err
        << "bide: the agent has no TCP listener for the page\nhint: bide serve --listen 127.0.0.1:7433\n";
    return kFailed;
  }
  session.console.out << *url << "\n";
  session.console.err << "for one use within " << json::int_member(reply.body, "seconds").value_or(60) << " s\n";
  return kDone;
}

int verb_version(Console& console, const Arguments& arguments) {
  const auto schema = static_cast<std::int64_t>(embedded_migrations().size());
  const std::string sqlite = db::sqlite_version();
  if (arguments.json) {
    print_json(console, json::Writer()
                            .begin_object()
                            .member("bide", kVersion)
                            .member("schema", schema)
                            .member("sqlite", sqlite)
                            .member("build", build())
                            .end_object()
                            .text());
    return kDone;
  }
  console.out << "bide " << kVersion << ", schema " << schema << ", SQLite " << sqlite << ", " << build() << "\n";
  return kDone;
}

int verb_completion(Console& console, const Arguments&) {
  std::string verbs;
  std::string cases;
  for (const std::string& verb : verb_names()) {
    verbs += (verbs.empty() ? "" : " ") + verb;
    std::string flags;
    for (const std::string& flag : flag_names(verb)) flags += (flags.empty() ? "" : " ") + flag;
    if (!flags.empty()) cases += "    " + verb + ") words=\"" + flags + "\" ;;\n";
  }
  console.out << "# Completion of bide's verbs and flags in bash: source this file.\n"
                 "_bide() {\n"
                 "  local word=${COMP_WORDS[COMP_CWORD]} words=\n"
                 "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                 "    COMPREPLY=($(compgen -W \""
              << verbs
              << "\" -- \"$word\"))\n"
                 "    return\n"
                 "  fi\n"
                 "  case ${COMP_WORDS[1]} in\n"
              << cases
              << "  esac\n"
                 "  case $word in\n"
                 "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
                 "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
                 "  esac\n"
                 "}\n"
                 "complete -F _bide bide\n";
  return kDone;
}

}  // namespace bide::cli
