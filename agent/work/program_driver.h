// ProgramDriver: runs one attempt of a program workflow: workspace, environment, guard, suspension, end [V1, V2, K7].
//
// Threads: drive() on a worker's; the rest any. Failures: a spawn that fails hands the run back with a reason [E8].
// Ownership: the Store, the Spawner and the PinnedPrograms outlive it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/base/mutex.h"
#include "agent/base/random.h"
#include "agent/kernel/processes.h"
#include "agent/work/driver.h"
#include "agent/work/environments.h"
#include "agent/work/guard.h"
#include "agent/work/holders.h"
#include "agent/work/process_watch.h"
#include "agent/work/run_as.h"
#include "agent/work/secrets.h"
#include "agent/work/spawner.h"
#include "db/store.h"

namespace bide::work {

struct ProgramSettings {
  std::string directory;        // DIR: workspaces/, versions/, logs/ below it
  std::string socket;           // BIDE_AGENT
  std::string verb_executable;  // the static `bide`
  std::string path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  std::string home;
  std::string user;
  DurationMs cancel_grace = limits::kCancelGraceMs;
  DurationMs shutdown_grace = limits::kProgramShutdownMs;
};

// Lays the files of a pinned version out and says what of them is run.
struct ProgramHome {
  std::string folder;  // BIDE_HOME
  std::string main;    // path of the executable
};
using LayOut = std::function<ProgramHome(const kernel::VersionRow& version)>;

class ProgramDriver final : public Driver {
 public:
  ProgramDriver(db::Store& store, Random& random, Spawner& spawner, Holders& holders, ProgramSettings settings,
                LayOut lay_out);

  flow::AttemptOptions options(const kernel::VersionRow& version) const override;
  int max_running(WorkflowId workflow) const override;
  void let_finish(flow::Attempt& attempt) override;
  void drive(const std::shared_ptr<flow::Attempt>& attempt, const kernel::VersionRow& version) override;

  // Why no process can be started as this user of a manifest; empty: none is named.
  [[nodiscard]] std::optional<std::string> refuses(const std::string& run_as) const;
  // The socket was made anew.
  void open_door() { run_as_.open_door(); }
  // K1: of the newest version of each workflow; set when one is pinned. True: it was another one.
  bool set_max_running(WorkflowId workflow, int limit);
  // What manifests name as their environment; absent: there are none. Before the first drive().
  void set_environments(Environments* environments) { environments_ = environments; }
  // What manifests name as their secrets; absent: there are none. Before the first drive().
  void set_secrets(Secrets* secrets) { secrets_ = secrets; }
  // Programs are only tried out; outlives the driver. Before the first drive().
  void set_rehearsal(flow::Rehearsal* rehearsal) { rehearsal_ = rehearsal; }
  // Rung after a guard's row was marked stopped: its run may be claimed.
  void set_stopped_bell(std::function<void()> bell);
  // Rung when an attempt has ended and holders of its run are left: the sweep's bell.
  void set_left_bell(std::function<void()> bell);
  // "held by pid 812 tar": why an attempt is not suspended, for explain; empty: nobody holds it, or not driven here.
  [[nodiscard]] std::string held_by(RunId run) const override;

  // W7, K7: rows of processes that nobody of this agent drives. A guard has `guard_grace` to end its tree by itself;
  // then it is ended with all below it but holders. A holder whose step is settled, or whose run has ended, is ended;
  // of a dead one the file is taken; one of a started step goes on. A sweep duty; returns how many were marked stopped.
  std::int64_t sweep_processes(TimeMs now);
  // While rows are left that a later pass must look at: in how long.
  [[nodiscard]] std::optional<DurationMs> look_again() const;

 private:
  class Running;
  class Preparing;
  struct Forget;
  [[nodiscard]] std::vector<std::string> environment(const flow::Attempt& attempt, const kernel::VersionRow& version,
                                                     const ProgramHome& home, const Running& running) const;
  [[nodiscard]] bool become_user(flow::Attempt& attempt, const kernel::VersionRow& version, Running& running);
  [[nodiscard]] bool prepare(flow::Attempt& attempt, const kernel::VersionRow& version, Running& running,
                             ProgramHome& home);
  [[nodiscard]] bool enter_environment(flow::Attempt& attempt, const kernel::VersionRow& version, Running& running);
  [[nodiscard]] bool hand_out_secrets(flow::Attempt& attempt, const kernel::VersionRow& version, Running& running);
  void take_back_secrets();
  void watch(flow::Attempt& attempt, Running& running);
  void conclude(flow::Attempt& attempt, Running& running);
  [[nodiscard]] bool sweep_guard(const kernel::ProcessRow& row, const std::vector<kernel::ProcessRow>& rows,
                                 BootMs since, BootMs now) const;
  [[nodiscard]] bool sweep_holder(const kernel::ProcessRow& row);

  db::Store& store_;
  Random& random_;
  Spawner& spawner_;
  Holders& holders_;
  const ProgramSettings settings_;
  const LayOut lay_out_;
  RunAs run_as_;
  std::function<void()> stopped_bell_;
  Environments* environments_ = nullptr;
  Secrets* secrets_ = nullptr;
  flow::Rehearsal* rehearsal_ = nullptr;
  std::function<void()> left_bell_;

  mutable Mutex mutex_;
  std::map<WorkflowId, int> max_running_ GUARDED_BY(mutex_);
  std::map<RunId, std::string> held_by_ GUARDED_BY(mutex_);
  std::map<ProcessId, bool> mine_ GUARDED_BY(mutex_);          // rows of guards that this process drives
  std::set<Secrets::Attempt> preparing_ GUARDED_BY(mutex_);    // that drive() is at work on
  std::map<RunId, std::int64_t> driven_ GUARDED_BY(mutex_);    // their runs, and the epoch
  std::map<ProcessId, BootMs> first_seen_ GUARDED_BY(mutex_);  // rows of earlier agents: since when this one knows them
};

}  // namespace bide::work
