// Would these runs go on in the version that lies in the folder? Each journal is replayed by the program in a copy of
// the run's workspace, on an agent of its own; the first verb that would do something new, or wait, ends it. What is
// between the verbs is run, no step is. Nothing of the runs themselves is touched.
//
// Threads: replay_all() on one. Failures: CannotRehearse. Ownership: the Service outlives the call.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/flow/rehearsal_port.h"
#include "agent/kernel/steps.h"
#include "agent/work/commands.h"
#include "agent/work/rehearsal.h"

namespace bide::work {

struct RecordedRun {
  RunId id;
  std::string status;
  std::string input = "{}";
  std::string workspace;  // where it lies; empty: it has none that could be read
  std::vector<kernel::StepRow> journal;
};

struct ReplayVerdict {
  RunId run;
  std::string status;
  enum class Says { goes_on, completes, fails } says = Says::fails;
  std::string where;  // goes_on: "step install"
  std::string error;  // fails: JSON, as the run's would be; with the run's own paths
};

// For the Service that replays.
class ReplayWatch final : public flow::Rehearsal {
 public:
  bool only_replays() const override { return true; }
  bool ends_at(const Answering&) override { return false; }
  bool stands_still(RunId) override { return true; }
  bool ends_again(RunId) override { return false; }
  std::optional<std::string> stub_of(std::string_view) override { return std::nullopt; }
};

// `workspaces`: of that Service, with a '/' at its end. In the order of the runs' numbers.
[[nodiscard]] std::vector<ReplayVerdict> replay_all(Commands& commands, const std::string& workflow,
                                                    std::vector<RecordedRun> runs, const std::string& workspaces,
                                                    DurationMs most, const std::function<bool()>& interrupted);

}  // namespace bide::work
