#include "agent/flow/registry.h"

namespace bide::flow {

void Registry::add(NativeWorkflow workflow) {
  for (const NativeWorkflow& there : workflows_) {
    if (there.name == workflow.name && there.version == workflow.version) {
      throw ConfigFault("workflow " + workflow.name + " version " + workflow.version + " is registered twice");
    }
  }
  workflows_.push_back(std::move(workflow));
}

void Registry::add_task(const std::string& name, TaskFn function) {
  if (!tasks_.emplace(name, std::move(function)).second)
    throw ConfigFault("task function " + name + " is registered twice");
}

}  // namespace bide::flow
