// Environments: named folders that runs share [W8]. Rows only; who copies and removes the files is work/environments.h.
// seeding → ready → deleting → gone; seeding → deleting. A change (seeding, deleting) is taken up by one at a time: a
// guarded UPDATE of `updated_at`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/errors.h"
#include "db/tx.h"

namespace bide::kernel {

struct EnvironmentRow {
  std::string name;
  std::string path;  // of the folder
  RunId owner;       // invalid: nobody's
  std::optional<std::string> seed;
  std::string status;
  std::optional<DurationMs> delete_after;
  std::optional<std::string> last_error;
  TimeMs last_used_at = 0;
  TimeMs updated_at = 0;
  TimeMs created_at = 0;
};

// 1 to 64 of a-z A-Z 0-9 . _ -, the first a letter or digit: it is a folder's name.
[[nodiscard]] bool is_environment_name(std::string_view name);

struct NewEnvironment {
  std::string name;  // checked
  std::string path;
  RunId owner;
  std::optional<std::string> seed;
  std::optional<DurationMs> delete_after;
};
// Problem codes: environment_exists 409, too_many_environments 409, run_not_found 404 (the owner).
using AddEnvironment = std::variant<EnvironmentRow, Problem>;
[[nodiscard]] AddEnvironment add_environment(db::Tx& tx, const NewEnvironment& wanted, std::string_view by, TimeMs now);
[[nodiscard]] std::optional<EnvironmentRow> read_environment(db::ReadTx& tx, std::string_view name);
// By name, after one.
[[nodiscard]] std::vector<EnvironmentRow> list_environments(db::ReadTx& tx, std::string_view after, int limit);

// An attempt begins or ends in it. False: it is not ready.
bool use_environment(db::Tx& tx, std::string_view name, TimeMs now);
// Ready ones that nobody has used for their time, or whose owner is gone.
[[nodiscard]] std::vector<std::string> unused_environments(db::ReadTx& tx, TimeMs now);
// Ready or seeding → deleting, taken up by the caller. False: it is neither.
bool begin_deleting(db::Tx& tx, std::string_view name, std::string_view why, TimeMs now);

// Changes that nobody has gone on with since `before`, the oldest first.
[[nodiscard]] std::vector<EnvironmentRow> stalled_changes(db::ReadTx& tx, TimeMs before, int limit);
// Takes a change up. False: somebody else has, or it is done.
bool take_up(db::Tx& tx, const EnvironmentRow& change, TimeMs now);
bool environment_ready(db::Tx& tx, std::string_view name, TimeMs now);    // seeding → ready
bool environment_deleted(db::Tx& tx, std::string_view name, TimeMs now);  // deleting → no row
void note_environment_error(db::Tx& tx, std::string_view name, std::string_view error);

// When an environment's time is over, or a change has stalled, by time alone; nullopt: never.
[[nodiscard]] std::optional<TimeMs> next_environment_due(db::ReadTx& tx);
// Queued runs that wait for an environment (reason environment_missing or environment_seeding) are due now.
int wake_for_environment(db::Tx& tx, TimeMs now);

}  // namespace bide::kernel
