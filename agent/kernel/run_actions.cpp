#include "agent/kernel/run_actions.h"

namespace bide::kernel {
namespace {

constexpr std::int64_t kAnyId = 9'000'000'000'000'000'000;

constexpr std::pair<std::string_view, RunAction> kActions[] = {{"cancel", RunAction::cancel},
                                                               {"retry", RunAction::retry},
                                                               {"pause", RunAction::pause},
                                                               {"resume", RunAction::resume}};

// What the filters have in common: ?1 below, ?2 status, ?3 workflow, ?4 mission, ?5 label, ?6 its value, ?7 how many.
#define BIDE_FITS                                                                                                     \
  "r.id < ?1 AND r.deleted_at IS NULL AND (?2 IS NULL OR r.status = ?2) AND (?3 IS NULL OR r.workflow_id = (SELECT "  \
  "id FROM workflows WHERE name = ?3)) AND (?4 IS NULL OR r.mission = ?4) AND (?5 IS NULL OR EXISTS (SELECT 1 FROM "  \
  "json_each(r.labels) l WHERE l.key = ?5 AND (?6 IS NULL OR CAST(l.value AS TEXT) = ?6))) ORDER BY r.id DESC LIMIT " \
  "?7"

std::vector<RunId> read_ids(db::Query&& q, const ActionFilter& filter, RunId before, int limit) {
  std::vector<RunId> ids;
  q.bind(before.valid() ? before.value : kAnyId, filter.status, filter.workflow, filter.mission, filter.label,
         filter.label_value, limit);
  while (q.next()) ids.push_back(RunId(q.integer(0)));
  return ids;
}

}  // namespace

std::optional<RunAction> run_action_from(std::string_view text) {
  for (const auto& [name, action] : kActions) {
    if (name == text) return action;
  }
  return std::nullopt;
}

std::string_view to_text(RunAction action) {
  for (const auto& [name, one] : kActions) {
    if (one == action) return name;
  }
  return "";
}

std::vector<RunId> runs_to_act_on(db::ReadTx& tx, RunAction action, const ActionFilter& filter, RunId before,
                                  int limit) {
  switch (action) {
    case RunAction::cancel:
      return read_ids(db::Query(tx,
                                "SELECT r.id FROM runs r INDEXED BY runs_live WHERE r.finished_at IS NULL AND "
                                "r.cancel_requested_at IS NULL AND " BIDE_FITS),
                      filter, before, limit);
    case RunAction::retry:
      return read_ids(
          db::Query(tx, "SELECT r.id FROM runs r INDEXED BY runs_failed WHERE r.status = 'failed' AND " BIDE_FITS),
          filter, before, limit);
    case RunAction::pause:
      return read_ids(db::Query(tx,
                                "SELECT r.id FROM runs r INDEXED BY runs_live WHERE r.finished_at IS NULL AND "
                                "r.paused_at IS NULL AND " BIDE_FITS),
                      filter, before, limit);
    case RunAction::resume:
      return read_ids(db::Query(tx,
                                "SELECT r.id FROM runs r INDEXED BY runs_live WHERE r.finished_at IS NULL AND "
                                "r.paused_at IS NOT NULL AND " BIDE_FITS),
                      filter, before, limit);
  }
  return {};
}

std::vector<RunId> runs_with_label(db::ReadTx& tx, const ActionFilter& filter, RunId before, int limit) {
  return read_ids(db::Query(tx, "SELECT r.id FROM runs r WHERE " BIDE_FITS), filter, before, limit);
}

std::map<RunStatus, std::int64_t> mission_states(db::ReadTx& tx, std::string_view mission) {
  std::map<RunStatus, std::int64_t> states;
  db::Query q(tx,
              "SELECT status, count(*) FROM runs WHERE mission = ? AND deleted_at IS NULL GROUP BY status ORDER BY "
              "status");
  q.bind(mission);
  while (q.next()) {
    if (const auto status = run_status_from(q.text(0))) states[*status] = q.integer(1);
  }
  return states;
}

std::optional<TimeMs> mission_began(db::ReadTx& tx, std::string_view mission) {
  db::Query q(tx, "SELECT min(created_at) FROM runs WHERE mission = ? AND deleted_at IS NULL");
  q.bind(mission);
  return q.one().maybe_integer(0);
}

}  // namespace bide::kernel
