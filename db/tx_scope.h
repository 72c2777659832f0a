// What a Tx reaches besides its connection: the bells of its batch and the id counters. The writer's only.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "db/id_counters.h"
#include "db/tx.h"

namespace bide::db {

struct TxScope {
  std::vector<Bell> bells;  // of the batch, in order; cut back when a job rolls back
  IdCounters counters;
  const std::function<void(std::int64_t)>* announced = nullptr;
};

}  // namespace bide::db
