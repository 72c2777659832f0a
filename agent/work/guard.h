// GuardedProcess: the agent's side of a guard (agent/verb/guard.h), for one attempt of a program run. Knows no runs.
//
// Order: start() → commit the `processes` row with key() → go() → wait_report()/poll_reports() until gone → destroy.
// Threads: one owner; end() and go() may be called from another one while the owner waits.
// Failures: start() returns SpawnFailed [E8]; a program that cannot be started is report().start_error. A guard that
// is killed itself is `lost`: the owner calls end_leftovers() until it says that nothing is left.
// Ownership: the pipe's end that keeps the tree alive; destroying the object ends the tree (the guard sees to it).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/mutex.h"
#include "agent/base/process_tree.h"
#include "agent/work/spawner.h"

namespace bide::work {

struct GuardRequest {
  std::string guard_executable;          // the static `bide`
  std::vector<std::string> argv;         // the program; argv[0] is its path
  std::vector<std::string> environment;  // complete: nothing of the agent's own is added
  std::string cwd;
  std::string log_path;     // stdout and stderr, opened for appending
  std::string stderr_path;  // empty: the same file
  std::string run_as;       // "UID:GID:GROUP,GROUP" (RunAsUser::ids()); empty: as the agent
};

// What the guard has said so far.
struct GuardReport {
  std::optional<ProcessKey> program;
  std::optional<int> start_error;  // errno; nothing ran, and end() leads to gone
  std::optional<ExitStatus> exit;  // of the program; others below it may go on
  std::string alive;               // "812 tar": what resists its end
  bool gone = false;               // nothing is left
  bool lost = false;               // the guard ended without having said so
  [[nodiscard]] bool over() const { return gone || lost; }
};

class GuardedProcess {
 public:
  [[nodiscard]] static std::variant<std::unique_ptr<GuardedProcess>, SpawnFailed> start(Spawner& spawner,
                                                                                        const GuardRequest& request);
  ~GuardedProcess();
  GuardedProcess(const GuardedProcess&) = delete;
  GuardedProcess& operator=(const GuardedProcess&) = delete;

  // The guard's identity: what the `processes` row holds.
  [[nodiscard]] const ProcessKey& key() const { return spawned_.key; }
  // Starts the program. Nothing of it runs before.
  void go();
  // Ends the whole tree with SIGKILL; may be called again (it wakes a guard that somebody stopped).
  void end();
  // A holder that outlives the tree, and one that does not any more [K7]. A bell may call it: it never waits, and a
  // guard that does not listen ends the holder with the rest.
  void spare(const ProcessKey& holder);
  void spare_not(const ProcessKey& holder);
  // Reads what has been reported, without waiting.
  const GuardReport& poll_reports();
  // The same, after waiting for something new, at most so long. True: something new was read.
  bool wait_report(std::chrono::milliseconds longest);
  [[nodiscard]] const GuardReport& report() const { return report_; }
  // For poll(2): readable when there is something to read.
  [[nodiscard]] int report_fd() const { return hears_.get(); }
  // What the tree is, for process_watch and for ending it by hand.
  [[nodiscard]] TreeScope scope() const;

 private:
  GuardedProcess(Spawned spawned, AttemptMark mark, Fd tells, Fd hears);
  void tell(std::string_view text) REQUIRES(mutex_);
  void take_line(const std::string& line);
  void reap_guard();

  const Spawned spawned_;
  const AttemptMark mark_;
  const Fd hears_;
  mutable Mutex mutex_;
  Fd tells_ GUARDED_BY(mutex_);
  std::vector<ProcessKey> spared_ GUARDED_BY(mutex_);
  GuardReport report_;
  std::string unread_;
  bool reaped_ = false;
};

// The mark of an environment with BIDE_AGENT and BIDE_ATTEMPT ("bat_RUN_EPOCH_SECRET"); run 0 if there is none.
[[nodiscard]] AttemptMark mark_of(const std::vector<std::string>& environment);

// Ends what a guard left, or a guard of an earlier agent with all below it (W7): one pass. True: nothing was left.
// Call it again after a few milliseconds until it is true; what resists for long is in `alive`, if given.
bool end_leftovers(const TreeScope& scope, std::string* alive = nullptr);

}  // namespace bide::work
