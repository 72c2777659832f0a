// What /metrics counts in the file. One snapshot; every number comes from an index or from what is live, so that a long
// history costs little.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "agent/kernel/states.h"
#include "db/tx.h"

namespace bide::kernel {

struct Metrics {
  std::map<RunStatus, std::int64_t> runs;  // live ones, and failed
  std::int64_t runs_ended = 0;             // that are kept, in any way
  std::int64_t runs_paused = 0;
  std::map<std::string, std::int64_t> waits;  // pending, by kind
  std::optional<TimeMs> oldest_wait_at;       // that a person has to answer
  std::int64_t in_doubt = 0;                  // steps whose outcome nobody can tell
  std::int64_t outbox = 0;                    // rows that are to go out
  std::optional<TimeMs> outbox_oldest_at;
  std::int64_t outbox_parked = 0;
  std::int64_t decisions = 0;  // of the audit that is kept
};
[[nodiscard]] Metrics read_metrics(db::ReadTx& tx);

// What executes: runs that are driven by the agent, or by apps, and tasks that somebody does.
struct Driven {
  std::int64_t runs = 0;
  std::int64_t apps = 0;
  std::int64_t tasks = 0;
  [[nodiscard]] bool none() const { return runs == 0 && apps == 0 && tasks == 0; }
};
[[nodiscard]] Driven read_driven(db::ReadTx& tx);

}  // namespace bide::kernel
