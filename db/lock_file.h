// LockFile: proves that this process alone has the directory [C5]. An fcntl lock of the open file description on
// DIR/bide.lock, which ends with the process; close-on-exec, so that a guard or holder that lives on does not hold it.
// The file holds the pid of its owner as text. It is never removed. Any thread.
// Never opens bide.db: closing another descriptor of it would drop SQLite's locks.
#pragma once

#include <string>

#include "agent/base/fd.h"

namespace bide::db {

class LockFile {
 public:
  // Throws ConfigFault at once, naming the holder's pid, if another Store (of any process) has the directory.
  explicit LockFile(const std::string& directory);

 private:
  Fd fd_;
};

// The pid that stands in DIR/bide.lock, 0 without one. It says nothing about whether that process lives.
[[nodiscard]] long lock_holder_pid(const std::string& directory);

}  // namespace bide::db
