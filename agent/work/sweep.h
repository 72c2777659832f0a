// Sweep: one pass of duties at a time, in order, each isolated [W1, W2]. It mends what a bell was lost for.
//
// Threads: pass() from one thread at a time; the shell thread waits on an Alarm until something may be due.
// Failures: what a duty throws is logged as a warning and counted; the others run; the first is in the report.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/base/alarm.h"
#include "agent/base/mutex.h"
#include "agent/kernel/waits.h"
#include "agent/work/executor.h"
#include "db/store.h"

namespace bide::work {

struct DutyReport {
  std::string name;
  std::int64_t done = 0;  // things it moved
  std::string error;      // empty: went well
};
struct SweepReport {
  std::vector<DutyReport> duties;
  std::string first_error;  // "duty: what"
  bool cut_short = false;   // closing began
};

class Sweep {
 public:
  Sweep(db::Store& store, Executor& executor, DurationMs interval = limits::kSweepIntervalMs);
  ~Sweep();
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  // A duty of its own kind (processes, delivery, hooks); it returns how many things it moved. Before start().
  // `place` is its name in the order of W2: outbox, timers, children, processes, tasks, orphans, stalled, undispatched,
  // environments, schedules, retention, hooks.
  using Duty = std::function<std::int64_t(TimeMs now)>;
  void add(std::string place, Duty duty);

  SweepReport pass();
  [[nodiscard]] SweepReport last_report() const;
  // Since the start: passes that ended, and duties that failed in them.
  [[nodiscard]] std::uint64_t passes() const { return passes_.load(); }
  [[nodiscard]] std::uint64_t errors() const { return errors_.load(); }

  // Asked at the end of a pass: in how long something that a duty watches wants another look. Before start().
  void add_look(std::function<std::optional<DurationMs>(TimeMs now)> look) { looks_.push_back(std::move(look)); }
  // W10: native code hears of each re-drive; what it throws is that run's own trouble. Before start().
  void on_redrive(std::function<void(RunId)> hook) { redriven_ = std::move(hook); }
  // Whether the lease of a remote attempt lives, by the clock that does not jump; absent: the file says it [C6, W4].
  // Before start().
  void set_lease_lives(std::function<bool(RunId, std::int64_t epoch)> lives) { lease_lives_ = std::move(lives); }
  // Runs that a pass may take over before it stops at a page's end [W4]; tests lower it. Before start().
  void set_orphan_budget(int runs) { orphan_budget_ = runs; }

  void start();
  void stop();  // closing: the duty that runs ends, later ones do not begin [W2]
  void ring();  // a bell: something may be due
  // A bell: something of an attempt may be overdue then; the next pass is no later.
  void look_at(BootMs at);
  // W1: in how long the next pass may find something by itself; until then only a bell calls for one.
  [[nodiscard]] std::optional<DurationMs> until_next();
  // A bell: something will be due that the last pass did not know of. Looks again when to begin the next; no pass yet.
  void recheck();

 private:
  struct Named {
    std::string name;
    Duty run;
  };
  std::int64_t expire(TimeMs now);
  std::int64_t deadlines();
  std::int64_t children(TimeMs now);
  std::int64_t orphans(TimeMs now);
  std::int64_t stalled(TimeMs now);
  std::int64_t redrive(const kernel::ClaimRules& rules);
  std::int64_t overdue(TimeMs now);
  void loop(std::stop_token stop);

  db::Store& store_;
  Executor& executor_;
  const DurationMs interval_;
  std::vector<Named> duties_;
  std::vector<std::function<std::optional<DurationMs>(TimeMs)>> looks_;
  std::function<void(RunId)> redriven_;
  std::function<bool(RunId, std::int64_t)> lease_lives_;
  int orphan_budget_ = limits::kSweepBudget;

  std::atomic<bool> closing_{false};
  std::atomic<bool> rung_{false};
  std::atomic<std::uint64_t> passes_{0};
  std::atomic<std::uint64_t> errors_{0};
  Mutex pass_mutex_;  // one pass at a time
  // Of the pass.
  StepId children_cursor_;
  // Marks of its own are on the clock that nobody sets [C6].
  [[nodiscard]] BootMs boot_ms() const { return store_.system_clock().boot_ms(); }
  std::optional<BootMs> children_done_at_;
  RunId orphan_cursor_;
  std::optional<BootMs> orphans_done_at_;
  RunId stalled_cursor_;
  std::optional<BootMs> stalled_done_at_;
  std::optional<BootMs> next_overdue_;
  std::atomic<BootMs> sleeps_until_{0};  // of the boot-time clock; 0: no loop

  mutable Mutex report_mutex_;
  SweepReport report_ GUARDED_BY(report_mutex_);

  Alarm alarm_;
  std::jthread thread_;
};

}  // namespace bide::work
