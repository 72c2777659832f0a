// The holder of a step's command: a process that outlives the attempt, so that an agent that restarts disturbs no step
// [K7]. `bide step` makes it ready, tells the agent who it is, and lets it go once that is committed; then it runs the
// command, keeps the outcome in a file, and hands it in under its nonce until it is acknowledged [K2].
//
// It is `bide --holder JOB CMD…`, in a session of its own, in the folder and with the environment of the command: 0 is
// the command's stdin, 1 /dev/null, 2 where the verb's stderr goes, 3 the pipe on which it is told to go. One thread.
// Failures: what cannot be started, a timeout, a signal are outcomes too. A holder whose pipe closes before it is told
// to go hands in that nothing has begun.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/base/fd.h"
#include "agent/base/secrets.h"
#include "agent/base/spawn.h"
#include "agent/base/time.h"
#include "agent/verb/spill.h"

namespace bide::verb {

inline constexpr const char* kHolderMode = "--holder";

struct HolderJob {
  std::string file;         // of the outcome
  std::string output_file;  // of output that is too large for the journal
  std::int64_t most_output = kOutputBytes;
  DurationMs timeout_ms = 0;
  bool unknown_at_timeout = false;        // E5: what it had done by then nobody knows
  bool keeps_output = false;              // --try: a failed command's stdout stands in its error
  std::vector<std::int64_t> no_retry_on;  // exit codes
  DurationMs backoff_ms = 0;
  std::vector<std::string> command;
  std::vector<std::string> environment;  // with BIDE_AGENT and BIDE_STEP, the token of this execution
  std::optional<std::string> input;      // absent: /dev/null
  SecretValues secrets;                  // of the attempt: what is handed in holds none [D4]
};

// The verb's side: a holder that waits for go().
class HolderProcess {
 public:
  [[nodiscard]] static std::variant<HolderProcess, SpawnFailed> start(const HolderJob& job);
  [[nodiscard]] const ProcessKey& key() const { return key_; }
  void go();

 private:
  HolderProcess(ProcessKey key, Fd tells) : key_(key), tells_(std::move(tells)) {}
  ProcessKey key_;
  Fd tells_;
};

// The holder itself. `argv` is what follows --holder. Returns its exit code.
int run_holder(char** argv);

}  // namespace bide::verb
