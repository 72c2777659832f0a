// The bounds of the API, each with its because: the second sheet of limits.h.
#pragma once

#include "agent/base/limits.h"

namespace bide::limits {

// The becauses stand in one column.
// clang-format off

inline constexpr int kStreams = 512;                        // of events: a person's tabs and a box's apps (guess)
inline constexpr std::int64_t kHeartbeatMs = 15'000;        // below what proxies and browsers take for dead
inline constexpr std::size_t kStreamBytes = 64 << 10;       // of a stream, written before more is asked for
inline constexpr int kStreamPage = 200;                     // events that one read brings
inline constexpr std::size_t kRingEvents = 4'096;           // rendered events that all streams share: who is further
inline constexpr std::size_t kRingBytes = 4 << 20;          // … behind reads the file
inline constexpr std::int64_t kStreamPaceMs = 20;           // a busy agent's commits are read together: nobody sees 20 ms
inline constexpr int kWrongTokens = 10;                     // answered 401 in kWrongTokensMs, the rest 429 (guess)
inline constexpr std::int64_t kWrongTokensMs = 10'000;
inline constexpr int kActionRuns = 50;                      // of an action on many, in one transaction: 5 ms (guess)
inline constexpr int kActionItems = 1'000;                  // of its answer: the rest is counted
inline constexpr std::int64_t kLittleDiskBytes = 256 << 20; // doctor warns: a WAL and a backup do not fit (guess)
inline constexpr unsigned long kLittleDiskFiles = 1'000;     // … and workspaces need files
inline constexpr int kVersionsShown = 50;                   // of a workflow: the newest
inline constexpr std::int64_t kCheckMostMs = 150'000;          // of a check over HTTP: its replays have 120 s, and it has to start and end
inline constexpr std::int64_t kCheckGraceMs = 10'000;         // to clear up when it is told to end: longer than a suspension takes (guess)
inline constexpr std::int64_t kAuditHeadMs = 600'000;       // the head of the audit's chain goes to the log so often
// clang-format on

}  // namespace bide::limits
