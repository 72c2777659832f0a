// Workflows and their versions. A version is pinned by its text: a tree's hash, or what native code declares.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "db/tx.h"

namespace bide::kernel {

enum class WorkflowKind { native, program, remote };
[[nodiscard]] std::string_view to_text(WorkflowKind kind);

struct VersionRow {
  VersionId id;
  WorkflowId workflow;
  std::string workflow_name;
  std::string version;
  WorkflowKind kind = WorkflowKind::native;
  std::string manifest;
};

// The workflow's id, made if the name is new.
[[nodiscard]] WorkflowId ensure_workflow(db::Tx& tx, std::string_view name);
// The version's id, made if it is new. manifest is JSON; an existing version keeps its own.
[[nodiscard]] VersionId ensure_version(db::Tx& tx, WorkflowId workflow, std::string_view version, WorkflowKind kind,
                                       std::string_view manifest, TimeMs now);
[[nodiscard]] std::optional<VersionId> find_version(db::ReadTx& tx, std::string_view workflow,
                                                    std::string_view version);
[[nodiscard]] std::optional<VersionRow> read_version(db::ReadTx& tx, VersionId id);

// One file of a program's tree.
struct ProgramFile {
  std::string path;    // below the version's folder, with '/'
  int mode = 0;        // permission bits
  std::string sha256;  // 32 raw bytes
};
[[nodiscard]] bool has_program_bytes(db::ReadTx& tx, std::string_view sha256);
void add_program_bytes(db::Tx& tx, std::string_view sha256, std::string_view bytes);
void add_program_file(db::Tx& tx, VersionId version, const ProgramFile& file);
[[nodiscard]] std::vector<ProgramFile> program_files(db::ReadTx& tx, VersionId version);
[[nodiscard]] std::string program_bytes(db::ReadTx& tx, std::string_view sha256);

struct WorkflowSummary {
  WorkflowId id;
  std::string name;
  std::string newest_version;
  WorkflowKind kind = WorkflowKind::native;
};
[[nodiscard]] std::vector<WorkflowSummary> list_workflows(db::ReadTx& tx);

}  // namespace bide::kernel
