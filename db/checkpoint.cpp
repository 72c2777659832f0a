#include "db/checkpoint.h"

#include <sqlite3.h>

#include "agent/base/errors.h"
#include "agent/base/limits.h"
#include "db/connection.h"

namespace bide::db {

Checkpointer::Checkpointer(Connection& connection)
    : connection_(connection), frame_bytes_(connection.pragma("PRAGMA page_size") + 24) {
  // Takes the place of the automatic checkpoint, which is off.
  sqlite3_wal_hook(
      connection.handle(),
      [](void* self, sqlite3*, const char*, int frames) {
        static_cast<Checkpointer*>(self)->frames_.store(frames, std::memory_order_relaxed);
        return SQLITE_OK;
      },
      this);
}

Checkpointer::Outcome Checkpointer::after_commit() {
  const std::int64_t frames = frames_.load(std::memory_order_relaxed);
  if (frames < tried_at_) tried_at_ = 0;  // the WAL began anew
  if ((frames - tried_at_) * frame_bytes_ < limits::kCheckpointBytes) return Outcome::done;
  tried_at_ = frames;
  return run(frames * frame_bytes_ > limits::kTruncateBytes ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE);
}

Checkpointer::Outcome Checkpointer::truncate() {
  if (!owed()) return Outcome::done;
  return run(SQLITE_CHECKPOINT_TRUNCATE);
}

Checkpointer::Outcome Checkpointer::run(int mode) {
  int in_log = 0;
  int moved = 0;
  // TRUNCATE would wait for readers with the busy timeout, and every caller with it.
  sqlite3_busy_timeout(connection_.handle(), 0);
  const int code = sqlite3_wal_checkpoint_v2(connection_.handle(), "main", mode, &in_log, &moved);
  sqlite3_busy_timeout(connection_.handle(), static_cast<int>(limits::kBusyMs));
  if ((code & 0xff) == SQLITE_FULL) return Outcome::full;
  if ((code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_LOCKED) return Outcome::partly;
  if (code != SQLITE_OK) connection_.fail(code, "checkpoint");
  if (moved > in_log) throw StorageFault("a checkpoint moved more frames than the WAL has: the file may be damaged");
  if (mode != SQLITE_CHECKPOINT_TRUNCATE) return moved == in_log ? Outcome::done : Outcome::partly;
  frames_.store(0, std::memory_order_relaxed);
  tried_at_ = 0;
  return Outcome::done;
}

}  // namespace bide::db
