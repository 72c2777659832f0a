#include "web/task_queue.h"

#include <algorithm>
#include <system_error>

#include "agent/base/limits.h"
#include "agent/base/thread_name.h"

namespace bide::web {

TaskQueue::TaskQueue(int threads, std::size_t queued, std::chrono::milliseconds linger, int quick)
    : most_threads_(threads), most_queued_(queued), linger_(linger), quick_(quick) {}

TaskQueue::~TaskQueue() { close(); }

int TaskQueue::processors() { return std::max(2, static_cast<int>(std::thread::hardware_concurrency())); }

bool TaskQueue::add_thread() {
  if (threads_here_ >= most_threads_) return false;
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
  ++newborn_;
  return true;
}

// Each that is called returns from its wait, and counts itself off.
bool TaskQueue::call_sleeper() {
  if (sleeping_ <= called_) return false;
  ++called_;
  work_to_do_.notify_one();
  return true;
}

void TaskQueue::put(Task task) {
  tasks_.push_back(std::move(task));
  waiting_.store(tasks_.size(), std::memory_order_relaxed);
}

TaskQueue::Task TaskQueue::pop() {
  Task task = std::move(tasks_.front());
  tasks_.pop_front();
  waiting_.store(tasks_.size(), std::memory_order_relaxed);
  return task;
}

bool TaskQueue::take_over(std::function<void()> task) {
  reap();
  Lock lock(mutex_);
  if (closed_) return false;
  if (tasks_.size() >= static_cast<std::size_t>(idle_) && !add_thread() && threads_here_ == 0) return false;
  put({std::move(task)});
  (void)call_sleeper();
  return true;
}

bool TaskQueue::try_run(std::function<void()> task) {
  reap();
  Lock lock(mutex_);
  if (closed_) return false;
  const std::size_t waiting = tasks_.size();
  if (waiting >= static_cast<std::size_t>(idle_) && !add_thread() &&
      (threads_here_ == 0 || waiting - static_cast<std::size_t>(idle_) >= most_queued_))
    return false;
  put({std::move(task)});
  (void)call_sleeper();
  return true;
}

bool TaskQueue::try_run_quick(std::function<void()> task, BootMs now) {
  reap();
  Lock lock(mutex_);
  if (closed_) return false;
  const std::size_t to_come = static_cast<std::size_t>(idle_ + std::max(0, most_threads_ - threads_here_));
  if (tasks_.size() >= to_come + most_queued_) return false;
  if (!enough_for_quick() && !call_sleeper() && !add_thread() && threads_here_ == 0) return false;
  put({std::move(task), true, now});
  return true;
}

bool TaskQueue::look(BootMs now) {
  if (waiting_.load(std::memory_order_relaxed) == 0) return false;
  Lock lock(mutex_);
  int wanted = -on_their_way();
  for (auto task = tasks_.begin(); task != tasks_.end() && now - task->since >= limits::kQuickLateMs; ++task) ++wanted;
  while (wanted > 0 && (call_sleeper() || add_thread())) --wanted;
  return !tasks_.empty();
}

void TaskQueue::work(Threads::iterator self) NO_THREAD_SAFETY_ANALYSIS {
  name_thread("bide-http");
  std::unique_lock lock(mutex_);
  --newborn_;
  while (true) {
    bool in_time = true;
    while (tasks_.empty() && !closed_ && in_time) {
      ++sleeping_;
      in_time = work_to_do_.wait_for(lock, linger_) == std::cv_status::no_timeout;
      --sleeping_;
      if (called_ > 0) --called_;
    }
    --idle_;
    if (tasks_.empty()) break;  // closed, or idle for long
    Task task = pop();
    quick_running_ += task.quick ? 1 : 0;
    // Quick ones are left, and this one may take long: another thread takes them up.
    if (!tasks_.empty() && !enough_for_quick()) (void)call_sleeper();
    lock.unlock();
    task.run();
    task.run = nullptr;
    lock.lock();
    quick_running_ -= task.quick ? 1 : 0;
    ++idle_;
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
