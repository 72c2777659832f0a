// Arguments: what was typed, as values. Parsing says what is wrong with the nearest right verb or flag. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/time.h"
#include "agent/config.h"

namespace bide::cli {

struct Arguments {
  std::string verb;
  // Of every verb that asks the agent.
  std::string agent;  // --agent, or empty
  bool json = false;

  std::int64_t id = 0;  // RUN or WAIT
  std::string name;     // WORKFLOW, the signal's NAME, SHELL of completion
  std::string value;    // VALUE, the signal's JSON, QUERY
  bool has_value = false;

  std::string input = "{}";  // JSON, @FILE or -
  std::string key;
  std::string mission;
  bool wait = false;
  std::optional<DurationMs> wait_for;  // absent: as long as it takes

  bool follow = false;  // log
  bool all = false;     // log

  std::string status;  // filters of runs
  std::string workflow;
  int limit = 0;

  std::string comment;
  std::string if_match;
  std::optional<std::string> result;  // answer ran --result
  bool text = false;                  // answer --text
  std::string reason;                 // cancel --reason
  bool without_compensation = false;  // cancel
  std::int64_t from = 0;              // fork
  bool latest = false;                // fork
  std::string dedupe_key;             // signal

  std::string action;               // outbox, webhook: what to do
  bool parked = false;              // outbox --parked
  std::string to;                   // outbox --to
  std::vector<std::string> events;  // webhook add --event
  std::vector<std::string> allow;   // webhook add --allow
  std::string secret;               // webhook add, rotate --secret
  bool cloudevents = false;         // webhook add
  bool decision_links = false;      // webhook add

  std::string label;                // cancel, retry, pause, resume --label
  bool dry_run = false;             // of these
  std::vector<std::string> scopes;  // token add --scope
  std::string expires;              // token add --expires
  std::string head;                 // audit verify --head
  bool off = false;                 // drain --off

  std::string seed;          // environment add --seed
  std::string delete_after;  // environment add --delete-after

  std::vector<std::string> answers;  // rehearse --answer NAME=VALUE
  bool stub_steps = false;           // rehearse
  std::string keep;                  // rehearse --keep

  std::optional<std::string> config;  // serve, rehearse
  Flags flags;
  bool print_config = false;
  std::string data_dir;  // sql --data
};

// What to print instead, when there is nothing to do: help on stdout, or a mistake on stderr.
struct Ended {
  int code = 0;
  std::string out;
  std::string err;
};
// argv without the program's name.
[[nodiscard]] std::optional<Ended> parse(const std::vector<std::string>& argv, Arguments& into);

// All verbs of bide, also those of workflows, sorted; and the flags of one ("--json"), for completion.
[[nodiscard]] std::vector<std::string> verb_names();
[[nodiscard]] std::vector<std::string> flag_names(const std::string& verb);
[[nodiscard]] std::string help_of(const std::string& verb);  // empty: of bide itself

}  // namespace bide::cli
