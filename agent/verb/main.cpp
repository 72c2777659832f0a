// The static front `bide`: the workflow verbs, the guard of an attempt, the holder of a step. All else is bide-agent
// beside it.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "agent/base/guard_protocol.h"
#include "agent/base/text.h"
#include "agent/verb/guard.h"
#include "agent/verb/help.h"
#include "agent/verb/holder.h"
#include "agent/verb/undo.h"
#include "agent/verb/verbs.h"

namespace bide::verb {
namespace {

struct Verb {
  const char* name;
  int (*run)(const Attempt&, std::span<char*>);
  bool in_step;  // allowed inside a step's command
};
constexpr Verb kVerbs[] = {{"step", verb_step, false},     {"wait", verb_wait, false},
                           {"sleep", verb_sleep, false},   {"value", verb_value, false},
                           {"result", verb_result, false}, {"send", verb_send, false},
                           {"call", verb_call, false},     {"state", verb_state, false},
                           {"each", verb_each, false},     {"continue-as-new", verb_continue_as_new, false},
                           {"input", verb_input, true},    {"progress", verb_progress, true}};

// Verbs for operators. In an attempt those that change something would do it again at every replay.
constexpr const char* kChanging[] = {"run",    "approve", "deny",   "request-changes", "answer",
                                     "cancel", "signal",  "pause",  "resume",          "retry",
                                     "fork",   "rm",      "outbox", "webhook"};
constexpr const char* kReading[] = {"serve",   "runs",      "show",   "journal",   "log",     "watch",
                                    "explain", "inbox",     "events", "workflows", "sql",     "ui",
                                    "doctor",  "sweep",     "check",  "rehearse",  "version", "completion",
                                    "help",    "--version", "--help", "-h"};

template <class Names>
bool is_among(std::string_view verb, const Names& names) {
  return std::any_of(std::begin(names), std::end(names), [&](const char* name) { return verb == name; });
}

int exec_agent(char** argv) {
  char self[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self - 1);
  std::string path(self, n > 0 ? static_cast<std::size_t>(n) : 0);
  path = path.substr(0, path.rfind('/') + 1) + "bide-agent";
  ::execv(path.c_str(), argv);
  std::fprintf(stderr, "bide: cannot start %s: %s\n", path.c_str(), std::strerror(errno));
  return 1;
}

// Before an operator's verb in an attempt: one that must not be called straight there ends the run [V1].
void check_operator_verb(const Attempt& attempt, const std::string& verb) {
  const bool in_program = attempt.where() == Attempt::Where::attempt || attempt.where() == Attempt::Where::check;
  if (!in_program || is_among(verb, kReading)) return;
  if (is_among(verb, kChanging)) {
    if (verb == "run") {
      attempt.end_run(
          "Usage",
          "bide run straight in a workflow would be done again at every replay: write bide call NAME, which "
          "waits for the other run, or put it in a step with a key of its own, as in: bide step start "
          "--effect idempotent -- bide run NAME --key KEY");
    }
    attempt.end_run("Usage", "bide " + verb +
                                 " is for people: no process of a run has the right to it, the command of a step "
                                 "neither. Have somebody decide (bide wait), or send a message (bide send)");
  }
  std::vector<std::string> names;
  for (const auto& known : kVerbs) names.emplace_back(known.name);
  for (const char* known : kReading) names.emplace_back(known);
  const std::string near = nearest(verb, names);
  attempt.end_run("Usage", "bide has no verb " + verb + (near.empty() ? "" : ": did you mean bide " + near + "?"));
}

// Before `--`: what stands after it is another program's.
bool asks_for_help(std::span<char*> argv) {
  for (const char* word : argv) {
    if (std::strcmp(word, "--") == 0) return false;
    if (std::strcmp(word, "--help") == 0 || std::strcmp(word, "-h") == 0) return true;
  }
  return false;
}

int run_verb(const Verb& verb, const Attempt& attempt, std::span<char*> argv) {
  if (asks_for_help(argv)) {
    print("bide " + std::string(verb.name) + ": " + std::string(help_of(verb.name)) +
          std::string(place_help(verb.name)));
    return 0;
  }
  if (attempt.where() == Attempt::Where::outside &&
      !(std::strcmp(verb.name, "input") == 0 && std::getenv("BIDE_INPUT"))) {
    attempt.end_run("Usage",
                    std::string("bide ") + verb.name + " works inside a workflow: start one with bide run NAME");
  }
  if (attempt.where() == Attempt::Where::step && !verb.in_step && std::getenv("BIDE_UNDO") != nullptr) {
    // The run's end is written already, and this is no step of its script: the compensation fails, the next runs [E6].
    std::fprintf(stderr, "bide: bide %s inside a compensation: there is no journal to it\n", verb.name);
    return kUsageCode;
  }
  if (attempt.where() == Attempt::Where::step && !verb.in_step) {
    attempt.end_run("NestedVerb", std::string("bide ") + verb.name +
                                      " inside a step's command: the journal knows steps, not "
                                      "what they are made of. Call it in the workflow itself");
  }
  if (attempt.where() != Attempt::Where::outside) Attempt::ignore_signals();
  try {
    return verb.run(attempt, argv);
  } catch (const Misuse& misuse) {
    attempt.end_run("Usage", misuse.message);
  }
}

int front(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const Attempt attempt = Attempt::of_environment();
  for (const auto& verb : kVerbs) {
    if (name == verb.name) return run_verb(verb, attempt, {argv + 2, static_cast<std::size_t>(argc - 2)});
  }
  check_operator_verb(attempt, name);
  if (attempt.where() == Attempt::Where::check) return 0;
  return exec_agent(argv);
}

}  // namespace
}  // namespace bide::verb

int main(int argc, char** argv) {
  if (argc > 2 && std::strcmp(argv[1], bide::guard_protocol::kMode) == 0) return bide::verb::run_guard(argv + 2);
  if (argc == 2 && std::strcmp(argv[1], bide::guard_protocol::kUndoMode) == 0) return bide::verb::run_undo();
  if (argc > 3 && std::strcmp(argv[1], bide::verb::kHolderMode) == 0) return bide::verb::run_holder(argv + 2);
  return bide::verb::front(argc, argv);
}
