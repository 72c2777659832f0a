// Marks in a run's log: where an attempt began to write, where it did something new, where it was suspended. They
// stand in a file beside the log, DIR/logs/RUN.marks, a line each: KIND EPOCH OFFSET AT_MS UNTIL. What an attempt
// writes before its first new entry it wrote before: a replay. Where a step of an earlier attempt goes on, what that
// writes stands in between and is new: such an attempt is fresh from where it began.
//
// Threads: any; one writes at a time. Failures: what cannot be written or read is left out: a log without marks is
// shown as it is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/base/time.h"

namespace bide::work {

enum class LogMarkKind {
  began,      // an attempt
  fresh,      // it asked for something that the journal had not settled
  cut,        // the bytes from here to `until` were given back to the file system
  suspended,  // it waits, and its processes are ended; also handed back, to be gone on with later
};

struct LogMark {
  LogMarkKind kind = LogMarkKind::began;
  std::int64_t epoch = 0;
  std::int64_t offset = 0;  // bytes of the log
  TimeMs at_ms = 0;
  std::int64_t until = 0;  // cut
};

void append_mark(const std::string& path, const LogMark& mark);
[[nodiscard]] std::vector<LogMark> read_marks(const std::string& path);
// "began", "fresh", "cut", "suspended".
[[nodiscard]] std::string_view to_text(LogMarkKind kind);

}  // namespace bide::work
