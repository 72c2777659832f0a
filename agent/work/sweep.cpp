#include "agent/work/sweep.h"

#include <algorithm>
#include <array>
#include <limits>

#include "agent/base/log.h"
#include "agent/base/planted.h"
#include "agent/base/thread_name.h"
#include "agent/kernel/children.h"
#include "agent/kernel/pause.h"
#include "agent/kernel/processes.h"
#include "agent/kernel/stalled.h"
#include "agent/work/wall.h"

namespace bide::work {
namespace {

// The order of W2. Places without a duty yet are named so that it cannot change by accident.
constexpr std::array<std::string_view, 13> kOrder = {
    "outbox",  "timers",       "children",     "processes", "overdue",   "tasks", "orphans",
    "stalled", "undispatched", "environments", "schedules", "retention", "hooks"};

std::size_t place_of(std::string_view name) {
  const auto it = std::find(kOrder.begin(), kOrder.end(), name);
  if (it == kOrder.end()) throw Bug("sweep: no such duty: " + std::string(name));
  return static_cast<std::size_t>(it - kOrder.begin());
}

}  // namespace

Sweep::Sweep(db::Store& store, Executor& executor, DurationMs interval)
    : store_(store), executor_(executor), interval_(interval) {
  add("timers", [this](TimeMs now) { return expire(now); });
  add("children", [this](TimeMs now) { return children(now); });
  add("overdue", [this](TimeMs now) { return overdue(now); });
  add("orphans", [this](TimeMs now) { return orphans(now); });
  add("stalled", [this](TimeMs now) { return stalled(now); });
}

Sweep::~Sweep() { stop(); }

void Sweep::add(std::string place, Duty duty) {
  const std::size_t at = place_of(place);
  const auto after =
      std::find_if(duties_.begin(), duties_.end(), [&](const Named& d) { return place_of(d.name) > at; });
  duties_.insert(after, Named{std::move(place), std::move(duty)});
}

SweepReport Sweep::pass() {
  Lock one(pass_mutex_);
  SweepReport report;
  (void)follow_wall(store_);
  for (const Named& duty : duties_) {
    if (closing_.load()) {
      report.cut_short = true;
      break;
    }
    DutyReport done{duty.name, 0, ""};
    try {
      done.done = duty.run(store_.now());
    } catch (const std::exception& e) {
      done.error = e.what();
      ++errors_;
      log::warn("sweep.duty_failed", {{"duty", duty.name}, {"error", done.error}});
      if (report.first_error.empty()) report.first_error = duty.name + ": " + done.error;
    }
    report.duties.push_back(std::move(done));
  }
  if (!report.first_error.empty()) log::error("sweep.failed", {{"error", report.first_error}});
  ++passes_;
  Lock lock(report_mutex_);
  report_ = report;
  return report;
}

SweepReport Sweep::last_report() const {
  Lock lock(report_mutex_);
  return report_;
}

// A4, A5: waits whose deadline has passed. Due timers need nothing: the run row wakes itself [A12].
std::int64_t Sweep::expire(TimeMs) {
  if (store_.clock().held()) return 0;
  std::int64_t done = deadlines();
  while (!closing_.load() && store_.read([&](db::ReadTx& tx) { return kernel::reminder_due(tx, store_.now()); }))
    done += store_.write([](db::Tx& tx) { return kernel::remind_waits(tx, limits::kSweepPage, tx.now()); });
  for (;;) {
    const bool due = store_.read([&](db::ReadTx& tx) { return kernel::expiry_due(tx, store_.now()); });
    if (!due || closing_.load()) return done;
    const auto expired =
        store_.write([](db::Tx& tx) { return kernel::expire_waits(tx, limits::kSweepPage, tx.now()); });
    for (const auto& one : expired) {
      if (one.woke == kernel::Woke::ring_attempt) executor_.ring(one.run);
    }
    if (!expired.empty()) executor_.ring();
    done += static_cast<std::int64_t>(expired.size());
    if (expired.empty()) return done;
  }
}

// X5: runs past their deadline.
std::int64_t Sweep::deadlines() {
  std::int64_t done = 0;
  for (;;) {
    const bool due = store_.read([&](db::ReadTx& tx) { return kernel::deadline_due(tx, store_.now()); });
    if (!due || closing_.load()) return done;
    done += store_.write([&](db::Tx& tx) {
      kernel::Ripples ripples;
      const int ended = kernel::enforce_deadlines(tx, limits::kSweepPage, tx.now(), &ripples);
      executor_.ripple(tx, ripples);
      return ended;
    });
  }
}

std::int64_t Sweep::overdue(TimeMs) {
  next_overdue_ = executor_.abandon_overdue();
  return 0;
}

// W3: the backstop of a child's end. A scan that was cut short by its budget goes on where it stopped.
std::int64_t Sweep::children(TimeMs) {
  if (!children_cursor_.valid() && children_done_at_ && boot_ms() - *children_done_at_ < limits::kOrphanScanMs)
    return 0;
  std::int64_t told = 0;
  for (;;) {
    const auto page =
        store_.read([&](db::ReadTx& tx) { return kernel::ended_children(tx, children_cursor_, limits::kSweepPage); });
    if (!page.ended.empty()) {
      told += store_.write([&](db::Tx& tx) {
        std::int64_t n = 0;
        kernel::Ripples ripples;
        for (const RunId child : page.ended) n += kernel::tell_parent(tx, child, tx.now(), &ripples) ? 1 : 0;
        executor_.ripple(tx, ripples);
        return n;
      });
    }
    children_cursor_ = page.last;
    if (!children_cursor_.valid()) {
      children_done_at_ = boot_ms();
      return told;
    }
    if (told >= limits::kSweepBudget || closing_.load()) return told;
  }
}

// W4: running rows that nobody drives. A scan that was cut short by its budget goes on where it stopped.
std::int64_t Sweep::orphans(TimeMs now) {
  if (BIDE_PLANTED(orphans_left)) return 0;
  if (!orphan_cursor_.valid() && orphans_done_at_ && boot_ms() - *orphans_done_at_ < limits::kOrphanScanMs) return 0;
  std::int64_t queued = 0;
  for (;;) {
    const auto page =
        store_.read([&](db::ReadTx& tx) { return kernel::running_page(tx, orphan_cursor_, limits::kSweepPage); });
    std::vector<kernel::RunningRow> lost;
    for (const auto& row : page) {
      const bool local = row.owner.starts_with("local:");
      const bool lapsed =
          row.lease_until && *row.lease_until <= now && (!lease_lives_ || !lease_lives_(row.run, row.epoch));
      if (local ? BIDE_PLANTED(recovery_of_the_driven) || !executor_.drives(row.run) : lapsed) lost.push_back(row);
    }
    if (!lost.empty()) {
      queued += store_.write([&](db::Tx& tx) {
        std::int64_t n = 0;
        kernel::Ripples ripples;
        for (const auto& row : lost)
          n += kernel::recover_run(tx, row.run, row.epoch, tx.now(), &ripples) != kernel::Recovered::not_orphan ? 1 : 0;
        executor_.ripple(tx, ripples);
        return n;
      });
      executor_.ring();
    }
    if (page.size() < static_cast<std::size_t>(limits::kSweepPage)) {
      orphan_cursor_ = RunId();
      orphans_done_at_ = boot_ms();
      return queued;
    }
    orphan_cursor_ = page.back().run;
    if (queued >= orphan_budget_ || closing_.load()) return queued;
  }
}

// W5: a check now and then finds what is stuck; its re-drives come from an index.
std::int64_t Sweep::stalled(TimeMs now) {
  const kernel::ClaimRules rules = executor_.rules();
  if (stalled_cursor_.valid() || !stalled_done_at_ || boot_ms() - *stalled_done_at_ >= limits::kCheckMs) {
    const bool idle = executor_.idle() && !executor_.door().is_shut() && !store_.clock().held();
    std::int64_t looked = 0;
    do {
      const auto page = store_.read([&](db::ReadTx& tx) {
        return kernel::find_stalled(tx, rules, stalled_cursor_, limits::kSweepPage, idle, now);
      });
      for (const RunId run : page.found) log::warn("run.stalled", {{"run", run.value}});
      if (!page.found.empty()) {
        store_.write([&](db::Tx& tx) {
          for (const RunId run : page.found) kernel::note_stalled(tx, run, tx.now());
        });
      }
      stalled_cursor_ = page.last;
      looked += limits::kSweepPage;
    } while (stalled_cursor_.valid() && looked < limits::kCheckBudget);
    if (!stalled_cursor_.valid()) stalled_done_at_ = boot_ms();
  }
  return redrive(rules);
}

std::int64_t Sweep::redrive(const kernel::ClaimRules& rules) {
  const auto due =
      store_.read([&](db::ReadTx& tx) { return kernel::due_redrives(tx, limits::kSweepPage, store_.now()); });
  std::int64_t done = 0;
  std::string first_error;
  for (const RunId run : due) {
    try {  // one that throws does not stop the rest
      if (!store_.write([&](db::Tx& tx) { return kernel::redrive(tx, rules, run, tx.now()); })) continue;
      ++done;
      if (redriven_) redriven_(run);
    } catch (const std::exception& e) {
      log::warn("sweep.redrive_failed", {{"run", run.value}, {"error", e.what()}});
      if (first_error.empty()) first_error = e.what();
    }
  }
  if (done > 0) executor_.ring();
  if (!first_error.empty()) throw std::runtime_error(first_error);
  return done;
}

void Sweep::start() {
  thread_ = std::jthread([this](std::stop_token stop) { loop(stop); });
}

void Sweep::stop() {
  closing_.store(true);
  if (!thread_.joinable()) return;
  thread_.request_stop();
  alarm_.ring();
  thread_.join();
}

void Sweep::ring() {
  rung_.store(true);
  alarm_.ring();
}

void Sweep::recheck() { alarm_.ring(); }

void Sweep::look_at(BootMs at) {
  if (at < sleeps_until_.load()) ring();
}

void Sweep::loop(std::stop_token stop) {
  name_thread("bide-sweep");
  while (!stop.stop_requested()) {
    sleeps_until_.store(std::numeric_limits<BootMs>::max());  // what comes from here on may be too late for this pass
    rung_.store(false);
    pass();
    for (;;) {
      const auto longest = until_next();
      sleeps_until_.store(longest ? store_.system_clock().boot_ms() + *longest : std::numeric_limits<BootMs>::max());
      if (alarm_.wait(longest) != Alarm::Woke::rung) break;
      if (rung_.load() || stop.stop_requested()) break;
    }
  }
}

// W1: the next pass `interval` after the end of the last while something is unfinished, else at the next due time of
// its own checks. What time makes due in the file is rung by the dispatcher.
std::optional<DurationMs> Sweep::until_next() {
  Lock one(pass_mutex_);  // a pass that was asked for runs on a thread of the asker and moves the cursors
  if (orphan_cursor_.valid() || stalled_cursor_.valid() || children_cursor_.valid()) return interval_;
  if (!last_report().first_error.empty()) return interval_;
  DurationMs longest = limits::kCheckMs;
  for (const auto& look : looks_) {
    if (const auto soon = look(store_.now())) longest = std::min(longest, *soon);
  }
  const BootMs boot = store_.system_clock().boot_ms();
  if (const auto again = store_.clock().look_again_at())
    longest = std::min(longest, std::max<DurationMs>(1, *again - boot));
  if (next_overdue_) longest = std::min(longest, std::max<DurationMs>(0, *next_overdue_ - boot));
  return longest;
}

}  // namespace bide::work
