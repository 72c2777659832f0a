// TaskPool: the workers of this process for tasks [K8, W6]. A task is offered by the attempt that asked for it, once
// its intent is committed; an offer that is lost is made again by the sweep. Claims make duplicates harmless.
//
// Threads: any for offer() (a bell: it never blocks, waits or writes) and run(); start() makes `workers` threads.
// run_one() does the same on the caller's thread (tests, simulator).
// Failures: what a function throws is the task's failure, retried like a step's [E2]; an outcome waits for a
// file that is full or busy [E9]; other faults of the store are logged, and the lease lapses. Ownership: Store, Random,
// Registry and Executor outlive it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/limits.h"
#include "agent/base/mutex.h"
#include "agent/base/random.h"
#include "agent/flow/registry.h"
#include "agent/kernel/tasks.h"
#include "agent/work/executor.h"
#include "db/store.h"

namespace bide::work {

class TaskPool {
 public:
  TaskPool(db::Store& store, Random& random, const flow::Registry& registry, Executor& executor);
  ~TaskPool();
  TaskPool(const TaskPool&) = delete;
  TaskPool& operator=(const TaskPool&) = delete;

  // K4: leases of a dead agent's workers have a whole one from now on. Once, before start() or run_one().
  void adopt();
  void start(int workers);
  // No task is claimed any more.
  void close();
  // K5: what executes has the grace to end and to be recorded; what is offered is left to the next agent. False: a
  // thread is still held by a function that has not returned; the destructor waits for it, a process may exit.
  bool stop(DurationMs grace = limits::kShutdownGraceMs);

  // Whether a worker elsewhere has this task, and is heard of: its lease goes on. Before start().
  void set_alive_elsewhere(std::function<bool(StepId)> alive) { alive_elsewhere_ = std::move(alive); }

  void offer(StepId task);
  // Claims and does one that is offered and due. False: nothing was.
  bool run_one();
  // Boot time at which the next one that is offered is due.
  [[nodiscard]] std::optional<BootMs> next_offer() const;
  // Claims and does this one. False: somebody else has it, or it is not due.
  bool run(StepId task);
  void set_pace(flow::Pace* pace) { pace_ = pace; }  // tests; before start() or run_one()

  // Sweep duties: ended leases, and tasks that nobody was offered for 30 s. Return how many they moved.
  std::int64_t sweep_leases(TimeMs now);
  std::int64_t sweep_undispatched(TimeMs now);

 private:
  struct Ran;
  void work(std::stop_token stop);
  [[nodiscard]] std::optional<StepId> next_due();
  [[nodiscard]] Ran execute(const kernel::TaskClaim& claim);
  [[nodiscard]] kernel::TaskRecorded record(const kernel::TaskClaim& claim, const kernel::TaskOutcome& outcome);
  [[nodiscard]] bool wait_for_room();
  void offer_at(StepId task, BootMs at);
  [[nodiscard]] bool works_on(StepId task) const;

  db::Store& store_;
  Random& random_;
  const flow::Registry& registry_;
  Executor& executor_;
  std::function<bool(StepId)> alive_elsewhere_;

  mutable Mutex mutex_;
  Condition offered_bell_;
  Condition over_;
  std::multimap<BootMs, StepId> offered_ GUARDED_BY(mutex_);
  std::multiset<StepId> executing_ GUARDED_BY(mutex_);
  bool closing_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;  // nobody waits for a full disk any more
  flow::Pace* pace_ = nullptr;

  std::vector<std::jthread> workers_;
};

}  // namespace bide::work
