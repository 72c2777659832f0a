// What there is of a workflow: its versions and how many runs are in which state. Reads of one snapshot.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kernel/workflows.h"
#include "db/tx.h"

namespace bide::kernel {

// Counted over indexes, so that a long history costs little: of what has ended, only failed runs are told apart.
struct WorkflowCounts {
  std::int64_t runs = 0;  // all that are kept
  std::int64_t queued = 0;
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t failed = 0;
};
struct VersionInfo {
  VersionId id;
  std::string version;
  WorkflowKind kind = WorkflowKind::native;
  std::string manifest;  // JSON
  TimeMs created_at = 0;
  std::int64_t runs = 0;
};
struct WorkflowDetail {
  WorkflowId id;
  std::string name;
  WorkflowCounts counts;
  std::vector<VersionInfo> versions;  // the newest first
};
[[nodiscard]] WorkflowCounts count_runs(db::ReadTx& tx, WorkflowId workflow);
[[nodiscard]] std::optional<WorkflowDetail> read_workflow(db::ReadTx& tx, std::string_view name, int versions);

}  // namespace bide::kernel
