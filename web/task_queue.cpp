#include "web/task_queue.h"

#include <system_error>

#include "agent/base/thread_name.h"

namespace bide::web {

TaskQueue::TaskQueue(int threads, std::size_t queued, std::chrono::milliseconds linger)
    : most_threads_(threads), most_queued_(queued), linger_(linger) {}

TaskQueue::~TaskQueue() { close(); }

bool TaskQueue::add_thread() {
  alive_.emplace_back();
  const auto self = std::prev(alive_.end());
  try {
    *self = std::thread([this, self] { work(self); });
  } catch (const std::system_error&) {
    alive_.erase(self);
    return false;
  }
  ++threads_here_;
  ++idle_;  // from its birth: it will take a task
  return true;
}

bool TaskQueue::take_over(std::function<void()> task) {
  reap();
  Lock lock(mutex_);
  if (closed_) return false;
  if (tasks_.size() >= static_cast<std::size_t>(idle_) && threads_here_ < most_threads_ && !add_thread() &&
      threads_here_ == 0)
    return false;
  tasks_.push_back(std::move(task));
  work_to_do_.notify_one();
  return true;
}

bool TaskQueue::try_run(std::function<void()> task) {
  reap();
  Lock lock(mutex_);
  if (closed_) return false;
  const std::size_t waiting = tasks_.size();
  if (waiting >= static_cast<std::size_t>(idle_)) {
    const bool more = threads_here_ < most_threads_ && add_thread();
    if (!more && (threads_here_ == 0 || waiting - static_cast<std::size_t>(idle_) >= most_queued_)) return false;
  }
  tasks_.push_back(std::move(task));
  work_to_do_.notify_one();
  return true;
}

void TaskQueue::work(Threads::iterator self) NO_THREAD_SAFETY_ANALYSIS {
  name_thread("bide-http");
  std::unique_lock lock(mutex_);
  while (true) {
    const bool found =
        work_to_do_.wait_for(lock, linger_, [this]() REQUIRES(mutex_) { return closed_ || !tasks_.empty(); });
    --idle_;
    if (!tasks_.empty()) {
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
      ++idle_;
      continue;
    }
    if (closed_ || !found) break;
  }
  --threads_here_;
  left_.splice(left_.end(), alive_, self);
  left_some_.notify_all();
}

void TaskQueue::reap() {
  Threads ended;
  {
    Lock lock(mutex_);
    ended.swap(left_);
  }
  for (std::thread& one : ended) one.join();
}

void TaskQueue::close() NO_THREAD_SAFETY_ANALYSIS {
  {
    Lock lock(mutex_);
    closed_ = true;
  }
  work_to_do_.notify_all();
  std::unique_lock lock(mutex_);
  while (true) {
    left_some_.wait(lock, [this]() REQUIRES(mutex_) { return !left_.empty() || alive_.empty(); });
    if (left_.empty()) return;
    Threads ended;
    ended.swap(left_);
    lock.unlock();
    for (std::thread& one : ended) one.join();
    lock.lock();
  }
}

int TaskQueue::threads() const {
  Lock lock(mutex_);
  return threads_here_;
}

int TaskQueue::busy() const {
  Lock lock(mutex_);
  return threads_here_ - idle_;
}

}  // namespace bide::web
