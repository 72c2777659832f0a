#include "agent/kernel/retention.h"

#include <algorithm>

#include "agent/base/json.h"
#include "agent/kernel/audit_chain.h"
#include "agent/kernel/event_stream.h"
#include "agent/kernel/events.h"

namespace bide::kernel {
namespace {

constexpr std::int64_t kAnyId = 9'000'000'000'000'000'000;

// Why an ended run has to stay; empty: it may go.
std::string needed_by(db::ReadTx& tx, RunId run) {
  {
    db::Query q(tx, "SELECT pid FROM processes WHERE run_id = ? AND status <> 'stopped' LIMIT 1");
    q.bind(run);
    if (q.next()) return "process " + q.text(0) + " of it is not gone";
  }
  {
    db::Query q(tx, "SELECT id FROM runs WHERE forked_from = ? LIMIT 1");
    q.bind(run);
    if (q.next()) return "run " + q.text(0) + " was forked from it";
  }
  // A child that did not complete is begun again from its row when its parent is retried [X3].
  db::Query q(tx,
              "SELECT p.id FROM runs r JOIN steps s ON s.id = r.parent_step_id JOIN runs p ON p.id = s.run_id WHERE "
              "r.id = ? AND p.deleted_at IS NULL AND (s.status NOT IN ('completed', 'failed', 'cancelled') OR "
              "(r.status <> 'completed' AND p.status NOT IN ('completed', 'cancelled')))");
  q.bind(run);
  if (q.next()) return "run " + q.text(0) + ", which started it, may be retried";
  return "";
}

bool has_deliveries(db::ReadTx& tx, RunId run) {
  return db::Query(tx, "SELECT 1 FROM outbox WHERE run_id = ? LIMIT 1").bind(run).next();
}

// One kind of row of a run, the first by their key.
struct Leaf {
  db::Sql drop;  // ?1 the run, ?2 how many
};
constexpr Leaf kLeaves[] = {
    {"DELETE FROM decisions WHERE (wait_id, decided_by) IN (SELECT d.wait_id, d.decided_by FROM waits w JOIN decisions "
     "d ON d.wait_id = w.id WHERE w.run_id = ?1 LIMIT ?2)"},
    {"DELETE FROM waits WHERE id IN (SELECT id FROM waits WHERE run_id = ?1 LIMIT ?2)"},
    {"DELETE FROM early_decisions WHERE (run_id, name, decided_by) IN (SELECT run_id, name, decided_by FROM "
     "early_decisions WHERE run_id = ?1 LIMIT ?2)"},
    {"DELETE FROM signals WHERE id IN (SELECT id FROM signals WHERE run_id = ?1 LIMIT ?2)"},
    {"DELETE FROM processes WHERE id IN (SELECT id FROM processes WHERE run_id = ?1 ORDER BY id LIMIT ?2)"},
    {"DELETE FROM steps WHERE id IN (SELECT id FROM steps WHERE run_id = ?1 LIMIT ?2)"},
    {"DELETE FROM events WHERE id IN (SELECT id FROM events WHERE run_id = ?1 ORDER BY id LIMIT ?2)"},
    {"UPDATE outbox SET run_id = NULL WHERE id IN (SELECT id FROM outbox WHERE run_id = ?1 LIMIT ?2)"},
};

std::optional<std::int64_t> oldest(db::Query&& q) { return q.one().maybe_integer(0); }

// Whoever reads the stream of events and was not there yet must hear that something is missing.
void note_largest(db::Tx& tx, db::Query& q) {
  if (const auto largest = q.one().maybe_integer(0)) note_pruned(tx, EventId(*largest));
}

}  // namespace

bool records_due(db::ReadTx& tx, const KeepRules& rules, TimeMs now) {
  const auto due = next_forget(tx, {0, 0, rules.commands_for, rules.audit_for}, now);
  if (due && *due <= now) return true;
  if (rules.runs_for == 0) return false;
  const auto unbound = oldest(db::Query(tx, "SELECT min(at) FROM events WHERE run_id IS NULL"));
  return unbound && *unbound + rules.runs_for <= now;
}

int forget_records(db::Tx& tx, const KeepRules& rules, TimeMs now, int most) {
  int left = most;
  note_largest(tx, db::Query(tx,
                             "SELECT max(id) FROM (SELECT id FROM events WHERE kind >= 'control.' AND kind < "
                             "'control/' AND at <= ?1 ORDER BY at, id LIMIT ?2)")
                       .bind(now - limits::kKeepControlMs, left));
  left -= db::Query(tx,
                    "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE kind >= 'control.' AND kind < "
                    "'control/' AND at <= ?1 ORDER BY at, id LIMIT ?2)")
              .bind(now - limits::kKeepControlMs, left)
              .run();
  left -= db::Query(tx,
                    "DELETE FROM idempotency WHERE (principal, key) IN (SELECT principal, key FROM idempotency WHERE "
                    "created_at <= ?1 ORDER BY created_at LIMIT ?2)")
              .bind(now - rules.commands_for, left)
              .run();
  if (rules.audit_for > 0) {
    const std::int64_t upto = keep_chain_base(tx, now - rules.audit_for, left);
    left -= db::Query(tx, "DELETE FROM approvals_audit WHERE id <= ?").bind(upto).run();
  }
  if (rules.runs_for > 0) {
    note_largest(tx, db::Query(tx,
                               "SELECT max(id) FROM (SELECT id FROM events WHERE run_id IS NULL AND at <= ?1 ORDER BY "
                               "at, id LIMIT ?2)")
                         .bind(now - rules.runs_for, left));
    left -= db::Query(tx,
                      "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE run_id IS NULL AND at <= ?1 ORDER "
                      "BY at, id LIMIT ?2)")
                .bind(now - rules.runs_for, left)
                .run();
  }
  return most - left;
}

std::optional<TimeMs> next_forget(db::ReadTx& tx, const KeepRules& rules, TimeMs now) {
  std::optional<TimeMs> next;
  const auto at = [&next](std::optional<std::int64_t> since, DurationMs length) {
    if (since && length > 0) next = next ? std::min(*next, *since + length) : *since + length;
  };
  at(oldest(db::Query(tx, "SELECT min(at) FROM events WHERE kind >= 'control.' AND kind < 'control/'")),
     limits::kKeepControlMs);
  at(oldest(db::Query(tx, "SELECT min(created_at) FROM idempotency")), rules.commands_for);
  if (rules.audit_for > 0) {
    at(oldest(
           db::Query(tx, "SELECT (SELECT at FROM approvals_audit WHERE id = (SELECT min(id) FROM approvals_audit))")),
       rules.audit_for);
  }
  if (rules.runs_for > 0) {
    at(oldest(db::Query(tx, "SELECT min(at) FROM events WHERE run_id IS NULL")), rules.runs_for);
    db::Query q(tx,
                "SELECT min(finished_at) FROM runs WHERE finished_at > ?");  // those before it are held by something
    q.bind(now - rules.runs_for);
    at(q.one().maybe_integer(0), rules.runs_for);
  }
  return next;
}

std::optional<EndMark> end_beyond(db::ReadTx& tx, std::int64_t most) {
  db::Query q(tx,
              "SELECT finished_at, id FROM runs WHERE finished_at IS NOT NULL ORDER BY finished_at DESC, id DESC LIMIT "
              "1 OFFSET ?");
  q.bind(most);
  if (!q.next()) return std::nullopt;
  return EndMark{q.integer(0), RunId(q.integer(1))};
}

ForgetPage forgettable(db::ReadTx& tx, EndMark after, EndMark upto, DurationMs patience, int limit, TimeMs now) {
  ForgetPage page;
  db::Query q(tx,
              "SELECT id, finished_at FROM runs WHERE finished_at >= ?1 AND finished_at <= ?3 AND (finished_at > ?1 OR "
              "id > ?2) AND (finished_at < ?3 OR id <= ?4) AND deleted_at IS NULL ORDER BY finished_at, id LIMIT ?5");
  q.bind(after.finished_at, after.run, upto.finished_at, upto.run.valid() ? upto.run.value : kAnyId, limit);
  while (q.next()) {
    ++page.looked;
    page.last = {q.integer(1), RunId(q.integer(0))};
    const bool held = page.last.finished_at + patience > now && has_deliveries(tx, page.last.run);
    if (!held && needed_by(tx, page.last.run).empty()) page.runs.push_back(page.last.run);
  }
  return page;
}

bool mark_forgotten(db::Tx& tx, RunId run, TimeMs now) {
  if (!needed_by(tx, run).empty()) return false;
  note_largest(tx, db::Query(tx, "SELECT max(id) FROM events WHERE run_id = ?").bind(run));
  return db::Query(tx,
                   "UPDATE runs SET deleted_at = ?2, start_key = NULL WHERE id = ?1 AND finished_at IS NOT NULL AND "
                   "deleted_at IS NULL")
             .bind(run, now)
             .run() == 1;
}

std::vector<RunId> forgotten_runs(db::ReadTx& tx, RunId after, int limit) {
  std::vector<RunId> runs;
  db::Query q(tx, "SELECT id FROM runs WHERE deleted_at IS NOT NULL AND id > ? ORDER BY id LIMIT ?");
  q.bind(after, limit);
  while (q.next()) runs.push_back(RunId(q.integer(0)));
  return runs;
}

std::vector<std::string> process_nonces(db::ReadTx& tx, RunId run, int limit) {
  std::vector<std::string> nonces;
  db::Query q(tx, "SELECT nonce FROM processes WHERE run_id = ? ORDER BY id LIMIT ?");
  q.bind(run, limit);
  while (q.next()) nonces.push_back(q.text(0));
  return nonces;
}

Forgot forget_rows(db::Tx& tx, RunId run, int most) {
  Forgot forgot;
  for (const Leaf& leaf : kLeaves) {
    forgot.rows += db::Query(tx, leaf.drop).bind(run, most - forgot.rows).run();
    if (forgot.rows >= most) return forgot;
  }
  forgot.gone = true;
  forgot.rows += db::Query(tx, "DELETE FROM runs WHERE id = ? AND deleted_at IS NOT NULL").bind(run).run();
  return forgot;
}

DeleteOutcome delete_run(db::Tx& tx, RunId run, std::string_view by, TimeMs now) {
  const std::string number = std::to_string(run.value);
  db::Query q(tx, "SELECT finished_at IS NOT NULL FROM runs WHERE id = ? AND deleted_at IS NULL");
  q.bind(run);
  if (!q.next()) return problem("run_not_found", "There is no run " + number + ".", "bide runs");
  if (q.integer(0) == 0) {
    return problem("run_live", "Run " + number + " has not ended: only what is over is deleted.",
                   "bide cancel " + number);
  }
  if (const std::string why = needed_by(tx, run); !why.empty()) {
    return problem("run_needed", "Run " + number + " is still needed: " + why + ".", "bide explain " + number);
  }
  if (!mark_forgotten(tx, run, now)) throw Bug("delete_run: the row changed under the writer");
  append_event(tx, now, "control.delete", RunId(), StepId(),
               json::Writer().begin_object().member("by", by).member("run", run.value).end_object().text());
  return RunDeleted{};
}

std::vector<VersionRow> unneeded_versions(db::ReadTx& tx, VersionId after, int limit) {
  std::vector<VersionRow> versions;
  db::Query q(tx,
              "SELECT v.id FROM workflow_versions v WHERE v.id > ?1 AND NOT EXISTS (SELECT 1 FROM runs r WHERE "
              "r.workflow_version_id = v.id) AND v.id < (SELECT max(n.id) FROM workflow_versions n WHERE n.workflow_id "
              "= v.workflow_id) ORDER BY v.id LIMIT ?2");
  q.bind(after, limit);
  while (q.next()) versions.push_back(read_version(tx, VersionId(q.integer(0))).value());
  return versions;
}

// "~TEXT~ID": a '~' is in no hash, and what native code declares with one in front only looks retired to
// version_text().
bool retire_version(db::Tx& tx, VersionId version) {
  return db::Query(tx,
                   "UPDATE workflow_versions SET version = '~' || version || '~' || id WHERE id = ?1 AND NOT EXISTS "
                   "(SELECT 1 FROM runs WHERE workflow_version_id = ?1) AND version NOT LIKE '~%'")
             .bind(version)
             .run() == 1;
}

std::string version_text(const VersionRow& version) {
  const std::string tail = "~" + std::to_string(version.id.value);
  const std::string& text = version.version;
  if (!text.starts_with('~') || !text.ends_with(tail) || text.size() <= tail.size()) return text;
  return text.substr(1, text.size() - 1 - tail.size());
}

bool version_in_use(db::ReadTx& tx, std::string_view text) {
  return db::Query(tx, "SELECT 1 FROM workflow_versions WHERE version = ? LIMIT 1").bind(text).next();
}

Forgot forget_version(db::Tx& tx, VersionId version, int most) {
  Forgot forgot;
  std::vector<ProgramFile> files = program_files(tx, version);
  const bool last = static_cast<int>(files.size()) * 2 < most;  // a file and its bytes
  if (!last) files.resize(static_cast<std::size_t>(most / 2));
  for (const ProgramFile& file : files) {
    forgot.rows += db::Query(tx, "DELETE FROM program_files WHERE workflow_version_id = ? AND path = ?")
                       .bind(version, file.path)
                       .run();
    forgot.rows += db::Query(tx,
                             "DELETE FROM program_bytes WHERE sha256 = ?1 AND NOT EXISTS (SELECT 1 FROM program_files "
                             "WHERE sha256 = ?1)")
                       .bind(db::Blob{file.sha256})
                       .run();
  }
  if (!last) return forgot;
  forgot.gone = true;
  forgot.rows += db::Query(tx,
                           "DELETE FROM workflow_versions WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE "
                           "workflow_version_id = ?1)")
                     .bind(version)
                     .run();
  return forgot;
}

}  // namespace bide::kernel
