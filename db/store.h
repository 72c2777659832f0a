// Store: the one writer of the file, with group commit, and a pool of read-only connections.
//
// Threads: any thread may call write, submit, ride and read. Threaded: one writer thread takes what queued while the
// last sync ran, runs each job as if in a savepoint of its own, commits once, then hands over what the jobs yielded, in
// order, and rings their bells [C2]. Inline (tests, simulator): the caller's thread does the same for one job.
// Failures: what a job throws is thrown to its caller after the batch's COMMIT; the job alone rolls back. If the
// COMMIT fails nobody is answered with success: StorageFault to all, sticky, and on_fatal is called [C4]. Disk full:
// StorageFull to the batch's callers, later writes that do not use the reserve are refused until a probe commits [C4].
// Ownership: the Store owns its connections and the lock file; the Clock must outlive it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "agent/base/clock.h"
#include "db/durability.h"
#include "db/embedded.h"
#include "db/tx.h"

namespace bide::db {

struct StoreOptions {
  std::string directory;  // DIR: holds bide.db, bide.lock, bide.reserve; made (0700) if it is missing
  bool threaded = true;   // false: inline
  Durability durability = Durability::full;
  std::string vfs;  // name of a registered VFS, empty for the default
  int readers = 4;  // read-only connections
  // Called once, on the writer, after an I/O error whose outcome is unknown. The default logs and ends the process
  // with code 70 (EX_SOFTWARE). Tests replace it.
  std::function<void(const std::string& what)> on_fatal;
  // Called on the writer after each COMMIT and its bells; obeys the rules of bells [C2].
  std::function<void()> after_batch;
  // Called on the writer after the COMMIT for each id given to Tx::announce, in order; a bell [C2].
  std::function<void(std::int64_t id)> announced;
  std::span<const EmbeddedFile> migrations = embedded_migrations();  // tests bring their own
};

// What a write is for: decides whether it may go on when the disk is full [C4].
enum class Purpose {
  normal,    // refused with StorageFull while the disk is full
  decision,  // decisions and cancels: may use the reserve
};

struct StoreHealth {
  bool storage_full = false;
  bool failed = false;               // sticky
  bool foreign_writer_seen = false;  // PRAGMA data_version moved without us
  std::int64_t wal_bytes = 0;
  std::size_t queued_jobs = 0;
  std::uint64_t commits = 0;
  std::uint64_t jobs = 0;
  std::uint64_t wakes = 0;  // of the writer's thread: none while idle
};

class Store {
 public:
  // Takes DIR/bide.lock (throws ConfigFault naming the pid of the holder, within 1 s [C5]), opens and migrates
  // DIR/bide.db (throws ConfigFault for a newer file, whose bytes stay unchanged), loads the counters [D2].
  Store(StoreOptions options, Clock& clock);
  ~Store();  // runs what is queued, then joins the writer and checkpoints
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Runs `job(Tx&)` and returns what it returned, after the COMMIT. Must not be called from a job or a bell (Bug).
  // A job may run twice (a batch in which another threw, or that met a full disk, is rolled back and run again): what
  // it does outside of the transaction must bear that, and it leaves what it captured as it found it. Other exceptions
  // than those of base/errors.h arrive as std::runtime_error with their text.
  template <class Job>
  auto write(Job job, Purpose purpose = Purpose::normal) -> std::invoke_result_t<Job, Tx&> {
    using Result = std::invoke_result_t<Job, Tx&>;
    if constexpr (std::is_void_v<Result>) {
      run_and_wait([&](Tx& tx) { job(tx); }, purpose);
    } else {
      std::optional<Result> result;
      run_and_wait([&](Tx& tx) { result.emplace(job(tx)); }, purpose);
      return std::move(*result);
    }
  }
  // Queues a job without waiting. `done` is called on the writer after the COMMIT (or with the error, as text, if
  // the job threw or the COMMIT failed); it obeys the rules of bells. Inline: runs before submit returns.
  void submit(std::function<void(Tx&)> job, std::function<void(const std::optional<std::string>& error)> done,
              Purpose purpose = Purpose::normal);
  // Queues a job that rides: it starts no commit of its own before limits::kRiderMs have passed, but goes along
  // with the next batch [J1]. Inline: runs with the next write, or at flush_riders(). `done` as in submit.
  // `needless`, when true as its batch is taken: the job is not run (a later one carries what it was to write) and
  // `done` is called as if it had committed.
  void ride(std::function<void(Tx&)> job, std::function<void(const std::optional<std::string>& error)> done,
            std::shared_ptr<const std::atomic<bool>> needless = nullptr);
  // Commits the riders that are queued (inline: at once; threaded: wakes the writer and waits).
  void flush_riders();

  // Runs `job(ReadTx&)` on a read-only connection, in one snapshot that is at least as new as the last answer
  // given. Waits for a free connection.
  template <class Job>
  auto read(Job job) -> std::invoke_result_t<Job, ReadTx&> {
    ReadLease lease(*this);
    return job(lease.tx());
  }

  [[nodiscard]] TimeMs now() const;     // the store's clock
  [[nodiscard]] StoreClock& clock();    // follow_wall(), held()
  [[nodiscard]] Clock& system_clock();  // the port that the store was given
  [[nodiscard]] StoreHealth health() const;
  [[nodiscard]] const std::string& directory() const;
  // Stops taking jobs (later ones throw StorageFault "closing"), runs what is queued.
  void close();

 private:
  class ReadLease {
   public:
    explicit ReadLease(Store& store);
    ~ReadLease();
    ReadTx& tx() { return *tx_; }

   private:
    Store& store_;
    Connection* connection_;
    std::optional<ReadTx> tx_;
  };
  void run_and_wait(const std::function<void(Tx&)>& job, Purpose purpose);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bide::db
