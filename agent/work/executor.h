// Executor: claims due runs and drives them on worker threads. The table of driven attempts is the truth about local
// leases while the process lives [K3].
//
// Threads: one dispatcher, `workers` workers. run_one() does the same on the caller's thread (tests, simulator).
// Failures: what a driver throws is logged and the run is handed back with a backoff [E8]; StorageFault ends the store.
// Ownership: Store, Clock, Random and Registry outlive it. stop() before the destructor, or the destructor does.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/alarm.h"
#include "agent/base/mutex.h"
#include "agent/base/random.h"
#include "agent/flow/registry.h"
#include "agent/kernel/claims.h"
#include "agent/work/claim_door.h"
#include "agent/work/driver.h"
#include "db/store.h"

namespace bide::work {

struct ExecutorOptions {
  int workers = 64;  // attempts at once; a thread costs little while it waits
  DurationMs inline_sleep = limits::kInlineSleepMs;
  DurationMs settle_after = limits::kSettleAfterMs;
  DurationMs abandon_after = limits::kAbandonMs;
  DurationMs shutdown_grace = limits::kShutdownGraceMs;
  std::string owner;           // "local:<process uuid>"
  flow::Pace* pace = nullptr;  // tests
  bool pass_unknown = false;   // tests: what code throws and is no std::exception is not the workflow's error
};

class Executor {
 public:
  Executor(db::Store& store, Random& random, const flow::Registry& registry, ExecutorOptions options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Program workflows are driven by this; absent, they wait as workflow_missing.
  void set_program_driver(Driver* driver);
  // Rung for each task that may be done [K8]. Before start().
  void set_task_bell(std::function<void(StepId)> bell) { task_bell_ = std::move(bell); }
  // What a native or program run may start as its child [A11]. Before start().
  void set_find_workflow(flow::FindWorkflow find) { find_workflow_ = std::move(find); }
  // Writes the registry's workflows and versions into the file. Once, before start() or run_one().
  void register_workflows();

  void start();
  // K5: no new claims or steps; native effects have the grace to end; what is left is fenced off.
  // False: a worker is still held by code that ignores the stop; the destructor waits for it, a process may exit.
  bool stop();
  [[nodiscard]] bool started() const { return !workers_.empty(); }

  // Claims and drives one run on this thread. False: nothing was due.
  bool run_one();

  // Bells [C2].
  void ring();           // something may be due: claim
  void ring(RunId run);  // something of a driven run changed
  // Called by the dispatcher when time has passed something due in the file (timers, expiries): the sweep's bell.
  void set_due_bell(std::function<void()> bell);
  // Called when an attempt has something that may be overdue at a time: the sweep's bell. Before start().
  void set_overdue_bell(std::function<void(BootMs)> bell);

  // Whoever drives runs that this table does not hold (remote workers) hears of their bells, and of queued runs that
  // are due. Before start().
  struct Elsewhere {
    std::function<void(RunId)> ring;
    std::function<void(RunId)> told;
    std::function<void()> due;  // called by the dispatcher; may write
  };
  void set_elsewhere(Elsewhere elsewhere) { elsewhere_ = std::move(elsewhere); }
  // What every attempt of this agent has in its options beside those of its own kind.
  [[nodiscard]] flow::AttemptOptions attempt_options(flow::AttemptOptions options);

  [[nodiscard]] bool drives(RunId run) const;
  // The driven attempt of this epoch, or null.
  [[nodiscard]] std::shared_ptr<flow::Attempt> attempt(RunId run, std::int64_t epoch) const;
  [[nodiscard]] std::shared_ptr<flow::Attempt> attempt(RunId run) const;
  // Shut: nothing is claimed, here or by apps. Those that claim runs or tasks elsewhere go through it, too.
  [[nodiscard]] ClaimDoor& door() { return door_; }
  [[nodiscard]] const ClaimDoor& door() const { return door_; }
  [[nodiscard]] bool idle() const;                     // a worker is free
  [[nodiscard]] std::string held_by(RunId run) const;  // Driver::held_by, for explain
  [[nodiscard]] const std::string& owner() const { return options_.owner; }
  [[nodiscard]] bool passes_unknown() const { return options_.pass_unknown; }
  [[nodiscard]] kernel::ClaimRules rules() const;
  [[nodiscard]] bool knows_workflow(WorkflowId workflow) const;
  // Native code of this process has this version, or accepts it: retention leaves it.
  [[nodiscard]] bool registered(VersionId version) const {
    return native_.contains(version) || accepted_by_.contains(version);
  }
  // K3, X1: attempts past their step timeout, cancel or shutdown by `abandon_after` are fenced off. A sweep duty.
  // Returns when the next one may be due.
  std::optional<BootMs> abandon_overdue();
  // A cancel was asked: the clock of X1 runs from here.
  void told(RunId run);
  // Rings after the commit of `tx` whom a transition touched.
  void ripple(db::Tx& tx, const kernel::Ripples& ripples);

 private:
  struct Driven {
    std::int64_t epoch = 0;
    std::shared_ptr<flow::Attempt> attempt;  // null until its worker has loaded it
    std::optional<BootMs> told_at;
    bool rung = false;  // something of the run changed since it was claimed
  };
  struct Native {
    const flow::NativeWorkflow* workflow;
    WorkflowId workflow_id;
  };
  void dispatch(std::stop_token stop);
  void work(std::stop_token stop);
  int claim(int most);
  void learn_versions(db::ReadTx& tx);
  void drive(const kernel::Claimed& claimed);
  void forget(RunId run, std::int64_t epoch);
  void drive_native(flow::Attempt& attempt, const flow::NativeWorkflow& workflow);
  // E6: writes the end, takes back what is to be taken back, and ends the run. `workflow` is null for a program, whose
  // compensations are drive()'s.
  void end_run(flow::Attempt& attempt, const kernel::Finish& finish, const flow::NativeWorkflow* workflow);
  void compensate(const kernel::Fence& fence, const flow::NativeWorkflow& workflow);
  void compensate(const kernel::Fence& fence, const kernel::VersionRow& program);
  // The attempt that undoes, in the place of the one that has ended; null: fenced off meanwhile.
  [[nodiscard]] std::shared_ptr<flow::Attempt> undo_attempt(const kernel::Fence& fence, flow::AttemptOptions options);
  [[nodiscard]] VersionId known(VersionId pinned) const;
  void hand_back_after_fault(flow::Attempt& attempt, const std::string& what);

  db::Store& store_;
  Random& random_;
  const flow::Registry& registry_;
  const ExecutorOptions options_;
  Driver* program_driver_ = nullptr;
  std::function<void()> due_bell_;
  Elsewhere elsewhere_;
  flow::FindWorkflow find_workflow_;
  std::function<void(StepId)> task_bell_;
  std::function<void(BootMs)> overdue_bell_;
  std::map<VersionId, Native> native_;          // constant after register_workflows()
  std::map<VersionId, VersionId> accepted_by_;  // older version → the one that accepts it

  ClaimDoor door_;
  mutable Mutex mutex_;
  Condition work_there_;
  Condition drained_;
  std::map<RunId, Driven> driven_ GUARDED_BY(mutex_);
  std::deque<kernel::Claimed> claimed_ GUARDED_BY(mutex_);
  int busy_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;
  mutable std::map<VersionId, std::optional<kernel::VersionRow>> versions_
      GUARDED_BY(mutex_);  // never change once there

  Alarm alarm_;
  std::vector<std::jthread> workers_;
  std::jthread dispatcher_;
};

}  // namespace bide::work
