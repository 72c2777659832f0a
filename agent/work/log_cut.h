// What keeps the log of a run from filling the disk: when it has grown too large, its middle is given back to the file
// system. Offsets stay as they are: its beginning and its end are what they were, and a hole is between them.
//
// Threads: any. Failures: a file system without holes keeps the whole log; the caller is told nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace bide::work {

struct LogCut {
  std::int64_t from = 0;   // the bytes from here …
  std::int64_t until = 0;  // … to before here are gone
};

// Cuts the log at `path` if more than 32 MiB of it are on the disk; nullopt: it was not.
[[nodiscard]] std::optional<LogCut> cut_log(const std::string& path);

}  // namespace bide::work
