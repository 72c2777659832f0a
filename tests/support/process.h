// Process: a real executable under test. Its stdout and stderr go to files, so that a pipe never fills up and a
// grandchild that keeps it open holds nobody. At the end of the scope it is killed (by its pid, or by its group if
// it got one) and reaped. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"

namespace bide::test {

struct Command {
  std::vector<std::string> argv;                         // argv[0] is searched in PATH if it has no '/'
  std::vector<std::pair<std::string, std::string>> env;  // added to ours, or alone if clear_env
  bool clear_env = false;
  std::string cwd;         // empty: ours
  std::string input;       // stdin
  bool own_group = false;  // its descendants are killed with it (setpgid)
};

struct Exit {
  int code = -1;   // -1 if a signal ended it
  int signal = 0;  // 0 if it ended by itself
  bool operator==(const Exit&) const = default;
};

struct Finished {
  Exit exit;
  std::string out;
  std::string err;
};

class Process {
 public:
  // Throws std::runtime_error if it cannot be started.
  explicit Process(const Command& command);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool running() { return !wait(std::chrono::milliseconds(0)); }
  // To the process alone; nothing happens if it has ended.
  void signal(int number);
  // nullopt: still running when the deadline passed. Gives the same answer again once it has ended.
  [[nodiscard]] std::optional<Exit> wait(std::chrono::milliseconds deadline);
  // SIGKILL and reap.
  void kill();
  [[nodiscard]] std::string out() const { return read_file(dir_ / "out"); }
  [[nodiscard]] std::string err() const { return read_file(dir_ / "err"); }

 private:
  TempDir dir_;
  pid_t pid_ = -1;
  bool own_group_ = false;
  std::optional<Exit> exit_;
};

// Runs to the end. Throws std::runtime_error with what it wrote if it does not end in time.
[[nodiscard]] Finished run(const Command& command, std::chrono::milliseconds deadline = std::chrono::seconds(60));

}  // namespace bide::test
