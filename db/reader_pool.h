// ReaderPool: read-only connections, opened when first needed, lent one at a time. Any thread.
// A caller waits for a free one; a fault at opening the first is thrown to the caller.
#pragma once

#include <memory>
#include <vector>

#include "agent/base/mutex.h"
#include "db/connection.h"

namespace bide::db {

class ReaderPool {
 public:
  ReaderPool(ConnectionOptions options, int most) : options_(std::move(options)), most_(most > 0 ? most : 1) {}
  [[nodiscard]] Connection* take();
  void give_back(Connection* connection);

 private:
  const ConnectionOptions options_;
  const int most_;
  Mutex mutex_;
  Condition freed_;
  std::vector<std::unique_ptr<Connection>> all_ GUARDED_BY(mutex_);
  std::vector<Connection*> free_ GUARDED_BY(mutex_);
  int opening_ GUARDED_BY(mutex_) = 0;
};

}  // namespace bide::db
