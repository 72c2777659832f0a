#include "agent/work/spawner.h"

namespace bide::work {

std::variant<Spawned, SpawnFailed> SystemSpawner::spawn(const SpawnRequest& request) { return spawn_process(request); }

}  // namespace bide::work
