// FreshRows: ids of outbox rows whose transaction has just committed, on their way to the deliverer [O2].
// Thread-safe. push() is a bell: bounded, never waits. What has no room is kept as a range of ids that is made due.
#pragma once

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "agent/base/ids.h"
#include "agent/base/limits.h"
#include "agent/base/mutex.h"

namespace bide::work {

class FreshRows {
 public:
  explicit FreshRows(std::size_t room = limits::kFreshRows) : room_(room) {}

  void push(std::int64_t id) {
    std::function<void()> bell;
    {
      Lock lock(mutex_);
      if (rows_.size() < room_) {
        rows_.push_back(DeliveryId(id));
      } else {
        if (!first_.valid() || id < first_.value) first_ = DeliveryId(id);
        if (id > last_.value) last_ = DeliveryId(id);
      }
      bell = bell_;
    }
    if (bell) bell();
  }

  struct Taken {
    std::vector<DeliveryId> rows;
    DeliveryId no_room_first;  // invalid: all had room
    DeliveryId no_room_last;
    [[nodiscard]] bool empty() const { return rows.empty() && !no_room_first.valid(); }
  };
  [[nodiscard]] Taken take(std::size_t most) {
    Lock lock(mutex_);
    Taken taken;
    while (!rows_.empty() && taken.rows.size() < most) {
      taken.rows.push_back(rows_.front());
      rows_.pop_front();
    }
    taken.no_room_first = std::exchange(first_, DeliveryId());
    taken.no_room_last = std::exchange(last_, DeliveryId());
    return taken;
  }
  [[nodiscard]] bool empty() const {
    Lock lock(mutex_);
    return rows_.empty() && !first_.valid();
  }
  // Rung after each push. Cleared before whoever set it goes.
  void set_bell(std::function<void()> bell) {
    Lock lock(mutex_);
    bell_ = std::move(bell);
  }

 private:
  const std::size_t room_;
  mutable Mutex mutex_;
  std::deque<DeliveryId> rows_ GUARDED_BY(mutex_);
  DeliveryId first_ GUARDED_BY(mutex_);
  DeliveryId last_ GUARDED_BY(mutex_);
  std::function<void()> bell_ GUARDED_BY(mutex_);
};

}  // namespace bide::work
