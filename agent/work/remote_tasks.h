// RemoteTasks: tasks that apps do over HTTP [K8]. A worker comes for what its functions can do, has the task for 30 s
// from its last heartbeat, by the boot-time clock, and says what came of it under the task's epoch.
//
// Threads: any. Failures: Problems (task_not_found, lease_lost); faults of the store are thrown. Ownership: Store,
// Random, Executor and Feed outlive it.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/base/errors.h"
#include "agent/base/mutex.h"
#include "agent/base/random.h"
#include "agent/kernel/task_push.h"
#include "agent/kernel/tasks.h"
#include "agent/work/executor.h"
#include "agent/work/feed.h"
#include "db/store.h"

namespace bide::work {

class RemoteTasks {
 public:
  RemoteTasks(db::Store& store, Random& random, Executor& executor, Feed& feed)
      : store_(store), random_(random), executor_(executor), feed_(feed) {}

  // Waits until `until` (boot time) for a task of one of these functions; `gone`: the asker hung up. nullopt: none
  // came.
  [[nodiscard]] std::optional<kernel::TaskClaim> claim(const std::vector<std::string>& functions,
                                                       const std::string& worker, BootMs until,
                                                       const std::function<bool()>& gone);
  // Who had which task, as it says.
  struct Worker {
    StepId task;
    std::int64_t epoch = 0;
    std::string name;
  };
  struct Recorded {
    std::optional<TimeMs> retry_at;  // it failed, and is to be done again then
  };
  using Outcome = std::variant<Recorded, Problem>;
  // The same result again is acknowledged and changes nothing.
  [[nodiscard]] Outcome complete(const Worker& worker, const std::string& result,
                                 const std::optional<std::string>& usage);
  // `error`: JSON. retryable: E2's delays, as often as the task has retries.
  [[nodiscard]] Outcome fail(const Worker& worker, const std::string& error, bool retryable);
  [[nodiscard]] std::optional<Problem> heartbeat(const Worker& worker);

  // Functions that are called at a URL; an empty one: not any more.
  void set_function(const kernel::TaskFunction& function, const std::string& by);
  // Once, before the first push: whether there are any.
  void learn();
  [[nodiscard]] bool pushes() const { return pushes_.load(); }
  // Sweep duty and its look: asks for what is due.
  std::int64_t push(TimeMs now);
  [[nodiscard]] std::optional<DurationMs> look(TimeMs now);
  // For Deliverer: what an endpoint answered to a row of kind task.
  void answered(db::Tx& tx, DeliveryId row, int status, const std::string& body);
  // D4: the error that a result is instead, if it holds a secret; nullopt: it holds none. Before start().
  void set_secret_in(std::function<std::optional<std::string>(std::string_view)> look) { secret_in_ = std::move(look); }

  // For TaskPool: its worker was heard of within the lease.
  [[nodiscard]] bool alive(StepId task) const;

 private:
  struct Lease {
    std::int64_t epoch = 0;
    BootMs until = 0;
  };
  [[nodiscard]] Outcome finish(const Worker& worker, const kernel::TaskOutcome& outcome, bool retryable);
  void forget(StepId task, std::int64_t epoch);

  db::Store& store_;
  Random& random_;
  Executor& executor_;
  Feed& feed_;
  std::function<std::optional<std::string>(std::string_view)> secret_in_;
  std::atomic<bool> pushes_{false};
  mutable Mutex mutex_;
  std::map<StepId, Lease> leases_ GUARDED_BY(mutex_);
};

}  // namespace bide::work
