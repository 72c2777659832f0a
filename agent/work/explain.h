// What the process knows is added to what the file says: `bide explain`, GET /v1/runs/{id}/explain. Thread-safe.
#pragma once

#include <optional>

#include "agent/kernel/explain.h"
#include "agent/work/executor.h"
#include "db/store.h"

namespace bide::work {

// nullopt: there is no such run.
[[nodiscard]] std::optional<kernel::Explanation> explain(db::Store& store, const Executor& executor, RunId run);

}  // namespace bide::work
