// The user as whom a workflow's processes run, by `run_as` of its manifest: another uid is the real wall between a
// workflow and the agent's file, and between it and what its people decide [A7].
//
// Guard, program, steps and probes are that user's; it reaches the socket, its version, and what is made for its runs:
// workspace, input, secrets, log, outcomes, outputs. All else in DIR is closed to it, the workspaces of other users
// too. Threads: any. Failures: a user that cannot be had is a text that says what to do; what cannot be given is thrown
// as std::runtime_error [E8]. What a user owns is never opened, made or changed through a link that it may have left.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/base/mutex.h"

namespace bide::work {

struct RunAsUser {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  std::string home;
  // "UID:GID:GROUP,GROUP", as a guard takes it.
  [[nodiscard]] std::string ids() const;
};

// The user, or why there is none: unknown, root itself, or the agent is not root and can start nothing as another.
[[nodiscard]] std::variant<RunAsUser, std::string> find_run_as(const std::string& name);

class RunAs {
 public:
  // `directory`: DIR.
  RunAs(std::string directory, std::string socket) : directory_(std::move(directory)), socket_(std::move(socket)) {}

  // Before each attempt: the ways that this user needs, and what else DIR holds closed to it.
  void open_ways(const RunAsUser& user) EXCLUDES(mutex_);
  // The door was made anew: those who could come in before can again (holders of steps that went on meanwhile).
  void open_door() EXCLUDES(mutex_);
  // A folder (0700) that is this user's, made if it is not there.
  void own_folder(const std::string& path, const RunAsUser& user) const;
  // A file (0600) that is this user's, made if it is not there.
  void own_file(const std::string& path, const RunAsUser& user) const;
  // A folder of ours (one attempt's secrets) with its files: the user may read them, and owns the files.
  void lend(const std::string& folder, const RunAsUser& user) const;

 private:
  void close_to_others() REQUIRES(mutex_);

  const std::string directory_;
  const std::string socket_;
  Mutex mutex_;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace bide::work
