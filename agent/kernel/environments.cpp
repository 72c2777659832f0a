#include "agent/kernel/environments.h"

#include <algorithm>

#include "agent/base/json.h"
#include "agent/base/limits.h"
#include "agent/kernel/events.h"

namespace bide::kernel {
namespace {

#define BIDE_ENVIRONMENT_COLUMNS                                                                                      \
  "SELECT name, path, owner_run_id, seed, status, delete_after_ms, last_error, last_used_at, updated_at, created_at " \
  "FROM environments "

EnvironmentRow read_row(db::Query& q) {
  EnvironmentRow row;
  row.name = q.text(0);
  row.path = q.text(1);
  row.owner = RunId(q.maybe_integer(2).value_or(0));
  row.seed = q.maybe_text(3);
  row.status = q.text(4);
  row.delete_after = q.maybe_integer(5);
  row.last_error = q.maybe_text(6);
  row.last_used_at = q.integer(7);
  row.updated_at = q.integer(8);
  row.created_at = q.integer(9);
  return row;
}

void tell(db::Tx& tx, TimeMs now, std::string_view kind, std::string_view name, std::string_view member,
          std::string_view text) {
  append_event(tx, now, kind, RunId(), StepId(),
               json::Writer().begin_object().member("environment", name).member(member, text).end_object().text());
}

}  // namespace

bool is_environment_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  if (name.empty() || name.size() > 64 || !plain(name.front())) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) { return plain(c) || c == '.' || c == '_' || c == '-'; });
}

AddEnvironment add_environment(db::Tx& tx, const NewEnvironment& wanted, std::string_view by, TimeMs now) {
  if (const auto there = read_environment(tx, wanted.name)) {
    return problem("environment_exists", "There is an environment " + wanted.name + ", " + there->status + ".",
                   "bide environment list");
  }
  if (db::Query(tx, "SELECT count(*) FROM environments").one().integer(0) >= limits::kEnvironments) {
    return problem("too_many_environments",
                   "There are " + std::to_string(limits::kEnvironments) + " environments: remove one first.",
                   "bide environment list");
  }
  if (wanted.owner.valid()) {
    db::Query q(tx, "SELECT 1 FROM runs WHERE id = ? AND deleted_at IS NULL");
    q.bind(wanted.owner);
    if (!q.next())
      return problem("run_not_found", "There is no run " + std::to_string(wanted.owner.value) + ".", "bide runs");
  }
  std::optional<std::int64_t> owner;
  if (wanted.owner.valid()) owner = wanted.owner.value;
  db::Query(tx,
            "INSERT INTO environments (name, path, owner_run_id, seed, status, delete_after_ms, last_used_at, "
            "updated_at, created_at) VALUES (?1, ?2, ?3, ?4, 'seeding', ?5, ?6, ?6, ?6)")
      .bind(wanted.name, wanted.path, owner, wanted.seed, wanted.delete_after, now)
      .run();
  tell(tx, now, "control.environment_added", wanted.name, "by", by);
  return read_environment(tx, wanted.name).value();
}

std::optional<EnvironmentRow> read_environment(db::ReadTx& tx, std::string_view name) {
  db::Query q(tx, BIDE_ENVIRONMENT_COLUMNS "WHERE name = ?");
  q.bind(name);
  if (!q.next()) return std::nullopt;
  return read_row(q);
}

std::vector<EnvironmentRow> list_environments(db::ReadTx& tx, std::string_view after, int limit) {
  std::vector<EnvironmentRow> rows;
  db::Query q(tx, BIDE_ENVIRONMENT_COLUMNS "WHERE name > ? ORDER BY name LIMIT ?");
  q.bind(after, limit);
  while (q.next()) rows.push_back(read_row(q));
  return rows;
}

bool use_environment(db::Tx& tx, std::string_view name, TimeMs now) {
  return db::Query(tx,
                   "UPDATE environments SET last_used_at = max(last_used_at, ?2) WHERE name = ?1 AND status = 'ready'")
             .bind(name, now)
             .run() == 1;
}

