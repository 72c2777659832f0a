// Driver: how an attempt of one kind of workflow is run to its end. Called on a worker's thread; returns when the
// attempt is over (suspended, ended, handed back, fenced off). Faults of the store are thrown.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "agent/flow/attempt.h"
#include "agent/kernel/workflows.h"

namespace bide::work {

class Driver {
 public:
  virtual ~Driver() = default;
  [[nodiscard]] virtual flow::AttemptOptions options(const kernel::VersionRow& version) const = 0;
  // K1: the newest version's limit, 0: none.
  [[nodiscard]] virtual int max_running(WorkflowId workflow) const = 0;
  // "held by pid 812 tar": who keeps a driven run from being suspended, for explain; empty: nobody. Any thread.
  [[nodiscard]] virtual std::string held_by(RunId) const { return {}; }
  // E6: the end of the run is written (or its cancel); steps that execute still are let finish and recorded. Returns at
  // a shutdown too.
  virtual void let_finish(flow::Attempt&) {}
  virtual void drive(const std::shared_ptr<flow::Attempt>& attempt, const kernel::VersionRow& version) = 0;
};

}  // namespace bide::work
