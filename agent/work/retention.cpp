#include "agent/work/retention.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "agent/base/log.h"
#include "agent/work/folders.h"
#include "db/space.h"

namespace bide::work {

Retention::Retention(db::Store& store, RetentionOptions options) : store_(store), options_(std::move(options)) {}

template <class Job>
auto Retention::timed(Job job) {
  const BootMs began = store_.system_clock().boot_ms();
  auto result = store_.write(job);
  const DurationMs took = store_.system_clock().boot_ms() - began;
  if (took > limits::kRetentionSlowMs)
    batch_ = std::max(limits::kRetentionBatchLeast, batch_ / 2);
  else
    batch_ = std::min(limits::kRetentionBatch, batch_ * 2);
  return result;
}

std::int64_t Retention::pass(TimeMs now) {
  const BootMs boot = store_.system_clock().boot_ms();
  if (store_.clock().held()) return 0;  // C6: who knows what is old
  if (!asked_.exchange(false) && boot < next_) return 0;
  rows_left_ = limits::kRetentionRows;
  entries_left_ = limits::kRetentionEntries;
  more_ = false;
  stuck_.clear();
  std::int64_t done = forget_records(now);
  const std::int64_t runs = forget_runs(now);
  if (runs > 0 || boot >= versions_at_) versions_due_ = true;
  done += runs + forget_versions();
  give_space_back();
  next_ = boot + limits::kRetentionAgainMs;
  if (more_) return done;
  DurationMs wait = limits::kCheckMs;
  const auto due = store_.read([&](db::ReadTx& tx) { return kernel::next_forget(tx, options_.rules, now); });
  if (due) wait = std::clamp(*due - now, limits::kRetentionSoonMs, wait);
  next_ = boot + wait;
  return done;
}

std::optional<DurationMs> Retention::look(TimeMs) {
  if (asked_.load()) return 0;
  return std::max<DurationMs>(0, next_ - store_.system_clock().boot_ms());
}

std::int64_t Retention::forget_records(TimeMs now) {
  std::int64_t done = 0;
  while (store_.read([&](db::ReadTx& tx) { return kernel::records_due(tx, options_.rules, now); })) {
    if (rows_left_ <= 0) {
      more_ = true;
      break;
    }
    const int most = batch_;
    const int gone = timed([&](db::Tx& tx) { return kernel::forget_records(tx, options_.rules, now, most); });
    rows_left_ -= gone;
    done += gone;
    if (gone == 0) break;
  }
  return done;
}

std::int64_t Retention::forget_runs(TimeMs now) {
  std::int64_t done = 0;
  for (;;) {
    const std::vector<RunId> marked = marked_runs();
    if (marked.empty()) {
      if (mark(now) == 0) return done;
      continue;
    }
    std::vector<RunId> ready;
    for (const RunId run : marked) {
      if (remove_files(run)) ready.push_back(run);
      if (entries_left_ <= 0) break;
    }
    done += forget_marked(ready);
    if (rows_left_ <= 0 || entries_left_ <= 0) {
      more_ = true;
      return done;
    }
  }
}

// Marked, and not one whose files are in the way.
std::vector<RunId> Retention::marked_runs() {
  RunId after;
  for (;;) {
    const auto page =
        store_.read([&](db::ReadTx& tx) { return kernel::forgotten_runs(tx, after, limits::kSweepPage); });
    if (page.empty()) return {};
    std::vector<RunId> marked;
    std::copy_if(page.begin(), page.end(), std::back_inserter(marked),
                 [&](RunId run) { return !stuck_.contains(run); });
    if (!marked.empty()) return marked;
    after = page.back();
  }
}

// As many of them as are ready and the budget allows; each commit takes several small ones, or a part of a large one.
std::int64_t Retention::forget_marked(const std::vector<RunId>& runs) {
  std::size_t at = 0;
  while (at < runs.size() && rows_left_ > 0) {
    const int most = batch_;
    if (!remove_outcomes(runs[at])) break;
    struct Gone {
      std::size_t runs = 0;
      int rows = 0;
    };
    const Gone gone = timed([&](db::Tx& tx) {
      Gone now;
      for (std::size_t i = at; i < runs.size() && now.rows < most; ++i) {
        // Files of its processes first: only the first run of a commit may have some.
        if (i > at && !kernel::process_nonces(tx, runs[i], 1).empty()) break;
        const auto one = kernel::forget_rows(tx, runs[i], most - now.rows);
        now.rows += one.rows;
        if (!one.gone) break;
        ++now.runs;
      }
      return now;
    });
    at += gone.runs;
    rows_left_ -= std::max(1, gone.rows);
  }
  return static_cast<std::int64_t>(at);
}

// False: not whole yet, or it cannot be.
bool Retention::remove_files(RunId run) {
  const std::string number = std::to_string(run.value);
  const std::string workspaces = store_.directory() + "/workspaces/";
  try {
    return remove_some(workspaces + number, entries_left_) &&
           remove_some(workspaces + number + ".input.json", entries_left_) &&
           remove_some(store_.directory() + "/outputs/" + number, entries_left_) &&
           remove_some(store_.directory() + "/logs/" + number + ".log", entries_left_) &&
           remove_some(store_.directory() + "/logs/" + number + ".marks", entries_left_);
  } catch (const FolderFault& e) {
    log::warn("retention.files_stay", {{"run", run.value}, {"error", e.what()}});
    stuck_.insert(run);
    return false;
  }
}

// What its processes left lies under their nonces, which go with their rows: those of the next batch.
bool Retention::remove_outcomes(RunId run) {
  const auto nonces =
      store_.read([&](db::ReadTx& tx) { return kernel::process_nonces(tx, run, limits::kRetentionBatch); });
  try {
    for (const std::string& nonce : nonces) {
      int one = 1;
      (void)remove_some(store_.directory() + "/outcomes/" + nonce, one);
    }
    return true;
  } catch (const FolderFault& e) {
    log::warn("retention.files_stay", {{"run", run.value}, {"error", e.what()}});
    stuck_.insert(run);
    return false;
  }
}

// The next runs whose time has come: marks them and says how many.
int Retention::mark(TimeMs now) {
  const auto& rules = options_.rules;
  if (rules.runs_for > 0) {
    const kernel::EndMark upto{now - rules.runs_for, RunId()};
    const DurationMs patience = rules.runs_for + limits::kKeepDeliveriesMs;
    if (const int n = mark_up_to(by_age, upto, patience, limits::kSweepPage, now); n > 0) return n;
  }
  if (rules.runs_most > 0) {
    const auto beyond = store_.read([&](db::ReadTx& tx) { return kernel::end_beyond(tx, rules.runs_most); });
    if (beyond) {
      const int n = mark_up_to(by_count, *beyond, limits::kKeepDeliveriesMs, limits::kSweepPage, now);
      if (n > 0) return n;
    }
  }
  return mark_for_size(now);
}

// The oldest, until what the file holds is small enough: one, then as many as those before make likely, by half.
int Retention::mark_for_size(TimeMs now) {
  if (options_.max_db_bytes <= 0) return 0;
  const std::int64_t used = store_.read([](db::ReadTx& tx) { return db::file_space(tx); }).used_bytes();
  const std::int64_t over = used - options_.max_db_bytes;
  if (over <= 0) return 0;
  int few = 1;
  if (went_ > 0 && used_before_ > used) {
    const std::int64_t each = std::max<std::int64_t>(1, (used_before_ - used) / went_);
    few = static_cast<int>(std::clamp<std::int64_t>(over / (2 * each), 1, limits::kRunsAtOnce));
  }
  went_ = mark_up_to(by_size, {now, RunId()}, limits::kKeepDeliveriesMs, few, now);
  used_before_ = used;
  const BootMs boot = store_.system_clock().boot_ms();
  if (went_ == 0 && !more_ && (said_over_at_ == 0 || boot - said_over_at_ >= limits::kOverMaxLogMs)) {
    said_over_at_ = boot;
    log::warn("retention.over_max",
              {{"max_db_bytes", options_.max_db_bytes},
               {"hint", "nothing that has ended is left to delete: raise it, or look at bide runs"}});
  }
  return went_;
}

int Retention::mark_up_to(Rule rule, kernel::EndMark upto, DurationMs patience, int most, TimeMs now) {
  kernel::EndMark& cursor = cursors_[static_cast<std::size_t>(rule)];
  int looked = 0;
  for (;;) {
    const auto page = store_.read(
        [&](db::ReadTx& tx) { return kernel::forgettable(tx, cursor, upto, patience, limits::kSweepPage, now); });
    looked += page.looked;
    if (!page.runs.empty()) {
      const std::size_t few = std::min(page.runs.size(), static_cast<std::size_t>(most));
      const int marked = store_.write([&](db::Tx& tx) {
        int n = 0;
        for (std::size_t i = 0; i < few; ++i) n += kernel::mark_forgotten(tx, page.runs[i], now) ? 1 : 0;
        return n;
      });
      rows_left_ -= marked;
      // The cursor stays while some of the page are left: what is marked is passed over.
      if (marked > 0 && few == page.runs.size()) cursor = page.last;
      if (marked > 0) return marked;
    }
    if (page.looked < limits::kSweepPage) {
      cursor = {};
      return 0;
    }
    cursor = page.last;
    if (looked >= limits::kSweepBudget) {
      more_ = true;
      return 0;
    }
  }
}

std::int64_t Retention::forget_versions() {
  if (!versions_due_) return 0;
  std::int64_t done = 0;
  VersionId after;
  for (;;) {
    const auto page =
        store_.read([&](db::ReadTx& tx) { return kernel::unneeded_versions(tx, after, limits::kSweepPage); });
    for (const kernel::VersionRow& version : page) {
      if (rows_left_ <= 0 || entries_left_ <= 0) {
        more_ = true;
        return done;
      }
      if (forget_version(version)) ++done;
    }
    if (page.size() < static_cast<std::size_t>(limits::kSweepPage)) break;
    after = page.back().id;
  }
  versions_due_ = false;
  versions_at_ = store_.system_clock().boot_ms() + limits::kVersionsMs;
  return done;
}

// Retired first, so that the same files, found again, are another version; then its folder, then its rows.
bool Retention::forget_version(const kernel::VersionRow& version) {
  const std::string text = kernel::version_text(version);
  if (text == version.version) {
    const bool retired =
        store_.write([&](db::Tx& tx) { return !options_.needed(version) && kernel::retire_version(tx, version.id); });
    if (!retired) return false;
  }
  const std::string folder = store_.directory() + "/versions/" + text;
  const std::string going = store_.directory() + "/versions/.going-" + std::to_string(version.id.value);
  try {
    const bool used = store_.read([&](db::ReadTx& tx) { return kernel::version_in_use(tx, text); });
    kernel::VersionRow same_files;  // of a version that is not there yet
    same_files.version = text;
    if (version.kind == kernel::WorkflowKind::program && !used && !options_.needed(same_files) &&
        ::rename(folder.c_str(), going.c_str()) != 0 && errno != ENOENT) {
      throw FolderFault("cannot rename " + folder + ": " + std::strerror(errno));
    }
    if (!remove_some(going, entries_left_)) {
      more_ = true;
      return false;
    }
  } catch (const FolderFault& e) {
    log::warn("retention.files_stay", {{"version", text}, {"error", e.what()}});
    return false;
  }
  for (;;) {
    const int most = batch_;
    const auto gone = timed([&](db::Tx& tx) {
      return options_.storing() ? kernel::Forgot{} : kernel::forget_version(tx, version.id, most);
    });
    rows_left_ -= std::max(1, gone.rows);
    if (gone.gone) return true;
    if (gone.rows == 0 || rows_left_ <= 0) {
      more_ = true;
      return false;
    }
  }
}

void Retention::give_space_back() {
  const auto space = store_.read([](db::ReadTx& tx) { return db::file_space(tx); });
  const std::int64_t slack = std::max<std::int64_t>(limits::kSpaceSlackPages, space.pages / limits::kSpaceSlackPart);
  std::int64_t spare = space.free - slack;
  if (!giving_back_ && spare < slack) return;  // not worth it yet; once begun, down to the slack
  giving_back_ = spare > 0;
  while (spare > 0) {
    if (rows_left_ <= 0) {
      more_ = true;
      return;
    }
    const int most = static_cast<int>(std::min<std::int64_t>(spare, limits::kSpaceStepPages));
    const int gone = store_.write([&](db::Tx& tx) { return db::give_back_space(tx, most); });
    if (gone == 0) return;
    spare -= gone;
    rows_left_ -= gone;
  }
  giving_back_ = false;
}

}  // namespace bide::work
