// Job: what somebody asked the writer to do. BatchRunner: runs jobs in one transaction, each as if in a savepoint of
// its own: a batch in which one throws is rolled back and run again, with savepoints.
// The writer's thread only (inline: under the store's mutex).
// Failures: what a job throws stays in its job, unless it is the storage's: then the whole batch is rolled back and
// End says why. Nothing is answered here: answers come after the COMMIT, from the Writer [C2].
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/base/clock.h"
#include "db/connection.h"
#include "db/error_value.h"
#include "db/store.h"
#include "db/tx_scope.h"

namespace bide::db {

class Parker;

// Lives on its caller's stack (write: `parker` is set) or on the heap (submit, ride: `done` is called, then deleted).
struct Job {
  Job* next = nullptr;
  const std::function<void(Tx&)>* work = nullptr;
  Purpose purpose = Purpose::normal;
  bool rides = false;
  std::shared_ptr<const std::atomic<bool>> needless;  // of a rider: true when it is taken: it is not run
  ErrorValue error;                                   // none: it committed
  Parker* parker = nullptr;
  Job* follower = nullptr;  // answered by this one's caller: the writer does not wake them all itself
  std::function<void(Tx&)> own_work;
  std::function<void(const std::optional<std::string>&)> done;
};

class BatchRunner {
 public:
  enum class End {
    committed,
    refused,  // rolled back, and all jobs have the error: somebody else has the write lock, a deferred key …
    full,     // rolled back: the disk is full, nothing is in doubt
    fatal     // an I/O error: the outcome is unknown
  };

  BatchRunner(Connection& connection, Clock& clock, StoreClock& store_clock);

  // On `committed` each job's error says how it went, and bells() are to be rung once they are answered.
  [[nodiscard]] End run(const std::vector<Job*>& jobs);
  // Commits one small row: is there room again?
  [[nodiscard]] End probe();
  [[nodiscard]] std::vector<Bell>& bells() { return scope_.bells; }
  [[nodiscard]] const ErrorValue& why() const { return why_; }  // after an End that is not `committed`
  [[nodiscard]] bool foreign_writer_seen() const { return foreign_writer_seen_; }
  void set_announced(const std::function<void(std::int64_t)>* bell) { scope_.announced = bell; }
  void load_counters() { scope_.counters.load(connection_); }

 private:
  enum class Each { alone, bare, savepoint };
  End run(const std::vector<Job*>& jobs, Each each);
  void run_job(Job& job, TimeMs now, Each each);
  void look_for_foreign_writer();
  void write_clock_mark(TimeMs now);
  End end_of_failure();

  Connection& connection_;
  Clock& clock_;
  StoreClock& store_clock_;
  TxScope scope_;
  ErrorValue why_;
  std::int64_t data_version_ = 0;
  bool foreign_writer_seen_ = false;
  std::optional<BootMs> marked_at_;
};

}  // namespace bide::db
