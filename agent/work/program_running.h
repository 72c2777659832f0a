// Private to ProgramDriver's files: what it knows of one attempt of a program, from its preparation to its end.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "agent/base/spawn.h"
#include "agent/work/environments.h"
#include "agent/work/guard.h"
#include "agent/work/program_attempt.h"
#include "agent/work/program_driver.h"
#include "agent/work/run_as.h"

namespace bide::work {

// The rows and files of one attempt while it runs.
class ProgramDriver::Running {
 public:
  std::string workspace;
  std::string log_path;
  std::int64_t log_from = 0;
  std::string marks_path;
  std::atomic<bool> fresh = false;  // it did something new
  bool outlived = false;            // by a step of an earlier attempt, which writes beside it
  EventBell bell;
  std::unique_ptr<GuardedProcess> guard;
  ProcessId row;
  DurationMs suspend_after_busy = 0;
  std::optional<ExitStatus> exit;
  bool unfinished = false;
  std::optional<RunAsUser> user;            // whose its processes are; absent: the agent's own
  std::string secrets;                      // folder of this attempt's; empty: none
  std::optional<Environments::Use> shared;  // of its environment, as long as this attempt lasts
  bool crashed = false;
};

}  // namespace bide::work
