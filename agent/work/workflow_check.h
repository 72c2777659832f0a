// WorkflowCheck: `bide check NAME --json` for whoever asks over HTTP: what reading finds in a workflow's scripts, and
// whether its open runs would go on in the version that lies in the folder. It runs what is between the verbs, so it is
// a process of its own with a scratch agent in it: what it breaks is not this agent. It asks this agent for the runs,
// as an operator does, and no step runs.
//
// Threads: any; one check at a time, another is refused `busy`. check() returns when it is over, or soon after `gone`.
// Failures: Problems (busy, check_failed); a process that does not end within limits::kCheckMostMs is ended.
// Ownership: Spawner and Clock outlive it.
#pragma once

#include <functional>
#include <string>
#include <variant>

#include "agent/base/clock.h"
#include "agent/base/errors.h"
#include "agent/base/mutex.h"
#include "agent/work/spawner.h"

namespace bide::work {

struct WorkflowCheckSettings {
  std::string executable;  // the front: /usr/bin/bide
  std::string data_dir;    // ours: for its secrets, and for a file or two while a check runs
  std::string workflows_dir;
  std::string socket;
  std::string path;  // PATH of programs
  std::string home;
};

class WorkflowCheck {
 public:
  WorkflowCheck(Spawner& spawner, Clock& clock, WorkflowCheckSettings settings)
      : spawner_(spawner), clock_(clock), settings_(std::move(settings)) {}

  // JSON: {"workflow","ok","findings":[…],"runs":[{"run","status","says","at"|"error"}]}. `name`: of a workflow that
  // lies in the folder.
  [[nodiscard]] std::variant<std::string, Problem> check(const std::string& name, const std::function<bool()>& gone);

 private:
  struct Said;
  [[nodiscard]] Said run(const std::string& name, const std::function<bool()>& gone);

  Spawner& spawner_;
  Clock& clock_;
  const WorkflowCheckSettings settings_;
  Mutex mutex_;
  bool running_ GUARDED_BY(mutex_) = false;
};

}  // namespace bide::work
