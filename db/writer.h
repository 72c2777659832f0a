// Writer: the queue of jobs and the one thread that commits them [C2], or the same inline.
//
// Threads: add, health: any. Batches, answers and bells: the writer's thread (inline: the caller's, one at a
// time). Natural batching: a batch is what queued while the last one synced. Riders start no batch before
// limits::kRiderMs have passed.
// Failures: an I/O error ends it for good (failed(), on_fatal once, before anybody is answered) [C4]. Disk full: see
// disk_full_. Ownership: borrows the connection; jobs on the heap are its own.
#pragma once

#include <semaphore.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/mutex.h"
#include "db/batch.h"
#include "db/checkpoint.h"
#include "db/reserve.h"

namespace bide::db {

// Where a caller of write() waits for its answer. One a thread, used again. A semaphore: waking one costs a single
// system call and no mutex that the woken would meet, and its thread may end right after.
class Parker {
 public:
  Parker() { ::sem_init(&answered_, 0, 0); }
  ~Parker() { ::sem_destroy(&answered_); }
  Parker(const Parker&) = delete;
  Parker& operator=(const Parker&) = delete;
  void wait() {
    while (::sem_wait(&answered_) != 0) {  // EINTR
    }
  }
  void answer() { ::sem_post(&answered_); }

 private:
  sem_t answered_{};
};

class Writer {
 public:
  struct Options {
    bool threaded = true;
    std::function<void(const std::string&)> on_fatal;
    std::function<void()> after_batch;
    std::function<void(std::int64_t)> announced;
  };
  Writer(Connection& connection, Clock& clock, StoreClock& store_clock, const std::string& directory, Options options);
  ~Writer() { close(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Queues a job. Inline: runs it (and the riders before it) before it returns, unless it rides. A job that is not
  // taken (closing, failed, disk full) is answered at once, here. Throws Bug from within a job or bell that waits.
  void add(Job& job);
  // Waits for the answer of a job that has a parker, and wakes those that were left to it.
  static void await(Job& job);
  void close();  // runs what is queued, checkpoints, ends the thread. Twice is once.

  [[nodiscard]] StoreHealth health() const;
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }

 private:
  enum class Due { jobs, timer, end };

  // The queue.
  [[nodiscard]] Due wait_for_work() EXCLUDES(mutex_);
  [[nodiscard]] DurationMs until_timer(BootMs now) const REQUIRES(mutex_);
  void take_batch() EXCLUDES(mutex_);
  void thread_main();
  void run_inline();

  // One batch.
  void process();
  void refuse_what_needs_space();
  void on_full();
  void answer_all();
  void ring_bells();
  void fatal(const std::string& what);

  // Around batches.
  void do_timers();
  void after_commit();
  void probe_disk();
  void log_full();
  [[nodiscard]] bool on_writer_thread() const { return running_in_.load() == std::this_thread::get_id(); }

  Clock& clock_;
  const Options options_;
  BatchRunner runner_;
  Checkpointer checkpointer_;
  Reserve reserve_;

  // The writer's own.
  std::vector<Job*> batch_;
  BootMs probed_at_ = 0;
  BootMs logged_full_at_ = 0;
  bool logged_full_ = false;
  BootMs busy_until_ = 0;  // boot time of the last batch's end

  std::atomic<bool> failed_{false};
  std::atomic<bool> disk_full_{false};
  std::atomic<bool> foreign_writer_{false};
  std::atomic<std::uint64_t> commits_{0};
  std::atomic<std::uint64_t> jobs_{0};
  std::atomic<std::uint64_t> wakes_{0};
  std::atomic<std::thread::id> running_in_{};

  mutable Mutex mutex_;
  Condition work_;
  Condition room_;
  Job* head_ GUARDED_BY(mutex_) = nullptr;
  Job** tail_ GUARDED_BY(mutex_) = &head_;
  std::size_t queued_ GUARDED_BY(mutex_) = 0;
  std::size_t urgent_ GUARDED_BY(mutex_) = 0;  // queued jobs that do not ride
  BootMs rider_due_ GUARDED_BY(mutex_) = 0;
  bool sleeping_ GUARDED_BY(mutex_) = false;
  bool closing_ GUARDED_BY(mutex_) = false;
  Mutex inline_mutex_;  // inline: one batch at a time

  std::thread thread_;
};

}  // namespace bide::db
