// Explain: why a run does not move, what will wake it and when, and the command that unblocks it [W11, D3].
// Everything is derived from the file, but for what only the process knows: ExplainFacts. Pure reading, any ReadTx.
// Failures: an unknown run is nullopt. The texts are for people; `reason` is the stable word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/kernel/runs.h"
#include "agent/kernel/states.h"
#include "db/tx.h"

namespace bide::kernel {

struct HeldBy {
  std::int64_t pid = 0;
  std::string what;  // "tar", "guard of attempt 3", or empty
};

// What the floor above knows and the file does not.
struct ExplainFacts {
  bool driven = true;           // running: an attempt of this process drives it (else it is taken over by the sweep)
  bool clock_held = false;      // C6: nothing is claimed until the clock is right
  bool draining = false;        // an operator lets the agent run dry: nothing is claimed
  bool workers_busy = false;    // every worker has an attempt
  bool at_capacity = false;     // K1: max_running of its workflow is reached
  std::vector<HeldBy> held_by;  // who keeps a waiting program from being suspended (programs.md)
};

struct WaitingOn {
  WaitId id;
  WaitKind kind = WaitKind::approval;
  std::string name;
  std::optional<std::string> asks;  // the text that is asked
  TimeMs since = 0;
  std::optional<TimeMs> until;  // a timer's end, or the deadline
};

// reason, by state:
//   ended       completed | failed | cancelled
//   waits       needs_answer | in_doubt | waits_for_signal | waits_for_child | sleeping (of its waits the one that a
//               person can do most about) | waits_for_task | delivery_parked (its app could not be asked, and
//               nobody tries any more) | stalled (nothing would wake it: it is re-driven [W5])
//   for later   retry_later | scheduled, or what its wait says
//   queued      paused | draining | compensating | clock_held | waits_for_app | delivery_parked | at_capacity |
//               workers_busy | due, or what stands on the run: version_missing | workflow_missing |
//               previous_attempt_alive | agent_fault | …
//   running     executing | cancelling | ending | held | replaying | driven_by_app | not_driven
struct Explanation {
  RunId run;
  RunStatus state = RunStatus::queued;
  std::string reason;
  std::vector<WaitingOn> waiting_on;  // by id
  std::optional<TimeMs> wakes_at;     // the earliest time at which it moves by itself: timer, retry, deadline, re-drive
  std::vector<HeldBy> held_by;        // processes that are in the way
  std::string text;                   // one plain sentence
  std::string command;                // the `bide …` line to type next
};
[[nodiscard]] std::optional<Explanation> explain_run(db::ReadTx& tx, RunId run, const ExplainFacts& facts, TimeMs now);

// {"run","state","reason","waiting_on":[{"id","kind","name","asks","since","until"}],"wakes_at","held_by":[{"pid","what"}],
//  "text","command"}: every member is always there; null where nothing is known.
[[nodiscard]] std::string to_json(const Explanation& explanation);

}  // namespace bide::kernel
