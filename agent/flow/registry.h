// Registry: the native workflows of this process, by name and version. Filled before the service starts, then constant.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/flow/context.h"
#include "agent/flow/undo.h"

namespace bide::flow {

struct NativeWorkflow {
  std::string name;
  std::string version;               // declared by the code; a run goes on with the version that it began with
  std::vector<std::string> accepts;  // older versions whose runs this code can go on with [K1]
  int max_running = 0;               // 0: no limit
  bool allow_default_approved = false;
  std::optional<DurationMs> run_deadline;      // X5
  std::optional<DurationMs> attempt_deadline;  // X5
  kernel::Usage budget;                        // J7: numbers by name that its runs may spend
  Compensations compensations;                 // by the names that steps give [E6]
  std::function<std::string(Context&)> run;    // returns the run's result, JSON
};

// A function that any worker of this process may do for a run: its request, JSON, to its result, JSON [K8].
using TaskFn = std::function<std::string(const std::string& request, const EffectInfo& info)>;

class Registry {
 public:
  // Throws ConfigFault for a name and version that are there already.
  void add(NativeWorkflow workflow);
  // Throws ConfigFault for a name that is there already.
  void add_task(const std::string& name, TaskFn function);
  // W10: called at the end of each pass of the sweep, on its thread; returns how many things it moved. What one throws
  // is warned of and stands in the pass's report; the others run.
  using Hook = std::function<std::int64_t(TimeMs now)>;
  void add_hook(Hook hook) { hooks_.push_back(std::move(hook)); }
  [[nodiscard]] const std::vector<Hook>& hooks() const { return hooks_; }
  [[nodiscard]] const std::vector<NativeWorkflow>& all() const { return workflows_; }
  [[nodiscard]] const std::map<std::string, TaskFn>& tasks() const { return tasks_; }

 private:
  std::vector<NativeWorkflow> workflows_;
  std::map<std::string, TaskFn> tasks_;
  std::vector<Hook> hooks_;
};

}  // namespace bide::flow
