// A pool with two hard bounds: threads, and tasks that wait for one. Beyond them try_run says no at once, and the
// front answers 503. Threads are made when they are needed and leave when they were idle for a while, so that an
// agent at rest is small. Thread-safe. A task must not throw.
//
// Quick tasks only compute: as many as there are processors are worked at, and those that come meanwhile are taken up
// by the thread that is done first, without waking another; to wake one for each costs more than most of them take.
// Whoever gives quick tasks calls look() while some wait, so that none waits behind one that was not quick after all.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <thread>

#include "agent/base/mutex.h"
#include "agent/base/time.h"

namespace bide::web {

class TaskQueue {
 public:
  // `linger`: how long a thread without work stays.
  TaskQueue(int threads, std::size_t queued, std::chrono::milliseconds linger, int quick = processors());
  ~TaskQueue();  // as close()
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // False: full, closed, or the system gives no thread; the task was not taken.
  [[nodiscard]] bool try_run(std::function<void()> task) EXCLUDES(mutex_);
  // The same for a quick one.
  [[nodiscard]] bool try_run_quick(std::function<void()> task, BootMs now) EXCLUDES(mutex_);
  // Gives a thread to each task that has waited for limits::kQuickLateMs. True: some wait still; look again in a
  // millisecond.
  bool look(BootMs now) EXCLUDES(mutex_);
  // The same, and queued beyond the bound: what was begun elsewhere goes on here. False: closed.
  [[nodiscard]] bool take_over(std::function<void()> task) EXCLUDES(mutex_);
  // Takes no more tasks, runs what is queued, joins. Idempotent.
  void close() EXCLUDES(mutex_);
  [[nodiscard]] int busy() const EXCLUDES(mutex_);     // threads at work
  [[nodiscard]] int threads() const EXCLUDES(mutex_);  // threads, at work or not

  [[nodiscard]] static int processors();  // at least 2

 private:
  using Threads = std::list<std::thread>;
  struct Task {
    std::function<void()> run;
    bool quick = false;
    BootMs since = 0;  // of a quick one
  };
  void work(Threads::iterator self) EXCLUDES(mutex_);
  bool add_thread() REQUIRES(mutex_);
  bool call_sleeper() REQUIRES(mutex_);
  [[nodiscard]] int on_their_way() const REQUIRES(mutex_) { return called_ + newborn_; }
  [[nodiscard]] bool enough_for_quick() const REQUIRES(mutex_) { return quick_running_ + on_their_way() >= quick_; }
  void put(Task task) REQUIRES(mutex_);
  Task pop() REQUIRES(mutex_);
  void reap() EXCLUDES(mutex_);

  const int most_threads_;
  const std::size_t most_queued_;
  const std::chrono::milliseconds linger_;
  const int quick_;
  std::atomic<std::size_t> waiting_{0};  // as tasks_.size()
  mutable Mutex mutex_;
  Condition work_to_do_;
  Condition left_some_;
  bool closed_ GUARDED_BY(mutex_) = false;
  int threads_here_ GUARDED_BY(mutex_) = 0;
  int idle_ GUARDED_BY(mutex_) = 0;
  int sleeping_ GUARDED_BY(mutex_) = 0;
  int called_ GUARDED_BY(mutex_) = 0;   // sleepers that were woken and have not come yet
  int newborn_ GUARDED_BY(mutex_) = 0;  // threads that were made and have not come yet
  int quick_running_ GUARDED_BY(mutex_) = 0;
  std::deque<Task> tasks_ GUARDED_BY(mutex_);
  Threads alive_ GUARDED_BY(mutex_);
  Threads left_ GUARDED_BY(mutex_);  // have ended or are about to: to be joined
};

}  // namespace bide::web
