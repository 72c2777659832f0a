#include "agent/work/wall.h"

#include <algorithm>

#include "agent/base/log.h"

namespace bide::work {

std::optional<DurationMs> follow_wall(db::Store& store) {
  if (const DurationMs jumped = store.clock().follow_wall(); jumped > 0) {
    log::warn("clock.followed", {{"ahead_ms", jumped}, {"now", format_time(store.now())}});
  }
  const auto again = store.clock().look_again_at();
  if (!again) return std::nullopt;
  return std::max<DurationMs>(1, *again - store.system_clock().boot_ms());
}

}  // namespace bide::work
