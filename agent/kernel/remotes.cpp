#include "agent/kernel/remotes.h"

#include "agent/base/json.h"
#include "agent/kernel/workflows.h"

namespace bide::kernel {
namespace {

std::vector<std::string> texts_at(std::string_view manifest, std::string_view pointer) {
  std::vector<std::string> texts;
  for (std::size_t i = 0;; ++i) {
    const auto one = json::at_pointer(manifest, std::string(pointer) + "/" + std::to_string(i));
    if (!one) return texts;
    texts.push_back(json::as_string(*one).value_or(""));
  }
}

RemoteVersion version_of(const VersionRow& row) {
  return {row.id,
          row.workflow,
          row.workflow_name,
          row.version,
          texts_at(row.manifest, "/accepts"),
          json::string_member(row.manifest, "url"),
          static_cast<int>(json::int_member(row.manifest, "max_running").value_or(0))};
}

std::string manifest_of(const NewRemote& remote) {
  json::Writer w;
  w.begin_object().key("accepts").begin_array();
  for (const std::string& older : remote.accepts) w.string(older);
  w.end_array().member("url", remote.url).member("max_running", remote.max_running);
  return w.member("description", remote.description).end_object().take();
}

void set_manifest(db::Tx& tx, VersionId version, std::string_view manifest) {
  db::Query(tx, "UPDATE workflow_versions SET manifest = ?2 WHERE id = ?1 AND manifest <> ?2")
      .bind(version, manifest)
      .run();
}

std::string meta(db::ReadTx& tx, std::string_view key) {
  db::Query q(tx, "SELECT value FROM meta WHERE key = ?");
  q.bind(key);
  return q.next() ? q.text(0) : "";
}

}  // namespace

std::variant<RemoteVersion, Problem> register_remote(db::Tx& tx, const NewRemote& remote, TimeMs now) {
  {
    db::Query q(tx,
                "SELECT v.kind FROM workflows f JOIN workflow_versions v ON v.workflow_id = f.id WHERE f.name = ? AND "
                "v.kind <> 'remote' LIMIT 1");
    if (q.bind(remote.name).next())
      return problem("workflow_taken", remote.name + " is a workflow of this box already, of kind " + q.text(0) + ".",
                     "Register it under another name.");
  }
  const WorkflowId workflow = ensure_workflow(tx, remote.name);
  const std::string manifest = manifest_of(remote);
  const VersionId id = ensure_version(tx, workflow, remote.version, WorkflowKind::remote, manifest, now);
  set_manifest(tx, id, manifest);
  const RemoteVersion made = version_of(read_version(tx, id).value());
  for (const VersionId older : versions_driven_by(tx, made)) {
    if (older == id) continue;
    db::Query(tx,
              "UPDATE workflow_versions SET manifest = CASE WHEN ?2 IS NULL THEN json_remove(manifest, '$.url') ELSE "
              "json_set(manifest, '$.url', ?2) END WHERE id = ?1")
        .bind(older, remote.url)
        .run();
  }
  return made;
}

std::vector<RemoteVersion> remote_versions(db::ReadTx& tx, std::string_view name) {
  std::vector<VersionId> ids;
  {
    db::Query q(tx,
                "SELECT v.id FROM workflows f JOIN workflow_versions v ON v.workflow_id = f.id WHERE f.name = ? AND "
                "v.kind = 'remote' ORDER BY v.id DESC");
    q.bind(name);
    while (q.next()) ids.push_back(VersionId(q.integer(0)));
  }
  std::vector<RemoteVersion> versions;
  versions.reserve(ids.size());
  for (const VersionId id : ids) versions.push_back(version_of(read_version(tx, id).value()));
  return versions;
}

std::vector<VersionId> versions_driven_by(db::ReadTx& tx, const RemoteVersion& version) {
  std::vector<VersionId> driven{version.id};
  for (const std::string& older : version.accepts) {
    const auto id = find_version(tx, version.name, older);
    if (id && *id != version.id) driven.push_back(*id);
  }
  return driven;
}

std::vector<RemoteLease> remote_leases(db::ReadTx& tx) {
  std::vector<RemoteLease> leases;
  db::Query q(tx, "SELECT id, epoch, owner, lease_until FROM runs WHERE status = 'running' ORDER BY workflow_id, id");
  while (q.next()) {
    if (!q.text(2).starts_with(kRemoteOwner)) continue;
    leases.push_back({{RunId(q.integer(0)), q.integer(1), q.text(2)}, q.maybe_integer(3)});
  }
  return leases;
}

bool renew_lease(db::Tx& tx, const Fence& fence, TimeMs until) {
  return db::Query(
             tx, "UPDATE runs SET lease_until = ?4 WHERE id = ?1 AND status = 'running' AND epoch = ?2 AND owner = ?3")
             .bind(fence.run, fence.epoch, fence.owner, until)
             .run() == 1;
}

std::string attempt_key(db::Tx& tx, std::string_view fresh) {
  db::Query(tx, "INSERT INTO meta (key, value) VALUES ('attempt_key', ?) ON CONFLICT (key) DO NOTHING")
      .bind(fresh)
      .run();
  return meta(tx, "attempt_key") + ":" + meta(tx, "incarnation");
}

}  // namespace bide::kernel
