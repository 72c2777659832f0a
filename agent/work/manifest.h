// NAME.toml: what the author of a program says about it. Unknown keys are errors with their line and the nearest key.
// Threads: plain functions. Failures are values (Problem `manifest_invalid`).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/errors.h"
#include "agent/base/time.h"

namespace bide::work {

struct Manifest {
  std::string description;
  std::string input_schema;                         // JSON Schema (draft 7) of a run's input, as JSON; empty: any input
  int max_running = 0;                              // K1; 0: no limit
  std::vector<std::string> accepts;                 // versions whose runs go on in this one [K1]
  bool allow_default_approved = false;              // a wait may be approved by its deadline [A4]
  std::optional<DurationMs> run_deadline_ms;        // X5
  std::optional<DurationMs> attempt_deadline_ms;    // X5
  std::optional<DurationMs> suspend_after_busy_ms;  // a program that waits is suspended though something of it works on
  std::int64_t retries = 0;                         // of pure and idempotent steps that name none [E2]
  std::optional<DurationMs> backoff_ms;             // of steps that name none
  std::string scopes;       // that whoever decides an approval must have beside approve, spaces between them [A7]
  std::string environment;  // the folder that its attempts share with others [W8]
  std::map<std::string, std::string> env;  // variables of its attempts
  std::vector<std::string> secrets;        // names of what its attempts find in $BIDE_SECRETS [D4]
  std::map<std::string, double> budget;    // J7: what a run may spend, by name
  std::string run_as;                      // user of its processes, see work/run_as.h [A7]; empty: the agent's own
};

// `file` is the name shown in errors: "rollout.toml, line 3, column 1: unknown key
// max_runing: did you mean max_running?".
[[nodiscard]] std::variant<Manifest, Problem> parse_manifest(std::string_view toml, const std::string& file);

// All that a manifest may have at its top level.
[[nodiscard]] std::vector<std::string> manifest_keys();

// As it is stored with a version: a JSON object of what is set, with "entry", the executable's path in the tree.
[[nodiscard]] std::string manifest_json(const Manifest& manifest, const std::string& entry);
[[nodiscard]] Manifest manifest_of_json(const std::string& json);

}  // namespace bide::work