std::vector<std::string> unused_environments(db::ReadTx& tx, TimeMs now) {
  std::vector<std::string> names;
  db::Query q(tx,
              "SELECT name FROM environments e WHERE status = 'ready' AND (last_used_at + delete_after_ms <= ?1 OR "
              "(owner_run_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = e.owner_run_id AND "
              "r.finished_at IS NULL))) ORDER BY name");
  q.bind(now);
  while (q.next()) names.push_back(q.text(0));
  return names;
}

bool begin_deleting(db::Tx& tx, std::string_view name, std::string_view why, TimeMs now) {
  const int changed = db::Query(tx,
                                "UPDATE environments SET status = 'deleting', last_error = NULL, updated_at = ?2 WHERE "
                                "name = ?1 AND status IN ('ready', 'seeding')")
                          .bind(name, now)
                          .run();
  if (changed == 0) return false;
  tell(tx, now, "environment.deleting", name, "why", why);
  return true;
}

std::vector<EnvironmentRow> stalled_changes(db::ReadTx& tx, TimeMs before, int limit) {
  std::vector<EnvironmentRow> rows;
  db::Query q(tx,
              BIDE_ENVIRONMENT_COLUMNS "WHERE status <> 'ready' AND updated_at <= ? ORDER BY updated_at, name LIMIT ?");
  q.bind(before, limit);
  while (q.next()) rows.push_back(read_row(q));
  return rows;
}

bool take_up(db::Tx& tx, const EnvironmentRow& change, TimeMs now) {
  return db::Query(tx, "UPDATE environments SET updated_at = ?3 WHERE name = ?1 AND status = ?2 AND updated_at = ?4")
             .bind(change.name, change.status, now, change.updated_at)
             .run() == 1;
}

bool environment_ready(db::Tx& tx, std::string_view name, TimeMs now) {
  const int changed = db::Query(tx,
                                "UPDATE environments SET status = 'ready', last_error = NULL, last_used_at = ?2, "
                                "updated_at = ?2 WHERE name = ?1 AND status = 'seeding'")
                          .bind(name, now)
                          .run();
  if (changed == 1)
    append_event(tx, now, "environment.ready", RunId(), StepId(),
                 json::Writer().begin_object().member("environment", name).end_object().text());
  return changed == 1;
}

bool environment_deleted(db::Tx& tx, std::string_view name, TimeMs now) {
  if (db::Query(tx, "DELETE FROM environments WHERE name = ? AND status = 'deleting'").bind(name).run() == 0)
    return false;
  append_event(tx, now, "environment.deleted", RunId(), StepId(),
               json::Writer().begin_object().member("environment", name).end_object().text());
  return true;
}

void note_environment_error(db::Tx& tx, std::string_view name, std::string_view error) {
  db::Query(tx, "UPDATE environments SET last_error = ?2 WHERE name = ?1").bind(name, error).run();
}

std::optional<TimeMs> next_environment_due(db::ReadTx& tx) {
  std::optional<TimeMs> due;
  const auto take = [&due](std::optional<std::int64_t> at) {
    if (at) due = due ? std::min(*due, *at) : *at;
  };
  take(db::Query(tx, "SELECT min(last_used_at + delete_after_ms) FROM environments WHERE status = 'ready'")
           .one()
           .maybe_integer(0));
  const auto changing =
      db::Query(tx, "SELECT min(updated_at) FROM environments WHERE status <> 'ready'").one().maybe_integer(0);
  if (changing) take(*changing + limits::kEnvironmentStalledMs);
  return due;
}

int wake_for_environment(db::Tx& tx, TimeMs now) {
  return db::Query(tx,
                   "UPDATE runs SET run_at = ?1 WHERE status = 'queued' AND paused_at IS NULL AND run_at > ?1 AND "
                   "reason IN ('environment_missing', 'environment_seeding')")
      .bind(now)
      .run();
}

}  // namespace bide::kernel
