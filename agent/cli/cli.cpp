#include "agent/cli/cli.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <utility>

#include "agent/base/errors.h"
#include "agent/base/json.h"
#include "agent/base/text.h"
#include "agent/bide.h"
#include "agent/cli/arguments.h"
#include "agent/cli/verbs.h"

namespace bide::cli {
namespace {

struct Asking {
  const char* name;
  int (*run)(Session&);
};
constexpr Asking kAsking[] = {{"run", verb_run},
                              {"runs", verb_runs},
                              {"show", verb_show},
                              {"journal", verb_journal},
                              {"log", verb_log},
                              {"watch", verb_watch},
                              {"explain", verb_explain},
                              {"cancel", verb_cancel},
                              {"rm", verb_rm},
                              {"retry", verb_retry},
                              {"fork", verb_fork},
                              {"pause", verb_pause},
                              {"resume", verb_resume},
                              {"signal", verb_signal},
                              {"inbox", verb_inbox},
                              {"approve", verb_approve},
                              {"deny", verb_deny},
                              {"answer", verb_answer},
                              {"sweep", verb_sweep},
                              {"ui", verb_ui},
                              {"request-changes", verb_request_changes},
                              {"clock", verb_clock},
                              {"drain", verb_drain},
                              {"outbox", verb_outbox},
                              {"webhook", verb_webhook},
                              {"environment", verb_environment},
                              {"check", verb_check},
                              {"export", verb_export},
                              {"workflows", verb_workflows},
                              {"token", verb_token},
                              {"audit", verb_audit},
                              {"doctor", verb_doctor}};

struct Alone {
  const char* name;
  int (*run)(Console&, const Arguments&);
};
constexpr Alone kAlone[] = {
    {"rehearse", verb_rehearse}, {"sql", verb_sql}, {"version", verb_version}, {"completion", verb_completion}};

// --agent, BIDE_AGENT, the socket of our own configuration, that of the system if ours is not there.
std::string agent_address(const Arguments& arguments) {
  if (!arguments.agent.empty()) return arguments.agent;
  Surroundings around = surroundings_of_process();
  if (auto named = around.variable("BIDE_AGENT")) return *named;
  const std::string own = load_config(around, std::nullopt, {}).config.socket;
  around.system = true;
  const std::string of_system = default_socket(around, {});
  std::error_code failed;
  return !std::filesystem::exists(own, failed) && std::filesystem::exists(of_system, failed) ? of_system : own;
}

int refused(Console& console, const Arguments& arguments, const Reply& reply) {
  const std::string code = json::string_member(reply.body, "code").value_or("http_" + std::to_string(reply.status));
  if (arguments.json) {
    print_json(console, reply.body);
  }
  console.err << "bide: " << code << ": "
              << printable(json::string_member(reply.body, "detail").value_or("the agent gave no reason")) << "\n";
  for (std::size_t i = 0; const auto at = json::at_pointer(reply.body, "/errors/" + std::to_string(i)); ++i) {
    console.err << "  at \"" << printable(json::string_member(*at, "pointer").value_or(""))
                << "\": " << printable(json::string_member(*at, "detail").value_or("")) << "\n";
  }
  std::string hint = json::string_member(reply.body, "hint").value_or("");
  if (hint.empty() && reply.status == 401)
    hint = "put a token into BIDE_TOKEN; the first one lies in admin.token, in the agent's folder";
  if (!hint.empty()) console.err << "hint: " << printable(hint) << "\n";
  const bool of_a_key = code == "idempotency_conflict" || code == "start_key_conflict" || code == "dedupe_conflict";
  if (reply.status == 404) return kNotFound;
  if (reply.status == 409 || reply.status == 412 || of_a_key) return kConflict;
  if (reply.status == 400 || reply.status == 413 || reply.status == 422) return kUsage;
  return kFailed;
}

int dispatch(Console& console, const Arguments& arguments, flow::Registry registry) {
  if (arguments.verb == "serve") return verb_serve(console, arguments, std::move(registry));
  for (const Alone& verb : kAlone) {
    if (arguments.verb == verb.name) return verb.run(console, arguments);
  }
  for (const Asking& verb : kAsking) {
    if (arguments.verb != verb.name) continue;
    const char* token = std::getenv("BIDE_TOKEN");
    SystemRandom random;
    Client client(agent_address(arguments), std::string(trim(token == nullptr ? "" : token)), random);
    Session session{console, arguments, client};
    return verb.run(session);
  }
  throw Bug("no function for the verb " + arguments.verb);
}

}  // namespace

Reply accepted(Reply reply) {
  if (!reply.ok()) throw Refused{std::move(reply)};
  return reply;
}

int run(const std::vector<std::string>& argv, Console& console, flow::Registry registry) {
  Arguments arguments;
  try {
    if (const auto ended = parse({argv.begin() + (argv.empty() ? 0 : 1), argv.end()}, arguments)) {
      console.out << ended->out << std::flush;
      console.err << ended->err << std::flush;
      return ended->code;
    }
    const int code = dispatch(console, arguments, std::move(registry));
    console.out.flush();
    if (!console.out) {
      console.err << "bide: the output could not be written\n";
      return code == kDone ? kFailed : code;
    }
    return code;
  } catch (const Refused& refusal) {
    return refused(console, arguments, refusal.reply);
  } catch (const Unreachable& unreachable) {
    console.err << "bide: agent_unreachable: " << unreachable.what()
                << "\nhint: bide serve   starts one; --agent or BIDE_AGENT name another\n";
    return kNoAgent;
  } catch (const ConfigFault& fault) {
    console.err << "bide: " << fault.what() << "\n";
    return kUsage;
  } catch (const std::exception& fault) {
    console.err << "bide: " << fault.what() << "\n";
    return kFailed;
  }
}

}  // namespace bide::cli

namespace bide {

int run_agent(int argc, char** argv, flow::Registry registry) {
  // Debian's SQLite allocates without lookaside, and glibc trims the heap at each commit: up to a third of the time.
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  mallopt(M_TOP_PAD, 1 << 20);
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c)
  cli::Console console{std::cout, std::cerr, std::cin};
  console.terminal = ::isatty(STDOUT_FILENO) == 1;
  console.interactive = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1;
  const char* no_color = std::getenv("NO_COLOR");
  console.colour = console.terminal && (no_color == nullptr || *no_color == '\0');
  return cli::run({argv, argv + argc}, console, std::move(registry));
}

}  // namespace bide
