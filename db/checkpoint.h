// Checkpointer: moves the WAL into the database, on the writer's connection and thread only: a checkpoint beside
// another connection's commit can lose data in this SQLite (packages.md). PASSIVE about every 8 MB of WAL, TRUNCATE
// above 64 MB and when going idle. Readers that hold an old snapshot make it do less, never fail.
// Failures: disk full is nothing fatal (Outcome::full); an I/O error throws StorageFault; a checkpoint that claims
// more frames than the WAL has is the WAL-reset bug: throws StorageFault too.
#pragma once

#include <atomic>
#include <cstdint>

namespace bide::db {

class Connection;

class Checkpointer {
 public:
  enum class Outcome { done, partly, full };

  explicit Checkpointer(Connection& connection);
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // After each commit: checkpoints if the WAL has grown enough since the last one.
  Outcome after_commit();
  // Empties the WAL file, as far as readers allow.
  Outcome truncate();
  // True: something was committed since the WAL was last emptied.
  [[nodiscard]] bool owed() const { return frames_.load(std::memory_order_relaxed) > 0; }
  [[nodiscard]] std::int64_t wal_bytes() const { return frames_.load(std::memory_order_relaxed) * frame_bytes_; }

 private:
  Outcome run(int mode);

  Connection& connection_;
  std::int64_t frame_bytes_;
  std::atomic<std::int64_t> frames_{0};  // in the WAL, told by SQLite's hook at each commit
  std::int64_t tried_at_ = 0;            // frames_ at the last attempt
};

}  // namespace bide::db
