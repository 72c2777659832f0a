// Registry: the native workflows of this process, by name and version. Filled before the service starts, then constant.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/flow/context.h"

namespace bide::flow {

struct NativeWorkflow {
  std::string name;
  std::string version;               // declared by the code; a run goes on with the version that it began with
  std::vector<std::string> accepts;  // older versions whose runs this code can go on with [K1]
  int max_running = 0;               // 0: no limit
  bool allow_default_approved = false;
  std::function<std::string(Context&)> run;  // returns the run's result, JSON
};

class Registry {
 public:
  // Throws ConfigFault for a name and version that are there already.
  void add(NativeWorkflow workflow);
  [[nodiscard]] const std::vector<NativeWorkflow>& all() const { return workflows_; }

 private:
  std::vector<NativeWorkflow> workflows_;
};

}  // namespace bide::flow
