// Starts a program by posix_spawn: 3 ms from an agent of 512 MB where fork takes 21 ms (packages.md).
//
// Threads: any. Failures are values with errno [E8]: the program never ran. The child gets exactly the descriptors
// named here (all others are closed), no blocked signals, default dispositions, and the environment given.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "agent/base/fd.h"
#include "agent/base/process_tree.h"

namespace bide {

enum class ProcessGroup {
  own,          // setpgid(0, 0): kill(-pid) reaches it and what stays in its group
  own_session,  // setsid(): no group and no terminal of ours
};

struct SpawnRequest {
  std::string program;  // with a '/': a path as seen from cwd; else searched in our PATH
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // NAME=value
  std::string cwd;                       // empty: ours
  ProcessGroup group = ProcessGroup::own;
  std::string stdin_path = "/dev/null";          // opened for reading, unless `descriptors` names 0
  std::string stdout_path;                       // opened for appending (created 0600), unless empty
  std::string stderr_path;                       // the same; may be the same file
  std::vector<std::pair<int, int>> descriptors;  // (ours, its number in the child); numbers from 0 without a gap
};

struct Spawned {
  ProcessKey key;  // start is 0 if the process could not be read
  Fd pidfd;        // readable when it has ended
};
struct SpawnFailed {
  int error = 0;     // errno of posix_spawn: ENOENT, EACCES, ENOEXEC, EAGAIN, EMFILE, …
  std::string text;  // "cannot start /usr/bin/x: No such file or directory"
};

[[nodiscard]] std::variant<Spawned, SpawnFailed> spawn_process(const SpawnRequest& request);

// Exit status as waitid gives it.
struct ExitStatus {
  bool signalled = false;
  int code = 0;  // exit code, or the signal's number
  bool operator==(const ExitStatus&) const = default;
};
// "exited with 3", "was ended by signal 9 (Killed)".
[[nodiscard]] std::string describe(const ExitStatus& status);

}  // namespace bide
