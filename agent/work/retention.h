// Retention: the sweep's duty that lets go of what is older, more or larger than the operator wants to keep [W9].
// What may go is decided in kernel/retention.h; here are the batches, the files, the space, and when to look again.
//
// A run goes in this order: marked (nobody sees it any more), its files, its rows leaf first, its own row. A process
// that dies in between goes on from the mark. Batches have 500 rows at most, fewer while a commit with one takes long,
// and every pass has a budget: while more is to go the next begins 100 ms later, and all others write in between.
// Space: pages that nothing uses are given back to the file system but for a slack (a tenth of the file, 1 MiB at
// least), which what comes next would take anyway.
//
// Threads: pass() and look() on the sweep's; ask() any (a bell). Failures: a run whose files cannot be removed is
// warned of and tried again at the next look; what the store throws is the duty's error.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/kernel/retention.h"
#include "db/store.h"

namespace bide::work {

struct RetentionOptions {
  kernel::KeepRules rules;
  std::int64_t max_db_bytes = 0;  // of the file, without free pages and WAL; 0: any size
  // Versions that somebody outside of the file needs (registered code, one that was just found for a start), and
  // whether files are being stored right now, whose bytes no version has yet. Asked on the writer: no waiting, no I/O.
  std::function<bool(const kernel::VersionRow&)> needed = [](const kernel::VersionRow&) { return false; };
  std::function<bool()> storing = [] { return false; };
};

class Retention {
 public:
  Retention(db::Store& store, RetentionOptions options);

  // How many records, runs and versions went.
  std::int64_t pass(TimeMs now);
  // In how long the next pass has something to do, as far as this one can tell.
  [[nodiscard]] std::optional<DurationMs> look(TimeMs now);
  // A bell: a run was marked by hand.
  void ask() { asked_.store(true); }

 private:
  enum Rule { by_age, by_count, by_size };
  std::int64_t forget_records(TimeMs now);
  std::int64_t forget_runs(TimeMs now);
  int mark(TimeMs now);
  int mark_up_to(Rule rule, kernel::EndMark upto, DurationMs patience, int most, TimeMs now);
  std::vector<RunId> marked_runs();
  int mark_for_size(TimeMs now);
  bool remove_files(RunId run);
  bool remove_outcomes(RunId run);
  std::int64_t forget_marked(const std::vector<RunId>& runs);
  std::int64_t forget_versions();
  bool forget_version(const kernel::VersionRow& version);
  void give_space_back();
  // One commit, timed: the next batch is as large as this one's time allows.
  template <class Job>
  auto timed(Job job);

  db::Store& store_;
  const RetentionOptions options_;
  std::atomic<bool> asked_{false};
  int batch_ = limits::kRetentionBatchLeast;
  // Of the pass.
  int rows_left_ = 0;
  int entries_left_ = 0;
  bool more_ = false;
  BootMs next_ = 0;
  std::array<kernel::EndMark, 3> cursors_;  // a scan that its budget cut short goes on where it stopped
  std::set<RunId> stuck_;                   // their files could not be removed
  bool giving_back_ = false;
  bool versions_due_ = true;
  BootMs versions_at_ = 0;
  BootMs said_over_at_ = 0;
  // What the last ones that went for their size gave: so that no more go than must.
  std::int64_t used_before_ = 0;
  int went_ = 0;
};

}  // namespace bide::work
