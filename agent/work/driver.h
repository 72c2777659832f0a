// Driver: how an attempt of one kind of workflow is run to its end. Called on a worker's thread; returns when the
// attempt is over (suspended, ended, handed back, fenced off). Faults of the store are thrown.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/flow/attempt.h"
#include "agent/kernel/explain.h"
#include "agent/kernel/workflows.h"

namespace bide::work {

class Driver {
 public:
  virtual ~Driver() = default;
  [[nodiscard]] virtual flow::AttemptOptions options(const kernel::VersionRow& version) const = 0;
  // K1: the newest version's limit, 0: none.
  [[nodiscard]] virtual int max_running(WorkflowId workflow) const = 0;
  // Who keeps a driven run, all of whose verbs wait, from being suspended: for explain. Any thread.
  [[nodiscard]] virtual std::vector<kernel::HeldBy> held_by(RunId) const { return {}; }
  virtual void drive(const std::shared_ptr<flow::Attempt>& attempt, const kernel::VersionRow& version) = 0;
};

}  // namespace bide::work
