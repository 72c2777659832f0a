// A pool with two hard bounds: threads, and tasks that wait for one. Beyond them try_run says no at once, and the
// front answers 503. Threads are made when they are needed and leave when they were idle for a while, so that an
// agent at rest is small. Thread-safe. A task must not throw.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <thread>

#include "agent/base/mutex.h"

namespace bide::web {

class TaskQueue {
 public:
  // `linger`: how long a thread without work stays.
  TaskQueue(int threads, std::size_t queued, std::chrono::milliseconds linger);
  ~TaskQueue();  // as close()
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // False: full, closed, or the system gives no thread; the task was not taken.
  [[nodiscard]] bool try_run(std::function<void()> task) EXCLUDES(mutex_);
  // The same, and queued beyond the bound: what was begun elsewhere goes on here. False: closed.
  [[nodiscard]] bool take_over(std::function<void()> task) EXCLUDES(mutex_);
  // Takes no more tasks, runs what is queued, joins. Idempotent.
  void close() EXCLUDES(mutex_);
  [[nodiscard]] int busy() const EXCLUDES(mutex_);     // threads at work
  [[nodiscard]] int threads() const EXCLUDES(mutex_);  // threads, at work or not

 private:
  using Threads = std::list<std::thread>;
  void work(Threads::iterator self) EXCLUDES(mutex_);
  bool add_thread() REQUIRES(mutex_);
  void reap() EXCLUDES(mutex_);

  const int most_threads_;
  const std::size_t most_queued_;
  const std::chrono::milliseconds linger_;
  mutable Mutex mutex_;
  Condition work_to_do_;
  Condition left_some_;
  bool closed_ GUARDED_BY(mutex_) = false;
  int threads_here_ GUARDED_BY(mutex_) = 0;
  int idle_ GUARDED_BY(mutex_) = 0;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mutex_);
  Threads alive_ GUARDED_BY(mutex_);
  Threads left_ GUARDED_BY(mutex_);  // have ended or are about to: to be joined
};

}  // namespace bide::web
