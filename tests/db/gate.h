// Gate: holds the writer inside a job until it is let go, so that what is queued meanwhile becomes one batch.
#pragma once

#include <future>

#include "db/store.h"

namespace bide::db {

class Gate {
 public:
  explicit Gate(Store& store) {
    store.submit(
        [this](Tx&) {
          inside_.set_value();
          go_.get_future().wait();
        },
        [this](const auto&) { done_.set_value(); });
    inside_.get_future().wait();
  }
  ~Gate() { done_.get_future().wait(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() { go_.set_value(); }

 private:
  std::promise<void> inside_;
  std::promise<void> go_;
  std::promise<void> done_;
};

}  // namespace bide::db
