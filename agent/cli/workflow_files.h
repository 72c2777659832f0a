// Where the files of a workflow lie, for verbs that ask no agent: a name in the configured folder, or a path. One
// thread.
#pragma once

#include <string>

#include "agent/base/errors.h"
#include "agent/cli/arguments.h"
#include "agent/config.h"

namespace bide::cli {

struct WorkflowPlace {
  Config config;     // with the folder that the workflow lies in as its workflows_dir
  std::string name;  // of the workflow
};
// "rollout", "./flows/rollout.sh", "flows/rollout", "flows/rollout/main.sh". Whether it is there is not looked at.
[[nodiscard]] WorkflowPlace find_workflow_files(const Arguments& arguments);
// What ProgramFiles says of a name, and how to name another folder if it is not in this one.
[[nodiscard]] std::string told(const Problem& refused);

}  // namespace bide::cli
