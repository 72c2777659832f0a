// Processes of program runs that nobody of this agent drives: guards and holders of earlier attempts [K7, W7].
#include <poll.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "agent/base/log.h"
#include "agent/work/holder_watch.h"
#include "agent/work/program_attempt.h"
#include "agent/work/program_driver.h"

namespace bide::work {
namespace {

constexpr DurationMs kFinishLookMs = 250;  // as often as a tree is looked at in which a step executes

ProcessKey key_of(const kernel::ProcessRow& row) {
  return {static_cast<int>(row.pid), static_cast<std::uint64_t>(row.pid_start)};
}

// All of them: those that are driven stand among them, and of a guard's run the holders are wanted as a whole.
std::vector<kernel::ProcessRow> all_live(db::ReadTx& tx) {
  std::vector<kernel::ProcessRow> rows;
  for (std::size_t page = limits::kSweepBudget; page == limits::kSweepBudget;) {
    auto more = kernel::live_processes(tx, rows.empty() ? ProcessId() : rows.back().id, limits::kSweepBudget);
    page = more.size();
    rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return rows;
}

}  // namespace

// True: nothing of it is left but holders.
bool ProgramDriver::sweep_guard(const kernel::ProcessRow& row, const std::vector<kernel::ProcessRow>& rows,
                                BootMs since, BootMs now) const {
  if (row.boot_id != boot_id()) return true;
  TreeScope scope{key_of(row), AttemptMark{settings_.socket, row.run.value, row.epoch}};
  // The guard knows its tree best: it has some time to end it, if it lives.
  if (is_alive(scope.root) && now - since < limits::kGuardGraceMs) return false;
  for (const kernel::ProcessRow& other : rows) {
    if (other.run == row.run && other.step) scope.spared.push_back(key_of(other));
  }
  return kill_with_root(scope);
}

// True: its row is stopped.
bool ProgramDriver::sweep_holder(const kernel::ProcessRow& row) {
  const Holder holder = holders_.of_row(row);
  if (!row.holds) return holders_.end(holder);
  const auto found = holders_.look(holder);
  return found == Holders::Found::handed_in || found == Holders::Found::gone;
}

std::int64_t ProgramDriver::sweep_processes(TimeMs) {
  take_back_secrets();
  const BootMs boot = store_.system_clock().boot_ms();  // C6: no step of the wall clock makes a guard younger
  const auto rows = store_.read(all_live);
  std::vector<ProcessId> stopped;
  std::int64_t holders = 0;
  {
    std::set<ProcessId> live;
    for (const auto& row : rows) live.insert(row.id);
    Lock lock(mutex_);
    std::erase_if(first_seen_, [&](const auto& seen) { return !live.contains(seen.first); });
  }
  for (const kernel::ProcessRow& row : rows) {
    BootMs since = boot;
    {
      Lock lock(mutex_);
      const auto driven = driven_.find(row.run);
      // Its driver looks after it, and what its step has left behind ends with the attempt.
      const bool looked_after = row.step && driven != driven_.end() && (row.holds || driven->second == row.epoch);
      if (mine_.contains(row.id) || looked_after) continue;
      since = first_seen_.try_emplace(row.id, boot).first->second;
    }
    if (row.step) {
      if (sweep_holder(row)) ++holders;
    } else if (sweep_guard(row, rows, since, boot)) {
      stopped.push_back(row.id);
    }
  }
  if (!stopped.empty()) {
    store_.write([&](db::Tx& tx) {
      for (const ProcessId id : stopped) kernel::mark_stopped(tx, id, std::nullopt, tx.now());
    });
  }
  if ((!stopped.empty() || holders > 0) && stopped_bell_) stopped_bell_();
  if (!rows.empty()) {
    const bool late = store_.read([&](db::ReadTx& tx) { return kernel::previous_alive_due(tx, store_.now()); });
    if (late) store_.write([](db::Tx& tx) { kernel::mark_previous_alive(tx, tx.now()); });
  }
  return static_cast<std::int64_t>(stopped.size()) + holders;
}

std::optional<DurationMs> ProgramDriver::look_again() const {
  const BootMs now = store_.system_clock().boot_ms();
  Lock lock(mutex_);
  std::optional<DurationMs> soonest;
  for (const auto& [id, since] : first_seen_) {
    // A guard whose agent died needs some milliseconds; one that is stopped may need a person.
    const DurationMs wait = now - since < limits::kGuardSoonMs ? limits::kGuardLookMs : limits::kSweepIntervalMs;
    soonest = soonest ? std::min(*soonest, wait) : wait;
  }
  return soonest;
}

void ProgramDriver::let_finish(flow::Attempt& attempt) {
  HolderWatch steps(attempt, holders_);
  EventBell bell;
  attempt.set_bell([&bell] { bell.ring(); });
  struct Silent {
    flow::Attempt& attempt;
    ~Silent() { attempt.set_bell({}); }
  } silent{attempt};
  std::optional<BootMs> told_at;
  for (;;) {
    attempt.refresh();
    const auto why = attempt.closing();
    if (why == flow::Closing::shutdown || why == flow::Closing::lease_lost) return;
    try {
      (void)steps.look();
      if (steps.alive_but_undo() == 0) return;
      if (attempt.cancel_requested()) {  // V2
        const BootMs now = store_.system_clock().boot_ms();
        if (!told_at) {
          told_at = now;
          steps.terminate();
        } else if (now - *told_at >= settings_.cancel_grace) {
          steps.end();
          return;
        }
      }
    } catch (const CannotLook& e) {
      log::warn("program.cannot_look", {{"run", attempt.run().id.value}, {"error", e.what()}});
    }
    pollfd rung{bell.fd(), POLLIN, 0};
    ::poll(&rung, 1, static_cast<int>(kFinishLookMs));
    bell.clear();
  }
}

}  // namespace bide::work
