// Spawner: the port through which the agent starts processes, so that tests and the simulator can refuse or fake it.
// Threads: any. Failures are values with errno: no outcome and no crash, the run is queued with a backoff [E8].
#pragma once

#include "agent/base/spawn.h"

namespace bide::work {

class Spawner {
 public:
  virtual ~Spawner() = default;
  [[nodiscard]] virtual std::variant<Spawned, SpawnFailed> spawn(const SpawnRequest& request) = 0;
};

class SystemSpawner final : public Spawner {
 public:
  std::variant<Spawned, SpawnFailed> spawn(const SpawnRequest& request) override;
};

}  // namespace bide::work
