// What the agent and the guard of an attempt say to each other over two pipes. The guard is `bide --guard ARGV…`,
// in a session of its own, with descriptor 3 to hear the agent and 4 to report. Its environment and folder are the
// program's; 0 is /dev/null, 1 and 2 are the attempt's log. `bide --guard --as=UID:GID:GROUPS ARGV…` becomes that user
// before anything else, for good, with all below it (run_as).
//
// Agent to guard, one byte each. The end of the file means: the agent died, end everything.
//   'g'  go: start the program (its `processes` row is committed [K7])
//   'e'  end everything below with SIGKILL
// Or a line:
//   + PID START\n  a holder of a step: spare it, with all below it, however the end comes (its row is committed [K7])
//   - PID START\n  spare it no longer
// Guard to agent, one line each:
//   started PID START    the program runs
//   error ERRNO          it could not be started; nothing ran
//   exit CODE            the program (not all below it) has ended by itself
//   signal NUMBER        … by a signal
//   alive PID NAME       being ended, and this one is still there (at most once a second)
//   gone                 nothing is left; the guard exits
#pragma once

#include <string_view>

namespace bide::guard_protocol {

inline constexpr const char* kMode = "--guard";
inline constexpr std::string_view kRunAsFlag = "--as=";
inline constexpr const char* kUndoMode = "--undo";  // the program of an attempt that takes steps back [E6]
inline constexpr int kHearFd = 3;
inline constexpr int kReportFd = 4;
inline constexpr char kGo = 'g';
inline constexpr char kEnd = 'e';
inline constexpr char kSpare = '+';
inline constexpr char kSpareNot = '-';

}  // namespace bide::guard_protocol
