// Ledger: what the world outside of the process knows. It survives every crash, and is what the file is held against.
// A violation is thrown as Violation from wherever it is seen.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/base/ids.h"
#include "agent/base/time.h"
#include "tests/sim/plan.h"

namespace bide::sim {

// Not a std::exception: nothing of the agent may take it for an error of its own. What is thrown may be swallowed on
// its way (a branch's failure is one of many), so the first one is also kept, one a thread.
struct Violation {
  std::string invariant;  // "I2"
  std::string what;
};
[[noreturn]] void violated(const std::string& invariant, const std::string& what);
[[nodiscard]] std::optional<Violation>& first_violation();

enum class Ending { running, returned, threw, gone };  // gone: its process or attempt ended before it did

struct Execution {
  TimeMs began_at = 0;
  Ending ending = Ending::running;
  bool applied = false;
  TimeMs ended_at = 0;
  int interruptions = 0;  // of its run, when it ended
};

// One effect of one run, over all attempts.
struct Effect {
  RunId run;
  const Op* op = nullptr;
  std::string key;  // idempotency key: the same for ever [I2]
  std::vector<Execution> executions;
  int applied = 0;
  int licences = 1;             // executions that may begin: the first, and one for each reason to begin again
  std::int64_t failures = 0;    // recorded ones that have given their licence
  bool said_ran = false;        // a person or a probe said so, truly
  bool could_not_tell = false;  // its probe said so
  bool held = false;            // by a process that the agent's end does not touch
  [[nodiscard]] bool running() const;
  [[nodiscard]] int threw() const;
};

// What took back one step of a run.
struct Undo {
  std::string key;  // the same at every execution [I2]
  int executions = 0;
  int applied = 0;
};

struct RunOutside {
  Plan plan;
  std::string created_by;
  bool acknowledged = false;
  std::map<int, std::string> seen;  // what the code was given, by operation: never another thing later [J3, I1]
  std::map<std::string, std::vector<std::pair<std::int64_t, std::string>>> signals;  // acknowledged: id and payload
  std::map<std::string, std::int64_t> last_signal;                                   // read last, by name
  bool cancel_acknowledged = false;
  bool program = false;
  bool paused = false;          // acknowledged, and nobody tried to resume it since
  std::map<int, Undo> undos;    // by operation
  std::vector<int> undo_order;  // as they were applied first
  int retries = 0;
  int interruptions = 0;   // attempts that ended without saying so
  bool abandoned = false;  // an attempt was taken from it: what that one did was not recorded
};

// What a caller was told about a wait.
struct Told {
  std::string status;      // resolved
  std::string resolution;  // JSON, as in the answer
};

// What a receiver was sent under one key.
struct Received {
  std::string body;
  int times = 0;
};

struct Counts {
  std::map<std::string, std::int64_t> by_name;
  void add(const std::string& name, std::int64_t n = 1) { by_name[name] += n; }
};

struct Ledger {
  std::map<std::pair<std::int64_t, int>, Effect> effects;
  std::map<std::int64_t, RunOutside> runs;
  std::map<std::int64_t, Told> told;         // by wait
  std::map<std::string, Received> received;  // by key
  Counts counts;

  Effect& effect(RunId run, const Op& op);
  // An execution begins. `failures`: as recorded in the file.
  std::size_t begin(Effect& effect, const std::string& key, std::int64_t failures, TimeMs now);
  void apply(Effect& effect, std::size_t execution);
  void end(Effect& effect, std::size_t execution, Ending ending, TimeMs now);
  // The code was given this for an operation.
  void saw(RunId run, const Op& op, const std::string& result);
  void saw_signal(RunId run, const Op& op, const std::string& result);
  // The process died: whatever ran is gone.
  void process_died();
  bool clock_stepped = false;

 private:
  void check_again(const Effect& effect, TimeMs now) const;
};

// What every execution of an effect returns, and what a truthful probe or person says it returned.
[[nodiscard]] std::string result_of(const Effect& effect);

}  // namespace bide::sim
