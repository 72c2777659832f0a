#include "agent/kernel/workflows.h"

namespace bide::kernel {
namespace {

WorkflowKind kind_from(std::string_view text) {
  if (text == "native") return WorkflowKind::native;
  if (text == "program") return WorkflowKind::program;
  return WorkflowKind::remote;
}

}  // namespace

std::string_view to_text(WorkflowKind kind) {
  switch (kind) {
    case WorkflowKind::native: return "native";
    case WorkflowKind::program: return "program";
    case WorkflowKind::remote: return "remote";
  }
  return "native";
}

WorkflowId ensure_workflow(db::Tx& tx, std::string_view name) {
  {
    db::Query q(tx, "SELECT id FROM workflows WHERE name = ?");
    q.bind(name);
    if (q.next()) return WorkflowId(q.integer(0));
  }
  db::Query(tx, "INSERT INTO workflows (name) VALUES (?)").bind(name).run();
  return WorkflowId(tx.last_insert_id());
}

VersionId ensure_version(db::Tx& tx, WorkflowId workflow, std::string_view version, WorkflowKind kind,
                         std::string_view manifest, TimeMs now) {
  {
    db::Query q(tx, "SELECT id FROM workflow_versions WHERE workflow_id = ? AND version = ?");
    q.bind(workflow, version);
    if (q.next()) return VersionId(q.integer(0));
  }
  db::Query(tx, "INSERT INTO workflow_versions (workflow_id, version, kind, manifest, created_at) VALUES (?,?,?,?,?)")
      .bind(workflow, version, kind, manifest, now)
      .run();
  return VersionId(tx.last_insert_id());
}

std::optional<VersionId> find_version(db::ReadTx& tx, std::string_view workflow, std::string_view version) {
  db::Query q(tx,
              "SELECT v.id FROM workflow_versions v JOIN workflows f ON f.id = v.workflow_id "
              "WHERE f.name = ? AND v.version = ?");
  q.bind(workflow, version);
  if (!q.next()) return std::nullopt;
  return VersionId(q.integer(0));
}

std::optional<VersionRow> read_version(db::ReadTx& tx, VersionId id) {
  db::Query q(tx,
              "SELECT v.id, v.workflow_id, f.name, v.version, v.kind, v.manifest FROM workflow_versions v "
              "JOIN workflows f ON f.id = v.workflow_id WHERE v.id = ?");
  q.bind(id);
  if (!q.next()) return std::nullopt;
  return VersionRow{
      VersionId(q.integer(0)), WorkflowId(q.integer(1)), q.text(2), q.text(3), kind_from(q.text(4)), q.text(5)};
}

bool has_program_bytes(db::ReadTx& tx, std::string_view sha256) {
  db::Query q(tx, "SELECT 1 FROM program_bytes WHERE sha256 = ?");
  q.bind(db::Blob{sha256});
  return q.next();
}

void add_program_bytes(db::Tx& tx, std::string_view sha256, std::string_view bytes) {
  db::Query(tx, "INSERT INTO program_bytes (sha256, bytes) VALUES (?,?) ON CONFLICT DO NOTHING")
      .bind(db::Blob{sha256}, db::Blob{bytes})
      .run();
}

void add_program_file(db::Tx& tx, VersionId version, const ProgramFile& file) {
  db::Query(
      tx, "INSERT INTO program_files (workflow_version_id, path, mode, sha256) VALUES (?,?,?,?) ON CONFLICT DO NOTHING")
      .bind(version, file.path, file.mode, db::Blob{file.sha256})
      .run();
}

std::vector<ProgramFile> program_files(db::ReadTx& tx, VersionId version) {
  std::vector<ProgramFile> files;
  db::Query q(tx, "SELECT path, mode, sha256 FROM program_files WHERE workflow_version_id = ? ORDER BY path");
  q.bind(version);
  while (q.next()) files.push_back({q.text(0), static_cast<int>(q.integer(1)), q.blob(2)});
  return files;
}

std::string program_bytes(db::ReadTx& tx, std::string_view sha256) {
  db::Query q(tx, "SELECT bytes FROM program_bytes WHERE sha256 = ?");
  q.bind(db::Blob{sha256});
  return q.one().blob(0);
}

std::vector<WorkflowSummary> list_workflows(db::ReadTx& tx) {
  std::vector<WorkflowSummary> rows;
  db::Query q(tx,
              "SELECT f.id, f.name, v.version, v.kind FROM workflows f JOIN workflow_versions v ON v.id = "
              "(SELECT max(id) FROM workflow_versions WHERE workflow_id = f.id) ORDER BY f.name");
  while (q.next()) rows.push_back({WorkflowId(q.integer(0)), q.text(1), q.text(2), kind_from(q.text(3))});
  return rows;
}

}  // namespace bide::kernel
