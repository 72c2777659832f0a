// Retention: what leaves the file, and when [W9]. Rows go leaf first, a bounded number a call: the caller commits
// between.
//
// What is decided here:
// - A run that is to go is marked (`deleted_at`) and from then on shown to nobody; its start key is free again.
// - Never gone: a live run, one with a process that is not stopped, one whose forks are in the file (their copied
//   entries take their keys from it). A child that did not complete stays as long as a parent that may be retried, for
//   the retry begins it again; a completed one goes by its own age, its result stands in the parent's step [D3].
//   When a parent goes, what is left of its children stands alone.
// - A run with rows in the outbox stays 7 days longer; then they stay without it. Parked rows are never deleted.
// - Of a chain of continued runs each goes by its own age; `continued_from` may name a run that is gone, and no id ever
//   comes back [D2]. The sums of a mission are those of the runs that are kept.
// - The audit outlives its runs and has a time of its own.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/errors.h"
#include "agent/base/limits.h"
#include "agent/kernel/workflows.h"
#include "db/tx.h"

namespace bide::kernel {

struct KeepRules {
  DurationMs runs_for = limits::kKeepRunsMs;  // after their end; 0: for ever
  std::int64_t runs_most = 0;                 // ended runs; 0: any number
  DurationMs commands_for = limits::kKeepCommandsMs;
  DurationMs audit_for = 0;  // 0: for ever
};

// Control events, events of no run, answers of commands, audit rows: whether any is past its time, and up to `most` of
// them deleted (returns how many).
[[nodiscard]] bool records_due(db::ReadTx& tx, const KeepRules& rules, TimeMs now);
int forget_records(db::Tx& tx, const KeepRules& rules, TimeMs now, int most);
// When something is past its time that is not yet, by age; nullopt: nothing will be.
[[nodiscard]] std::optional<TimeMs> next_forget(db::ReadTx& tx, const KeepRules& rules, TimeMs now);

// A place in the order of ends.
struct EndMark {
  TimeMs finished_at = 0;
  RunId run;
};
// The end of the run that is one too many: it and all before it are. nullopt: there are no more than `most`.
[[nodiscard]] std::optional<EndMark> end_beyond(db::ReadTx& tx, std::int64_t most);
struct ForgetPage {
  std::vector<RunId> runs;  // may go
  EndMark last;             // go on after it
  int looked = 0;
};
// Ended runs after `after` up to `upto`, `limit` looked at. `patience`: rows in the outbox hold a run that ended less
// long ago.
[[nodiscard]] ForgetPage forgettable(db::ReadTx& tx, EndMark after, EndMark upto, DurationMs patience, int limit,
                                     TimeMs now);
// Marks a run. False: it may not go (any more).
bool mark_forgotten(db::Tx& tx, RunId run, TimeMs now);
// Marked ones, by id, after one.
[[nodiscard]] std::vector<RunId> forgotten_runs(db::ReadTx& tx, RunId after, int limit);
// The nonces of the first processes of a marked run: what their files are called.
[[nodiscard]] std::vector<std::string> process_nonces(db::ReadTx& tx, RunId run, int limit);
struct Forgot {
  int rows = 0;
  bool gone = false;  // the run's own row too
};
// Deletes up to `most` rows of a marked run, leaves first, processes in the order of process_nonces.
Forgot forget_rows(db::Tx& tx, RunId run, int most);

// DELETE of a person: marked now. Problem codes: run_not_found 404, run_live 409, run_needed 409.
struct RunDeleted {};
using DeleteOutcome = std::variant<RunDeleted, Problem>;
[[nodiscard]] DeleteOutcome delete_run(db::Tx& tx, RunId run, std::string_view by, TimeMs now);

// Versions that no run has and that are not their workflow's newest, after an id; retired ones among them.
[[nodiscard]] std::vector<VersionRow> unneeded_versions(db::ReadTx& tx, VersionId after, int limit);
// From here on nobody finds it under its text: the same files are a new version. False: a run has it.
bool retire_version(db::Tx& tx, VersionId version);
// The text that a version had, retired or not.
[[nodiscard]] std::string version_text(const VersionRow& version);
// Another version has this text: its files are still needed.
[[nodiscard]] bool version_in_use(db::ReadTx& tx, std::string_view text);
// Up to `most` rows of a retired version: its files, bytes that no other has, at last itself.
Forgot forget_version(db::Tx& tx, VersionId version, int most);

}  // namespace bide::kernel
