// Remotes: runs that apps drive over HTTP [K1, K2, K4, J5]. A worker claims a run by a long poll, or is told of it at
// its URL and claims it then; what it does is checked by an Attempt, as for native code and programs. Its lease is
// renewed by its calls and runs on the boot-time clock: what the wall clock does, and the time in which this process
// did not run, take nothing from it. The attempt outlives the agent: its token follows from a secret of the file.
//
// Threads: any. ring() and told() are bells [C2]; due() may write. Failures: refusals are Problems (lease_lost,
// unauthorized,
// workflow_unknown, closing); faults of the store are thrown. Ownership: Store, Random, Executor and Feed outlive
// it; stop() before they go.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/base/errors.h"
#include "agent/base/mutex.h"
#include "agent/base/random.h"
#include "agent/flow/attempt.h"
#include "agent/kernel/remotes.h"
#include "agent/work/executor.h"
#include "agent/work/feed.h"
#include "db/store.h"

namespace bide::work {

struct RemoteOptions {
  DurationMs lease = limits::kRemoteLeaseMs;
  DurationMs abandon_after = limits::kAbandonMs;
};

class Remotes {
 public:
  Remotes(db::Store& store, Random& random, Executor& executor, Feed& feed, RemoteOptions options = {});
  Remotes(const Remotes&) = delete;
  Remotes& operator=(const Remotes&) = delete;

  // Rung when a lease begins: the sweep's recheck. Before the first claim.
  void set_lease_bell(std::function<void()> bell) { lease_bell_ = std::move(bell); }
  // K4: leases that an earlier process gave stay, with a whole one from now on. Once, before anything else.
  void adopt();
  // Blocked calls return and are not answered; nothing is written: leases go on under the next agent.
  void stop();

  [[nodiscard]] std::variant<kernel::RemoteVersion, Problem> add(const kernel::NewRemote& remote);
  // The newest version, for a start; nullopt: there is no remote workflow of that name.
  [[nodiscard]] std::optional<flow::Startable> find(const std::string& name);

  struct Ask {
    struct Workflow {
      std::string name;
      std::optional<std::string> version;  // absent: the newest
    };
    std::vector<Workflow> workflows;
    std::string worker;        // who asks: the principal, and the name that it gives itself
    std::optional<RunId> run;  // this one, or none
  };
  struct Given {
    std::shared_ptr<flow::Attempt> attempt;
    std::string token;
    std::string version;  // as which it runs
  };
  struct NothingDue {};
  using Claim = std::variant<Given, NothingDue, Problem>;
  // Waits until `until` (boot time) for something that is due; `gone`: the asker hung up.
  [[nodiscard]] Claim claim(const Ask& ask, BootMs until, const std::function<bool()>& gone);

  // Whose token this is; its lease is renewed. Problem: unauthorized, lease_lost.
  [[nodiscard]] std::variant<std::shared_ptr<flow::Attempt>, Problem> attempt(RunId run, std::int64_t epoch,
                                                                              const std::string& secret);
  [[nodiscard]] DurationMs lease() const { return options_.lease; }
  // The lease of this attempt lives, by the boot-time clock.
  [[nodiscard]] bool lease_lives(RunId run, std::int64_t epoch) const;

  void ring(RunId run);
  void told(RunId run);
  // Runs that became due: their apps are told, their workers look.
  void due();

  // Sweep duty and its look: leases that ended [W4], attempts past a cancel or a step's timeout by 30 s [K3, X1].
  std::int64_t sweep(TimeMs now);
  [[nodiscard]] std::optional<DurationMs> look(TimeMs now) const;

 private:
  struct Held {
    kernel::Fence fence;
    std::shared_ptr<flow::Attempt> attempt;  // null: not asked for since the agent started
    BootMs lease_until = 0;
    BootMs written_until = 0;  // what the file has, in this clock
    std::optional<BootMs> told_at;
  };
  struct Known;
  [[nodiscard]] std::variant<Known, Problem> known(db::ReadTx& tx, const Ask& ask) const;
  [[nodiscard]] std::optional<Given> claim_one(const Ask& ask, const Known& known);
  [[nodiscard]] std::shared_ptr<flow::Attempt> make_attempt(const kernel::Fence& fence, bool resumed);
  [[nodiscard]] std::string secret_of(RunId run, std::int64_t epoch) const;
  void renew(RunId run, std::int64_t epoch);
  void forget(RunId run, std::int64_t epoch);
  void lapse(const kernel::Fence& fence, const std::shared_ptr<flow::Attempt>& attempt);

  db::Store& store_;
  Random& random_;
  Executor& executor_;
  Feed& feed_;
  const RemoteOptions options_;
  std::string key_;  // constant after adopt()
  std::function<void()> lease_bell_;

  mutable Mutex mutex_;
  std::map<RunId, Held> held_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  Mutex making_;  // one attempt at a time is loaded
};

// What an attempt needs when its code was told to stop: its end is written, or the run handed back; nothing while one
// of its steps executes.
void conclude(flow::Attempt& attempt);

}  // namespace bide::work
