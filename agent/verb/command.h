// Runs the command of a step, or a probe: in a group of its own, stdin from nowhere or our own, stdout collected,
// stderr passed through to the log with its end kept. One thread. The caller must be a subreaper, so that a command
// that is ended by its timeout is ended with all that it started, wherever that went [E5].
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/base/clock.h"
#include "agent/base/limits.h"
#include "agent/base/spawn.h"
#include "agent/verb/spill.h"

namespace bide::verb {

struct CommandRequest {
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  bool own_stdin = false;     // ours, handed on; else /dev/null
  DurationMs timeout_ms = 0;  // 0: none
  std::string spill_path;     // where output over limits::kDocumentBytes goes; empty: it is too large
  std::int64_t most_out = kOutputBytes;
  std::size_t longest_secret = 0;  // what is kept of too much output is so much more: the cut must not go through one
};

struct CommandResult {
  std::optional<SpawnFailed> not_started;  // nothing ran
  bool timed_out = false;                  // and was ended by us
  ExitStatus exit;
  std::string out;  // at most limits::kDocumentBytes, or limits::kKeptOfTooLarge and longest_secret if there was more
  Spill spill;      // begun: all of it is in there, not finished yet
  bool out_too_large = false;  // or it could not be kept: `why_lost` says why
  std::string why_lost;
  std::string err_end;  // the last limits::kKeptOfTooLarge and longest_secret bytes of stderr
};

// Its end is its exit, not the end of its output: what it left running may hold the pipe; 200 ms more are read.
[[nodiscard]] CommandResult run_command(const CommandRequest& request, Clock& clock);

}  // namespace bide::verb
