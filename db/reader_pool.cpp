#include "db/reader_pool.h"

namespace bide::db {

Connection* ReaderPool::take() NO_THREAD_SAFETY_ANALYSIS {
  std::unique_lock lock(mutex_);
  while (free_.empty() && static_cast<int>(all_.size()) + opening_ >= most_) freed_.wait(lock);
  if (!free_.empty()) {
    Connection* connection = free_.back();
    free_.pop_back();
    return connection;
  }
  ++opening_;
  lock.unlock();
  std::unique_ptr<Connection> made;
  try {
    made = std::make_unique<Connection>(options_);
  } catch (...) {
    lock.lock();
    --opening_;
    freed_.notify_one();
    // No descriptors are left, say: those that are there serve all.
    if (all_.empty()) throw;
    while (free_.empty()) freed_.wait(lock);
    Connection* connection = free_.back();
    free_.pop_back();
    return connection;
  }
  lock.lock();
  --opening_;
  all_.push_back(std::move(made));
  return all_.back().get();
}

void ReaderPool::give_back(Connection* connection) {
  {
    Lock lock(mutex_);
    free_.push_back(connection);
  }
  freed_.notify_one();
}

}  // namespace bide::db
